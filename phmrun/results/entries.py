"""One experiment of a table: what it is, what tells it from another, and by which key. Imports no torch."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, LayerConfig, load_run_config, run_id, semantic_values
from phmrun.config.identity import changed_mathematics, layer_versions
from phmrun.config.layering import OptionsOf
from phmrun.errors import PhmrunError
from phmrun.files import sha256_of
from phmrun.ledger import Run
from phmrun.ledger.listing import RunSummary
from phmrun.ledger.run import CONFIG, State, config_values, layer_label, network_label
from phmrun.registry import EMBEDDINGS

SEED = "seed"
DATA = "data"
MADE = "made"  # where it is said that a run is of another release
OWN_FILES = "files"


@dataclass(frozen=True)
class Entry:
    """One experiment that a table may show."""

    at: Mapping[str, str]  # its value of every key of its sweep, as text; row and column of a paper's table among them
    config: Mapping[str, Any]  # its configuration, as plain nested values
    run: RunSummary | None  # its run; ``None`` where there is none yet
    # what makes it the experiment that it is, its seed left out: its settings that are not the usual ones, by
    # dotted key
    settings: Mapping[str, Any] = field(default_factory=dict)
    # SHA-256 sums of its data and plug-ins, by name; empty where they are not known
    marks: Mapping[str, str] = field(default_factory=dict)
    departs: str = ""  # in what its network is another than that of its row in the paper
    at_edge: tuple[str, ...] = ()  # the tuned keys whose value is the least or the greatest that was tried
    chose_settings: bool = False  # True if the row's tuned values were chosen with this seed
    choices: int = 0  # number of values among which its seed chose by itself; 0 unless it is a replicate
    diverged: bool = False  # True if its training ended at a loss or weight that is no number

    def label(self, key: str) -> str:
        """Its value at a key of the sweep, or else at a dotted key of its configuration; empty where it has none.

        The layer stands for all parts of the network that are not dense, and a user's own files for their name and
        the start of their checksum.
        """
        if key in self.at:
            return self.at[key]
        value: Any = self.config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if key == "layer":
            value = network_label(self.config)
        elif key == DATA and self.own_data:  # ``train.en 1a2b3c``: the first of the files, and what is in all of them
            train = next((each for name, each in self.config[DATA].items() if name.startswith("train") and each), "")
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
        """Its seed; ``None`` where its configuration does not say."""
        return self.at.get(SEED, self.config.get(SEED))

    @property
    def length(self) -> str:
        """Length of its training: as configured if the run is done, else the steps made; empty if not on record."""
        status = self.run.status if self.run else None
        if status and status.state is not State.DONE:
            return f"{status.step:,} steps"
        training = self.config.get("training")
        limits = [(training.get(f"max_{unit}"), unit) for unit in ("steps", "epochs")] if training else []
        return " or ".join(f"{limit:,} {unit}" for limit, unit in limits if limit)

    @property
    def unfinished(self) -> str:
        """State and step of a run that is not done, for readers; empty if it is done or there is none."""
        if self.run is None or self.run.state == State.DONE:
            return ""
        status = self.run.status
        return f"{self.run.id} is {self.run.state}{f' at step {status.step:,}' if status else ''}"

    @property
    def own_data(self) -> bool:
        """True if it learns from the user's own files."""
        return self.config.get(DATA, {}).get("name") == OWN_FILES

    @property
    def dense(self) -> bool:
        """True if every part of its network is made of plain matrices."""
        return all(_dense(section) for section in self.config.values() if isinstance(section, Mapping))

    def matches(self, where: Mapping[str, Any]) -> bool:
        """True if it has these values at these keys, which are those of :meth:`label`, or ``state``."""
        state = self.run.state if self.run else None
        return all(str(value) == (state if key == "state" else self.label(key)) for key, value in where.items())


def entry_of_run(run: RunSummary, options_of: OptionsOf | None = None) -> Entry:
    """A run as an entry; what is damaged in its directory is left out.

    Without ``options_of``, the options of a structure that are at their defaults count as settings.
    """
    try:
        config = _config(run, options_of)
    except PhmrunError:  # this release does not accept it: as it is written
        try:
            values = config_values(run.path / CONFIG)
        except PhmrunError:
            return Entry({}, {}, run)
        written = {key: value for key, value in values.items() if key != SEED}
        return Entry({}, values, run, written, recorded_marks(run))
    marks, settings = recorded_marks(run), settings_of(config)
    if options_of:
        own = run.id.rpartition("-")[2]
        now = run_id(config, fingerprints=marks).rpartition("-")[2]
        # Without marks, the run is of a release that had no versions.
        if now != own if marks else layer_versions(config) or changed_mathematics(config):
            settings[MADE] = "by another release, or from another run"
    return Entry({}, config.model_dump(mode="json"), run, settings, marks)


def settings_of(config: Experiment) -> dict[str, Any]:
    """The settings that make the experiment, but for its seed."""
    values = semantic_values(config)
    values.pop(SEED, None)
    return {"task": config.task, **values}


def recorded_marks(run: RunSummary) -> dict[str, str]:
    """The checksums of data and plug-ins that a run has on record; runs of early releases have none."""
    try:
        marks = Run(run.path).fingerprints()
    except PhmrunError:
        return {}
    if not marks:
        return {}
    plugins = {f"plugin {path.name}": sha256_of(path) for path in sorted((run.path / "plugins").glob("*.py"))}
    return {**marks, **plugins}


def _config(run: RunSummary, options_of: OptionsOf | None) -> Experiment:
    try:
        return load_run_config(run.path / CONFIG, options_of=options_of)
    except PhmrunError:
        if options_of is None:
            raise
        return load_run_config(run.path / CONFIG)  # a layer that is not loaded


def telling_keys(entries: Sequence[Entry], keys: Sequence[str]) -> list[str]:
    """Further keys that part experiments which ``keys`` leave together though they differ in more than the seed.

    Refuses those that no key can tell apart.
    """
    found: dict[str, None] = {}
    while True:
        groups: dict[tuple[str, ...], list[Entry]] = {}  # the experiments of each cell
        for one in entries:
            groups.setdefault(tuple(one.label(key) for key in (*keys, *found)), []).append(one)
        mixed = next((group for group in groups.values() if len(set(_identities(group))) > 1), None)
        if mixed is None:
            return list(found)
        further = dict.fromkeys(_differing(mixed))
        new = [key for key in further if key not in found and len({one.label(key) for one in mixed}) > 1]
        if not new:
            raise not_seeds(mixed)
        found[new[0]] = None


def require_seeds(entries: Sequence[Entry], where: str) -> None:
    """Refuses to pool experiments that differ in more than the seed, or have the same one; says in what they differ."""
    if len(set(_identities(entries))) > 1:
        raise not_seeds(entries, where)
    by_seed: dict[str, str] = {}
    for one in entries:
        if one.run is None or one.seed is None:
            continue
        other = by_seed.setdefault(str(one.seed), one.run.id)
        if other != one.run.id:
            raise PhmrunError(
                f"two runs have the same settings and the same seed: {other} and {one.run.id}",
                where=where,
                hint="They differ in what is not on record, such as their data. Name the runs to compare one by one.",
            )


def not_seeds(entries: Sequence[Entry], where: str | None = None) -> PhmrunError:
    """The error that says in what experiments of one cell differ."""
    names = [one.run.id for one in entries if one.run] or [str(dict(one.at)) for one in entries]
    differing = ", ".join(_differing(entries)) or "what is not on record"
    return PhmrunError(
        f"these are not the seeds of one experiment; they differ in {differing}: {', '.join(names[:4])}",
        where=where,
        hint="Make the difference a row or a column: --rows KEY,… or --cols KEY,…",
    )


def _differing(entries: Sequence[Entry]) -> list[str]:
    """The names at which identities differ; checksums of data count as the data."""
    identities = [json.loads(text) for text in _identities(entries)]
    keys = dict.fromkeys(key for identity in identities for key in identity)
    differing = [key for key in keys if len({json.dumps(each.get(key)) for each in identities}) > 1]
    marks = {key for one in entries for key in one.marks}
    return list(dict.fromkeys([*(DATA for key in differing if key in marks), *differing]))


def _identities(entries: Sequence[Entry]) -> list[str]:
    """Of each experiment what it shares with those that differ from it in the seed alone.

    Checksums of catalogued data count where all runs have them on record; those of early releases have none.
    """
    counted = all(one.marks for one in entries)
    found = []
    for one in entries:
        if one.own_data and not one.marks:
            marks: Mapping[str, str] = {DATA: one.label(DATA)}
        else:
            marks = one.marks if counted or one.own_data else {}
        found.append(json.dumps({**one.settings, **marks}, sort_keys=True, default=str))
    return found


def _dense(section: Mapping[str, Any]) -> bool:
    """Whether what a section builds is made of plain matrices: one, or one for each cluster of words."""
    usual = LayerConfig().structure
    structure = section.get("structure") or usual
    if structure in EMBEDDINGS:
        return bool(EMBEDDINGS.get(structure).clusters) and _dense(section.get("inside") or {})
    return bool(structure == usual)
