"""Preparation of an experiment: its data module, checked and prepared."""

import logging

from phmrun.config import Experiment, Task
from phmrun.datasets import CATALOGUE
from phmrun.datasets.reading import verify_sizes
from phmrun.engine.adaptation import with_base_vocabulary
from phmrun.engine.data import DataModule, doubts
from phmrun.errors import PhmrunError
from phmrun.files import cache_dir
from phmrun.ledger.outcome import is_leader
from phmrun.registry import TASKS

LOG = logging.getLogger("phmrun.engine")


def build_data(config: Experiment) -> DataModule:
    """Return the task's data module for a config, not yet prepared.

    With a base run (``adapts``), the data have its vocabulary if the task can read one from a folder.
    """
    config = with_base_vocabulary(config)
    task: Task = TASKS.get(config.task)
    data: DataModule = task.load("data")(config, cache_dir())
    return data


def prepare(config: Experiment, data: DataModule) -> None:
    """Check and prepare the data, and log warnings about them.

    Sizes of datasets are compared with the published ones, and every split is read, so that no fault of a test set
    shows after training. Splits in ``score_on`` must exist. Only the first process warns.

    Raises:
        PhmrunError: The data differ from the published sizes or are malformed (exit 3), or lack a split (exit 2).
    """
    if absent := [split for split in config.score_on if split not in data.files]:
        raise PhmrunError(f"the data have no split {absent[0]!r}", where="score_on", valid=sorted(data.files))
    if config.data.name in CATALOGUE.names():
        verify_sizes(config.data.name, cache_dir())
    else:
        for split in sorted(data.files.keys() - {"train", "dev"}):
            data.check(split)
    data.prepare()
    if is_leader():
        for doubt in doubts(config, data):
            LOG.warning("%s", doubt)
