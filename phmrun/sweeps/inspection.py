"""Inspection of experiments: parameters counted on the meta device, checksums of the data.

Results are cached.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from phmrun.config import Experiment
from phmrun.engine.code import code_marks
from phmrun.engine.counting import count_parameters
from phmrun.engine.data import build_data
from phmrun.errors import PhmrunError
from phmrun.registry import plugin_marks
from phmrun.sweeps.cell import Inspect, Inspected

TRAINING = {"seed", "batch", "training", "distillation", "decoding", "hardware", "logging", "provenance"}
"""Sections that neither the network nor the data depend on."""
LAYERS = {"layer", "embedding", "output", "maps"}
"""Sections that the data do not depend on. The network does, and on ``model`` and the vocabulary's sizes."""
SMALL = 32 << 20
"""Limit in bytes of training data read for a plan; above it, the configured vocabulary sizes are counted."""
Answer = TypeVar("Answer")


def inspector(plugins: Mapping[Path, str]) -> Inspect:
    """Return an inspector of experiments that caches counts and checksums.

    It counts the parameters for the vocabulary of the data if they are on this machine and small (``SMALL``), else for
    the configured sizes. It raises a `PhmrunError` (exit 2) if the network cannot be built, or (exit 3) if the data are
    missing or malformed. Errors are cached, too. Checksums include those of plug-ins and code. The result says whether
    the count is that of the data's vocabulary.

    Args:
        plugins: Checksums of the user's plug-ins, by file.
    """
    data_by_settings: dict[str, Any] = {}

    def data_of(config: Experiment) -> tuple[dict[str, str], tuple[int, ...] | None]:
        """Return the checksums of data and plug-ins, and vocabulary sizes; ``None`` for large data."""
        data = build_data(config)
        data.require("train")
        small = sum(path.stat().st_size for path in data.sources("train")) <= SMALL
        return {**data.fingerprints(), **plugin_marks(plugins)}, data.vocabulary.sizes if small else None

    def inspect(config: Experiment) -> Inspected:
        """Return parameters, checksums, and True if the count is exact; an error of the network goes first."""
        values = config.model_dump(mode="json", exclude=TRAINING)
        absent: PhmrunError | None = None
        try:
            shared = {key: value for key, value in values.items() if key not in LAYERS}
            marks, learnt = _once(data_by_settings, shared, lambda: data_of(config))
            marks = {**marks, **code_marks(config)}
        except PhmrunError as error:
            absent, marks, learnt = error, {}, None
        sizes = learnt or config.sizes
        about = {name: value for name, value in values.items() if name != "data"} | {"sizes": sizes}
        count = _once(_COUNTS, about, lambda: int(count_parameters(config, sizes)["total"]))
        # Raised last: a network that cannot be built is reported even if the data are missing.
        if absent is not None:
            raise absent
        return Inspected(count, marks, learnt is not None)

    return inspect


_COUNTS: dict[str, Any] = {}
"""Parameters of networks by their settings; these, unlike data, do not change within a process."""


def _once(answers: dict[str, Any], about: object, look: Callable[[], Answer]) -> Answer:
    """Return the cached answer for a key, or raise its cached error.

    ``look`` is called for a new key only; its answer, or its PhmrunError, is added to ``answers``. The key is ``about``
    as JSON.
    """
    key = json.dumps(about)
    if key not in answers:
        try:
            answers[key] = look()
        except PhmrunError as error:
            answers[key] = error
    if isinstance(answers[key], PhmrunError):
        raise answers[key]
    return answers[key]
