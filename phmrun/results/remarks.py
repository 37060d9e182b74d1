"""Remarks on listed runs: what a table shows of a row, said of each run. Imports no torch."""

from collections.abc import Sequence

from phmrun.ledger.recorded_run import RecordedRun
from phmrun.results.entries import entry_of_run, identities
from phmrun.results.layout import REDUCED
from phmrun.results.table import BUILTIN


def remarks(runs: Sequence[RecordedRun], score: str) -> list[str]:
    """Return the reasons for which a run's score alone orders nothing, for each run; empty without any.

    They are a single seed with these settings, and the built-in corpus. Runs without the score have none.
    """
    entries = [entry_of_run(run) for run in runs]
    seeds: dict[str, set[str]] = {}
    keys = identities(entries)
    for key, entry, run in zip(keys, entries, runs, strict=True):
        if run.score(score) is not None:
            seeds.setdefault(key, set()).add(str(entry.seed))
    texts = []
    for key, entry, run in zip(keys, entries, runs, strict=True):
        parts = []
        if run.score(score) is not None:
            parts += ["1 seed"] if len(seeds[key]) == 1 else []
            parts += [f"{REDUCED} built-in corpus"] if entry.label("data") == BUILTIN else []
        texts.append("; ".join(parts))
    return texts
