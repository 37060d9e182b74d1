"""A look at an experiment: its network on the meta device, the checksums of its data. Each is looked at once."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from phmrun.config import Experiment
from phmrun.engine.counting import count_parameters
from phmrun.engine.data import DataModule
from phmrun.engine.experiment import build_data, fingerprints, plugin_marks
from phmrun.errors import ExitCode, PhmrunError
from phmrun.sweeps.ledger import Recorded
from phmrun.sweeps.plan import Inspect, Inspected

TRAINING = {"seed", "batch", "training", "distillation", "decoding", "hardware", "logging"}
"""What an experiment does with its network and its data; neither depends on it."""
LAYERS = {"layer", "embedding", "output"}
"""What the data do not depend on either; the network depends on the sizes of the data's vocabulary, not on the rest."""


def inspector(plugins: Mapping[Path, str], recorded: Recorded | None = None) -> Inspect:
    """A look that remembers: a network that is asked for again is not built again, nor are files read again.

    Args:
        plugins: SHA-256 of the user's own layers, by file.
        recorded: The checksums of data that are not here, as runs have them on record; without it they are missing.
    """

    def look(config: Experiment) -> tuple[dict[str, str], tuple[int, ...] | None]:
        data = build_data(config)
        return fingerprints(data, plugins), _learnt_sizes(data)

    data_of = _remembered(look)
    counts: dict[str, int | PhmrunError] = {}

    def inspect(config: Experiment) -> Inspected:
        values = config.model_dump(mode="json", exclude=TRAINING)
        absent: PhmrunError | None = None
        try:
            marks, learnt = data_of(config, _key({key: value for key, value in values.items() if key not in LAYERS}))
        except PhmrunError as error:
            known = recorded(config) if recorded and error.code == ExitCode.DATA else None
            absent = error if known is None else None
            marks, learnt = {**(known or {}), **plugin_marks(plugins)}, None
        sizes = learnt or config.sizes
        key = _key({name: value for name, value in values.items() if name != "data"} | {"sizes": sizes})
        if key not in counts:
            try:
                counts[key] = int(count_parameters(config, sizes)["total"])
            except PhmrunError as error:
                counts[key] = error
        count = counts[key]
        if isinstance(count, PhmrunError):
            raise count
        if absent is not None:
            raise absent
        return Inspected(count, marks, learnt is not None)

    return inspect


def _learnt_sizes(data: DataModule) -> tuple[int, ...] | None:
    """Of the vocabulary that is learnt from the data; ``None``: they are too large to be read for a plan."""
    size = sum(path.stat().st_size for path in data.sources("train"))
    return data.vocabulary.sizes if size <= SMALL else None


SMALL = 32 << 20
"""Bytes of training data that are read for a plan; what is learnt from more is counted by what is asked for."""


def _key(values: Any) -> str:
    return json.dumps(values, sort_keys=True)


def _remembered(look: Callable[[Experiment], Any]) -> Callable[[Experiment, str], Any]:
    """``look``, done once for every key; a refusal is remembered as well."""
    found: dict[str, Any] = {}

    def remembered(config: Experiment, key: str) -> Any:
        if key not in found:
            try:
                found[key] = look(config)
            except PhmrunError as error:
                found[key] = error
        if isinstance(found[key], PhmrunError):
            raise found[key]
        return found[key]

    return remembered
