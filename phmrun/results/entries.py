"""Experiments of a table: identity, labels, keys that separate them.

Imports no torch.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, LayerConfig, Source, run_id, semantic_values
from phmrun.config.layering import run_config
from phmrun.config.options import options_of
from phmrun.documents import value_at
from phmrun.errors import PhmrunError, counted
from phmrun.files import sha256_of
from phmrun.grouping import grouped_by
from phmrun.ledger import Run
from phmrun.ledger.directory import layer_label, network_label
from phmrun.ledger.status import State
from phmrun.registry import EMBEDDINGS

SEED = "seed"
DATA = "data"
MADE = "made"  # key that marks a run of another release
OWN_FILES = "files"


@dataclass(frozen=True)
class Entry:
    """Experiment that a table may show."""

    at: Mapping[str, str]  # its value of each key of its sweep, as text; also row and column of a paper's table
    config: Mapping[str, Any]  # its configuration as nested values
    run: Run | None  # its run; ``None`` if there is none yet
    settings: Mapping[str, Any] = field(default_factory=dict)  # identity by dotted key, without seed and defaults
    marks: Mapping[str, str] = field(default_factory=dict)  # SHA-256 sums of data and plug-ins, by name; may be empty
    departs: str = ""  # differences from its row in the paper, or from this version of phmrun; empty if none
    at_edge: tuple[str, ...] = ()  # tuned keys whose value is the least or greatest tried
    chose_settings: bool = False  # True if the row's tuned values were chosen with this seed
    choices: int = 0  # number of values among which its seed chose by itself; 0 unless it is a replicate
    baseline: bool | None = None  # True for the baseline that its sweep names; ``None`` if it names none
    diverged: bool = False  # True if training stopped at a loss or weight that is NaN or infinite
    _labels: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def label(self, key: str) -> str:
        """Return its value at a key of sweep or configuration, as text; see :meth:`_label`."""
        if key not in self._labels:
            self._labels[key] = self._label(key)
        return self._labels[key]

    def _label(self, key: str) -> str:
        """Return its value at a key of sweep or configuration, as text.

        The sweep's value goes first. Keys of the configuration are dotted. "layer" covers all parts of the network that
        are not dense. "data" of the user's own files is the first training file's name with six digits of a checksum of
        all; without checksums, its path and "(no checksum on record)". A section gives its layer's label, else its
        name. A key that the configuration lacks is looked up in checksums, then settings, and cut to 40 characters; the
        result is empty if none has it.
        """
        if key in self.at:
            return self.at[key]
        value = value_at(self.config, key)
        if key == "layer":
            value = network_label(self.config)
        elif key == DATA and self.own_data:  # ``train.en 1a2b3c``: the first file, and a checksum of all
            train = next((files for name, files in self.config[DATA].items() if name.startswith("train") and files), "")
            named = str(train[0] if isinstance(train, list) else train)
            if not self.marks:
                return f"{named} (no checksum on record)"
            digest = hashlib.sha256(json.dumps(dict(self.marks), sort_keys=True).encode()).hexdigest()
            return f"{Path(named).name} {digest[:6]}"
        elif isinstance(value, Mapping):
            value = layer_label(value) if "structure" in value else value.get("name")
        if value is None:
            return self.marks.get(key, str(self.settings.get(key, "")))[:40]
        return str(value)

    @property
    def seed(self) -> Any:
        """Seed at the cell's place in the sweep, else of the configuration.

        It is ``None`` without either.
        """
        return self.at.get(SEED, self.config.get(SEED))

    @property
    def length(self) -> str:
        """Length of training: "2,000 steps" or "10 epochs".

        Both may be joined by "or". It is the steps made if there is a run that is neither done nor diverged, else
        the configured length; empty if that names none.
        """
        status = self.run.status if self.run else None
        if status and status.state is not State.DONE and not self.diverged:
            return counted(status.step, "step")
        training = self.config.get("training")
        limits = [(training.get(f"max_{unit}"), unit) for unit in ("steps", "epochs")] if training else []
        return " or ".join(f"{limit:,} {unit}" for limit, unit in limits if limit)

    @property
    def unfinished(self) -> str:
        """State and step of an unfinished run, for readers: "RUN is interrupted at step 40".

        The step is left out without a status. The text is empty if the run is done or there is none.
        """
        if self.run is None or self.run.state == State.DONE:
            return ""
        status = self.run.status
        return f"{self.run.id} is {self.run.state}{f' at step {status.step:,}' if status else ''}"

    @property
    def own_data(self) -> bool:
        """True if it trains on the user's own files."""
        return self.config.get(DATA, {}).get("name") == OWN_FILES

    @cached_property
    def identity(self) -> str:
        """Settings without the seed, and checksums of data, as JSON; own data without any have their name."""
        marks = self.marks or ({DATA: self.label(DATA)} if self.own_data else {})
        return json.dumps({**self.settings, **marks}, sort_keys=True, default=str)

    @cached_property
    def dense(self) -> bool:
        """True if no section of its configuration, and no single map, has another structure than dense."""
        sections = [section for section in self.config.values() if isinstance(section, Mapping)]
        return all(map(_dense, [*sections, *(single["layer"] for single in self.config.get("maps") or ())]))

    @property
    def is_baseline(self) -> bool:
        """True if other entries are compared with it.

        It is a baseline that its sweep names; if the sweep names none, a dense network.
        """
        return self.dense if self.baseline is None else self.baseline

    def matches(self, where: Mapping[str, Any]) -> bool:
        """True if it has all these values, compared as text.

        Keys are those of :meth:`label`, or ``state``.
        """
        state = self.run.state if self.run else None
        return all(str(value) == (state if key == "state" else self.label(key)) for key, value in where.items())


def entry_of_run(run: Run) -> Entry:
    """Return the entry of a run.

    A config that this release rejects is used as written, with all its values except the seed as settings; an
    unreadable one gives an empty entry. A run whose id does not follow from its config and checksums gets the setting
    ``made``, unless it has no checksums: it was imported, or has not read its data yet.
    """
    try:
        config = _config(run)
    except PhmrunError:  # this release rejects it: use it as written
        try:
            values = run.values
        except PhmrunError:
            return Entry({}, {}, run)
        written = {key: value for key, value in values.items() if key != SEED}
        return Entry({}, values, run, written, recorded_marks(run) if values else {})
    marks, settings = recorded_marks(run), settings_of(config)
    now = run_id(config, fingerprints=marks).rpartition("-")[2]
    if marks and now != run.id.rpartition("-")[2]:
        settings[MADE] = "by another release, or from another run"
    diverged = bool(run.status and run.status.diverged)
    return Entry({}, config.model_dump(mode="json"), run, settings, marks, diverged=diverged)


def settings_of(config: Experiment) -> dict[str, Any]:
    """Return the settings that identify an experiment.

    Keys: task, and the dotted keys that the run id depends on and whose values are not the defaults, except the seed.
    """
    values = semantic_values(config)
    values.pop(SEED, None)
    return {"task": config.task, **values}


def recorded_marks(run: Run) -> dict[str, str]:
    """Return the recorded checksums of a run's data and plug-ins.

    Keys: those of the run's record, and "plugin FILE" for each of the run's copies of plug-ins, which are hashed now.
    The result is empty if no checksums are on record, as of an imported run, or if they cannot be read.
    """
    try:
        marks = run.fingerprints()
    except PhmrunError:
        return {}
    if not marks:
        return {}
    copies = run.path / "plugins"
    plugins = {f"plugin {p.relative_to(copies).as_posix()}": sha256_of(p) for p in sorted(copies.rglob("*.py"))}
    return {**marks, **plugins}


def _config(run: Run) -> Experiment:
    """Load a run's configuration; if that fails, without the check of layer options.

    Raises:
        PhmrunError: The configuration is invalid in another way.
    """
    try:
        return run_config(Source(str(run.config_path), run.values), options_of=options_of)
    except PhmrunError:
        return run_config(Source(str(run.config_path), run.values))  # its layer is not loaded


def telling_keys(entries: Sequence[Entry], keys: Sequence[str]) -> list[str]:
    """Return further keys that separate experiments.

    ``keys`` leave these in one cell. Experiments that differ only in the seed stay together. The result is empty if
    nothing needs to be separated.

    Raises:
        PhmrunError: (exit 2) No key separates some of them.
    """
    added: dict[str, None] = {}
    while True:
        cells = grouped_by(entries, lambda entry: tuple(entry.label(key) for key in (*keys, *added)))
        mixed = next((group for group in cells.values() if len(set(identities(group))) > 1), None)
        if mixed is None:
            return list(added)
        further = dict.fromkeys(_differing(mixed))
        new = [key for key in further if key not in added and len({entry.label(key) for entry in mixed}) > 1]
        if not new:
            raise not_seeds(mixed)
        added[new[0]] = None


def require_seeds(entries: Sequence[Entry], where: str) -> None:
    """Check that experiments differ in their seed, and in nothing else.

    Experiments without a run or seed are not compared by seed. One run may belong to several experiments.

    Raises:
        PhmrunError: (exit 2) They differ in other settings (named), or two runs have the same seed.
    """
    if len(set(identities(entries))) > 1:
        raise not_seeds(entries, where)
    by_seed: dict[str, str] = {}
    for entry in entries:
        if entry.run is None or entry.seed is None:
            continue
        other = by_seed.setdefault(str(entry.seed), entry.run.id)
        if other != entry.run.id:
            raise PhmrunError(
                f"two runs have the same settings and the same seed: {other} and {entry.run.id}",
                where=where,
                hint="They differ in facts not on record, such as their data. Name the runs to compare one by one.",
            )


def not_seeds(entries: Sequence[Entry], where: str | None = None) -> PhmrunError:
    """Return the error (exit 2) for a cell of mixed experiments.

    It names their differences and the first four runs, or the places of experiments if none has a run.
    """
    names = [entry.run.id for entry in entries if entry.run] or [str(dict(entry.at)) for entry in entries]
    differing = ", ".join(_differing(entries)) or "what is not on record"
    return PhmrunError(
        f"these are not the seeds of one experiment; they differ in {differing}: {', '.join(names[:4])}",
        where=where,
        hint="Make the difference a row or a column: --rows KEY,… or --cols KEY,…",
    )


def _differing(entries: Sequence[Entry]) -> list[str]:
    """Return the keys at which identities differ.

    If checksums of data differ, "data" comes first, before the checksums' own keys.
    """
    settings = [json.loads(text) for text in identities(entries)]
    keys = dict.fromkeys(key for identity in settings for key in identity)
    differing = [key for key in keys if len({json.dumps(item.get(key)) for item in settings}) > 1]
    marks = {key for entry in entries for key in entry.marks}
    return list(dict.fromkeys([*(DATA for key in differing if key in marks), *differing]))


def identities(entries: Sequence[Entry]) -> list[str]:
    """Return the identity of each experiment without its seed, as JSON.

    It has the settings and the checksums of data. Checksums of catalogued data count only if all experiments have them,
    since imported runs have none. The user's own data without checksums count by their name.
    """
    counted = all(entry.marks for entry in entries)
    return [
        entry.identity if counted or entry.own_data else json.dumps(dict(entry.settings), sort_keys=True, default=str)
        for entry in entries
    ]


def _dense(section: Mapping[str, Any]) -> bool:
    """True if a section builds dense matrices, possibly by cluster of words.

    A section without a structure is dense. An embedding of several matrices is dense only if it has clusters and its
    ``inside`` is dense.
    """
    usual = LayerConfig().structure
    structure = section.get("structure") or usual
    if structure in EMBEDDINGS:
        return bool(EMBEDDINGS.get(structure).clusters) and _dense(section.get("inside") or {})
    return bool(structure == usual)
