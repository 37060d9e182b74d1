"""A look at an experiment: its network on the meta device, the checksums of its data. Each is looked at once."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from phmrun.config import Experiment
from phmrun.engine.counting import count_parameters
from phmrun.engine.experiment import build_data, fingerprints
from phmrun.errors import PhmrunError
from phmrun.sweeps.plan import Inspect, Inspected

COURSE = {"seed", "batch", "training", "decoding", "hardware", "logging"}
"""What an experiment does with its network and its data; neither depends on it."""
LAYERS = {"layer", "embedding", "output"}
"""What the data do not depend on either; the network depends on the sizes of the data's vocabulary, not on the rest."""


def inspector(plugins: Mapping[Path, str]) -> Inspect:
    """A look that remembers: a network that is asked for again is not built again, nor are files read again.

    Args:
        plugins: SHA-256 of the user's own layers, by file.
    """
    count = _remembered(lambda config: int(count_parameters(config)["total"]))
    marks = _remembered(lambda config: fingerprints(build_data(config), plugins))

    def inspect(config: Experiment) -> Inspected:
        values = config.model_dump(mode="json", exclude=COURSE)
        network = {key: value for key, value in values.items() if key != "data"} | {"sizes": config.sizes}
        data = {key: value for key, value in values.items() if key not in LAYERS}
        return Inspected(count(config, _key(network)), marks(config, _key(data)))

    return inspect


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
