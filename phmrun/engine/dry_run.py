"""Plan of a training run: data, parameter counts, run id and learning rates, without training."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, run_id
from phmrun.engine.adaptation import EXTENDS, code_marks, with_base
from phmrun.engine.counting import count_parameters, network_without_weights
from phmrun.engine.optimizers import Rate, rate_table
from phmrun.engine.preparation import build_data, prepare
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run
from phmrun.registry import plugin_marks


@dataclass(frozen=True)
class DryRun:
    """Plan of a training run.

    Attributes:
        data: Statistics of the prepared data.
        parameters: Parameter counts: see :func:`phmrun.engine.counting.count_parameters`.
        run_id: Id of the run.
        rates: Factors of learning rate and weight decay by parameter; empty if ``rates`` is "one" and ``map_rate`` 1.
    """

    data: dict[str, Any]
    parameters: dict[str, Any]
    run_id: str
    rates: list[Rate]


def dry_run(config: Experiment, *, plugins: Mapping[Path, str] | None = None, parent: Run | None = None) -> DryRun:
    """Prepare the data and count the parameters, without training.

    No run directory is written. Doubts about the data are logged.

    Args:
        config: Resolved config.
        plugins: SHA-256 of the user's plug-in files, by file.
        parent: Run to extend or adapt.

    Raises:
        PhmrunError: The data are missing or malformed (exit 3), the model cannot be built, or ``score_on`` names a
            split that the data lack (exit 2).
    """
    config, parent = with_base(config, parent)
    data = build_data(config)
    data.require("train")
    marks = {**data.fingerprints(), **plugin_marks(plugins or {}), **code_marks(config)}
    name = run_id(config, fingerprints=marks | ({EXTENDS: parent.id} if parent else {}))
    prepare(config, data)
    sizes = data.vocabulary.sizes
    rates = rate_table(network_without_weights(config, sizes), config.training.optimizer)
    return DryRun(data.statistics(), count_parameters(config, sizes), name, rates)


def vocabulary_sizes(config: Experiment) -> tuple[int, ...] | None:
    """Return the sizes of the vocabulary that ``train`` would learn.

    The data are prepared for this. The result is ``None`` if building the data fails with exit 3, or if they have no
    training split.

    Raises:
        PhmrunError: The config does not fit the data, or the data are malformed.
    """
    try:
        data = build_data(config)
    except PhmrunError as error:
        if error.code == ExitCode.DATA:
            return None
        raise
    # A task without a built-in corpus has no training data until files or a dataset are named.
    return data.vocabulary.sizes if "train" in data.files else None
