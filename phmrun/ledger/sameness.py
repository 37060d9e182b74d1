"""Comparison of a run with an experiment: settings, versions of the mathematics, data and code. Imports no torch."""

import json
from collections.abc import Mapping
from typing import NamedTuple

from phmrun.config import Experiment
from phmrun.config.identity import canonical_identity, changed_versions, digits_of, earlier_identities
from phmrun.errors import PhmrunError
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


def same_experiment(run: Run, config: Experiment, checksums: Mapping[str, str] | None = None) -> Changes:
    """Compare an experiment with a run's identity; there are no changes if it is the same.

    A run without an identity on record is compared by its id, and by its checksums of data and code.

    Args:
        run: Run to compare with.
        config: Resolved configuration of the experiment.
        checksums: Checksums of its data and code. Default: those of the run.

    Raises:
        PhmrunError: (exit 3) A file of the run is damaged.
    """
    record, former = run.manifest.read(), run.fingerprints()
    text = canonical_identity(config, former if checksums is None else checksums)
    now = json.loads(text)
    on_record = record.identity if record else None
    if on_record is None:
        digits = run.id.rpartition("-")[2]
        same = (identity for identity in (text, *earlier_identities(text)) if digits_of(identity) == digits)
        on_record = next(same, None)
    before = json.loads(on_record) if on_record else {**now, "fingerprints": former}
    settings = [key for key in ("task", "version") if before[key] != now[key]]
    if on_record is None and before == now:
        settings.append("its name")
    return Changes(
        (*settings, *_different(before["values"], now["values"])),
        tuple(changed_versions(json.dumps(before), text)),
        _different(before["fingerprints"], now["fingerprints"]),
    )


def require_same(run: Run, config: Experiment, checksums: Mapping[str, str]) -> None:
    """Check that an experiment is that of a run.

    Arguments are those of :func:`same_experiment`.

    Raises:
        PhmrunError: (exit 2) It is another one; names what differs.
    """
    if changed := same_experiment(run, config, checksums).names:
        hint = "Leave options out that change it; a run's own plug-ins need --plugin FILE."
        raise PhmrunError(f"this is another experiment: it differs in {', '.join(changed)}", where=run.id, hint=hint)


def _different(before: Mapping[str, object], now: Mapping[str, object]) -> tuple[str, ...]:
    """Return the keys whose values differ, by name."""
    return tuple(key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key))
