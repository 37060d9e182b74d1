"""A look at an experiment: its network on the meta device, the checksums of its data. Each is looked at once.

Of data that are not here the ledger knows the checksums: with them a plan names the runs that learnt from them.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from phmrun.config import Experiment
from phmrun.config.layering import OptionsOf
from phmrun.engine.code import foreign_marks
from phmrun.engine.counting import count_parameters
from phmrun.engine.data import DataModule
from phmrun.engine.experiment import build_data, plugin_marks
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger.listing import RunSummary, list_runs
from phmrun.ledger.run import CONFIG
from phmrun.results.entries import DATA, entry_of_run, settings_of
from phmrun.sweeps.plan import Inspect, Inspected

TRAINING = {"seed", "batch", "training", "distillation", "decoding", "hardware", "logging"}
"""What an experiment does with its network and its data; neither depends on it."""
LAYERS = {"layer", "embedding", "output"}
"""What the data do not depend on either; the network depends on the sizes of the data's vocabulary, not on the rest."""
SMALL = 32 << 20
"""Bytes of training data that are read for a plan; what is learnt from more is counted by what is asked for."""
Recorded = Callable[[Experiment], Mapping[str, str] | None]
"""The checksums of an experiment's data, by name, as runs have them on record; ``None``: no run learnt from them."""
Answer = TypeVar("Answer")


def inspector(plugins: Mapping[Path, str], recorded: Recorded | None = None) -> Inspect:
    """A look that remembers: a network that is asked for again is not built again, nor are files read again.

    ``plugins`` are the checksums of the user's own layers, by file; without ``recorded``, data that are not here miss.
    """
    found: dict[str, Any] = {}

    def once(look: Callable[[], Answer], about: object) -> Answer:
        """What a look finds, done once for all that is alike; a refusal is remembered as well."""
        key = json.dumps(about, sort_keys=True)
        if key not in found:
            try:
                found[key] = look()
            except PhmrunError as error:
                found[key] = error
        if isinstance(found[key], PhmrunError):
            raise found[key]
        return found[key]

    def data_of(config: Experiment) -> tuple[dict[str, str], tuple[int, ...] | None]:
        data = build_data(config)
        data.require("train")
        return {**data.fingerprints(), **plugin_marks(plugins)}, _learnt_sizes(data)

    def inspect(config: Experiment) -> Inspected:
        values = config.model_dump(mode="json", exclude=TRAINING)
        absent: PhmrunError | None = None
        try:
            shared = {key: value for key, value in values.items() if key not in LAYERS}
            marks, learnt = once(lambda: data_of(config), ["data", shared])
            marks = {**marks, **foreign_marks(config)}
        except PhmrunError as error:
            known = recorded(config) if recorded and error.code == ExitCode.DATA else None
            absent = error if known is None else None
            marks, learnt = {**(known or {}), **plugin_marks(plugins), **foreign_marks(config)}, None
        sizes = learnt or config.sizes
        about = {name: value for name, value in values.items() if name != "data"} | {"sizes": sizes}
        count = once(lambda: int(count_parameters(config, sizes)["total"]), ["network", about])
        # Only now, so that settings which cannot be built are told as such also where their data are absent.
        if absent is not None:
            raise absent
        return Inspected(count, marks, learnt is not None)

    return inspect


def _learnt_sizes(data: DataModule) -> tuple[int, ...] | None:
    """Of the vocabulary that is learnt from the data; ``None``: they are too large to be read for a plan."""
    size = sum(path.stat().st_size for path in data.sources("train"))
    return data.vocabulary.sizes if size <= SMALL else None


def recorded_data(runs_dir: Path, options_of: OptionsOf) -> Recorded:
    """A look-up in the runs of a directory, which are read when it is first asked.

    It raises a `PhmrunError` where runs with the same settings of their data have other checksums on record.
    """

    @cache
    def by_settings() -> dict[str, dict[str, str]]:
        """The names of runs by the settings of their data and by the checksums of these."""
        found: dict[str, dict[str, str]] = {}
        for run in list_runs(runs_dir):
            settings, marks = _learnt_from(run, options_of)
            if marks:
                found.setdefault(settings, {})[marks] = run.id
        return found

    def look(config: Experiment) -> Mapping[str, str] | None:
        found = by_settings().get(_key(settings_of(config)), {})
        if len(found) > 1:
            raise PhmrunError(
                f"runs on data of these settings learnt from other files each: {', '.join(found.values())}",
                where=str(runs_dir),
                hint="The data of the sweep are not here to tell which is meant. Name the runs instead of the file.",
            )
        return json.loads(next(iter(found))) if found else None

    return look


def _learnt_from(run: RunSummary, options_of: OptionsOf) -> tuple[str, str]:
    """What data a run learnt from, by its settings and by its checksums; those are read once while its config stands.

    A run without checksums is read again, as it may only have begun.
    """
    config = run.path / CONFIG
    key = (config, config.stat().st_mtime_ns if config.is_file() else 0, options_of)
    if key in _READ:
        return _READ[key]
    entry = entry_of_run(run, options_of)
    marks = {name: mark for name, mark in entry.marks.items() if not name.startswith(("plugin ", "package "))}
    if not marks:
        return _key(entry.settings), ""
    _READ[key] = _key(entry.settings), json.dumps(marks, sort_keys=True)
    return _READ[key]


_READ: dict[tuple[Path, int, OptionsOf], tuple[str, str]] = {}


def _key(settings: Mapping[str, object]) -> str:
    """What data an experiment learns from: its task and the settings of its data."""
    chosen = {key: value for key, value in settings.items() if key == "task" or key.partition(".")[0] == DATA}
    return json.dumps(chosen, sort_keys=True, default=str)
