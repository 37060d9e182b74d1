"""Runs with the settings of a new run, but other data, code or mathematics. Imports no torch."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.config.identity import VERSIONED, changed_versions, digits_of, earlier_identities
from phmrun.errors import PhmrunError
from phmrun.ledger.run import Run
from phmrun.ledger.status import State, Status

CODE = ("plugin ", "package ")
"""Beginnings of the names of fingerprints of code."""
_STEP = {State.INTERRUPTED: 0, State.FAILED: 1, State.DONE: 2}


class Twin(NamedTuple):
    """Run that differs from a new one in fingerprints or versions alone."""

    run: Run
    status: Status
    difference: str

    def warning(self) -> str:
        """Return a warning of the twin: its state, the difference, what to do.

        If the versions differ, the twin cannot be continued; otherwise the old data or code must be put back.
        """
        show = f"`phmrun runs show {self.run.reference}`"
        state = f"{self.status.state} at step {self.status.step:,}"
        if self.difference.startswith("version"):
            rest = f"It is not continued by this release, and stays readable: {show}."
        else:
            rest = f"To continue that one instead, put those back and give the same command; {show} describes it."
        return f"a new run begins beside {self.run.id} ({state}), with the same settings; {self.difference}. {rest}"


def find_twin(runs_dir: Path, run_id: str, identity: str, data: Collection[str]) -> Twin | None:
    """Return the nearest twin of a new run; ``None`` if there is none.

    Interrupted ones are nearest, then failed, done and other ones; within a state, those updated last. Only runs whose
    ids have the same task, data, network and seed are read. Derived runs (extended, taught, compressed) are no twins,
    nor are runs with a missing or damaged status, or a damaged manifest.

    Args:
        runs_dir: Directory of runs.
        run_id: Id of the new run.
        identity: Its canonical identity.
        data: Names of its data's fingerprints.
    """
    name, _, digits = run_id.rpartition("-")
    places = sorted(runs_dir.glob(f"{name}-*")) if runs_dir.is_dir() else []
    named = re.compile(re.escape(name) + "-[0-9a-f]{12}").fullmatch
    twins = []
    for path in places:
        if path.name == run_id or not named(path.name):
            continue
        try:
            run = Run(path)
            status, difference = run.status, _difference(run, digits, identity, data)
        except (PhmrunError, OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        if difference:
            twins.append(Twin(run, status, difference))
    return min(twins, key=_nearness, default=None)


def _nearness(twin: Twin) -> tuple[int, list[int]]:
    """Return the sorting key: interrupted, failed, done, other states.

    Within a state, runs updated last come first.
    """
    latest = [-ord(character) for character in twin.status.updated or ""]
    return _STEP.get(twin.status.state, 3), latest


def _difference(run: Run, digits: str, identity: str, data: Collection[str]) -> str:
    """Return the difference of a run from an identity, in words.

    It names changed versions of mathematics or of the configuration, else the changed fingerprints. It is empty if the
    run is no twin: its settings differ, a fingerprint other than of data and code does, or nothing differs. A run
    without an identity on record is a twin only if its id is that of the same experiment with earlier versions.

    Raises:
        PhmrunError: (exit 3) The manifest is damaged.
    """
    record = run.manifest.read()
    if record is None or record.identity is None:  # of a release without manifests
        former = (before for before in earlier_identities(identity) if run.path.name.endswith(f"-{digits_of(before)}"))
        changed = next((changed_versions(before, identity) for before in former), [])
        return f"versions of mathematics changed: {', '.join(changed)}" if changed else ""
    before, now = json.loads(record.identity), json.loads(identity)
    if _settings(before) != _settings(now):
        return ""
    parts = list(_changed(before["fingerprints"], now["fingerprints"], data))
    if None in parts:
        return ""
    if versions := changed_versions(record.identity, identity):
        return f"versions of mathematics changed: {', '.join(versions)}"
    if before["version"] != now["version"]:
        return f"version of the configuration changed: {before['version']}, now {now['version']}"
    return f"different: {', '.join(filter(None, parts))}" if parts else ""


def _settings(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parsed identity without fingerprints and versions."""
    return {key: value for key, value in identity.items() if key not in ("fingerprints", "version", *VERSIONED)}


def _changed(before: Mapping[str, str], now: Mapping[str, str], data: Collection[str]) -> Iterator[str | None]:
    """Yield each changed fingerprint with the starts of its checksums, by name.

    "train (checksum 0123456789ab, now none)"; ``None`` stands for one that is neither data nor code.
    """
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            changeable = name in data or name.startswith(CODE)
            sums = [side[name][:12] if name in side else "none" for side in (before, now)]
            yield f"{name} (checksum {sums[0]}, now {sums[1]})" if changeable else None
