"""Comparison of a run with an experiment: settings, versions of the mathematics, data and code. Imports no torch."""

import json
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from phmrun.config import Experiment
from phmrun.config.identity import canonical_identity, changed_versions, digits_of
from phmrun.errors import PhmrunError
from phmrun.ledger.listing import list_runs
from phmrun.ledger.run import Run


class Changes(NamedTuple):
    """Differences of an experiment from a run.

    Attributes:
        settings: Dotted keys of the configuration, or "version" of its schema.
        versions: Versions of layers and mathematics, in words.
        checksums: Names of checksums of data, code and other runs.
    """

    settings: tuple[str, ...]
    versions: tuple[str, ...]
    checksums: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All differences; empty if the experiment is the same."""
        return (*self.checksums, *self.versions, *self.settings)


def same_experiment(run: Run, config: Experiment, checksums: Mapping[str, str]) -> Changes:
    """Compare an experiment with a run's identity; there are no changes if it is the same.

    A run without an identity on record, which has not trained yet, is compared by the digits of its id alone.

    Args:
        run: Run to compare with.
        config: Resolved configuration of the experiment.
        checksums: Checksums of its data and code.

    Raises:
        PhmrunError: (exit 3) A file of the run is damaged.
    """
    return _changes(run, canonical_identity(config, checksums))


def _changes(run: Run, text: str) -> Changes:
    """Compare an experiment's canonical identity with a run's, as :func:`same_experiment`."""
    before, now = run.identity(), json.loads(text)
    if before is None:
        renamed = digits_of(text) != run.id.rpartition("-")[2]
        return Changes(("its name",) if renamed else (), (), ())
    settings = [key for key in ("task", "version") if before[key] != now[key]]
    return Changes(
        (*settings, *_different(before["values"], now["values"])),
        tuple(changed_versions(before, now)),
        _different(before["fingerprints"], now["fingerprints"]),
    )


def require_same(run: Run, config: Experiment, checksums: Mapping[str, str]) -> None:
    """Check that an experiment is that of a run.

    Arguments are those of :func:`same_experiment`.

    Raises:
        PhmrunError: (exit 2) It is another one; names what differs.
    """
    if changed := same_experiment(run, config, checksums).names:
        copies = "".join(f" --plugin {shlex.quote(str(path))}" for path in sorted((run.path / "plugins").glob("*.py")))
        hint = f"Leave options out that change it{f'; its own plug-ins:{copies}' if copies else ''}."
        raise PhmrunError(f"this is another experiment: it differs in {', '.join(changed)}", where=run.id, hint=hint)


def runs_beside(
    runs_dir: Path, run_id: str, config: Experiment, checksums: Mapping[str, str]
) -> Iterator[tuple[Run, Changes]]:
    """Yield the runs whose ids differ from a run id in its digits only, with their changes, the latest update last.

    Runs whose manifest cannot be read are left out.
    """
    beside, begin, text = {}, run_id.rpartition("-")[0], ""
    runs = list_runs(runs_dir)  # sorted by id
    first = bisect_left(runs, f"{begin}-", key=attrgetter("id"))
    for run in takewhile(lambda run: run.id.startswith(f"{begin}-"), runs[first:]):
        if run.id.rpartition("-")[0] == begin:
            with suppress(PhmrunError, OSError):
                text = text or canonical_identity(config, checksums)
                beside[run.status.updated or "", run.id] = run, _changes(run, text)
    yield from (beside[key] for key in sorted(beside))


def _different(before: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """Return the keys whose values differ, by name."""
    return tuple(key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key))
