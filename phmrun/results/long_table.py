"""Long table of finished runs.

Tables and reports are its views.

Imports no torch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.listing import list_runs
from phmrun.ledger.record import record_paths, recorded_runs
from phmrun.ledger.status import State
from phmrun.results import render
from phmrun.results.comparison import RowComparison, differences
from phmrun.results.entries import SEED, Entry, entry_of_run, telling_keys
from phmrun.results.layout import lay_out
from phmrun.results.table import Heading, ResultTable, score_headings, tabulate

if TYPE_CHECKING:
    from pandas import DataFrame

Keys = Sequence[str]
COLUMN_KEYS = ("task", "data", "data.name")
"""Keys whose values make columns by default, since scores on different data do not compare."""
ABOUT = ("task", "data", "layer", "seed")


@dataclass(frozen=True)
class PaperShape:
    """Rows and columns of a paper's table, to be filled by experiments."""

    headings: Sequence[Heading]
    rows: Sequence[str]
    reduced: str = ""  # how the settings are smaller than the paper's; empty if they are equal


@dataclass(frozen=True)
class Results:
    """Experiments with their runs: one row for each run and score."""

    entries: tuple[Entry, ...]
    keys: tuple[str, ...] = ("layer",)  # keys that separate the experiments
    title: str = ""
    measure: str = ""  # score that decides, named by the sweep before its first run; empty: none is named
    paper: PaperShape | None = None  # default shape of :meth:`pivot`

    @classmethod
    def load(cls, source: "Path | str | Iterable[Run]") -> "Results":
        """Load the results of a folder, or of runs.

        The folder has runs, of any state; one without runs has small results. Keys are "layer", and
        "task" and "data" if they differ between runs.

        Raises:
            PhmrunError: (exit 3) There is no such folder, or a small result is damaged.
        """
        if isinstance(source, Path | str):
            folder = Path(source)
            runs = list_runs(folder) or recorded_runs(record_paths(folder), folder)
        else:
            runs = list(source)
        entries = tuple(entry_of_run(run) for run in runs)
        varied = [key for key in ("task", "data") if len({entry.label(key) for entry in entries}) > 1]
        return cls(entries, ("layer", *varied))

    def __len__(self) -> int:
        """Number of experiments."""
        return len(self.entries)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield one row for each run and numeric score, as a dictionary.

        Keys: run, task, data, layer, seed, those of :attr:`keys`, state, step, score, value, signature. Experiments
        without a run are skipped.
        """
        for entry in self.entries:
            run = entry.run
            if run is None:
                continue
            about = {key: run.about(key) for key in ABOUT} | {key: entry.label(key) for key in self.keys}
            status = {"state": run.state, "step": run.status.step if run.status else None}
            for score in run.metrics():
                if (value := run.score(score)) is not None:
                    written = run.entry(score)
                    signature = written.get("signature") if isinstance(written, Mapping) else None
                    yield {"run": run.id, **about, **status, "score": score, "value": value, "signature": signature}

    def select(self, where: Mapping[str, Any] | None = None, **more: Any) -> "Results":
        """Return the results that match: ``select(layer="phm n=4")``, ``select({"layer.n": 4})``.

        All values must match, compared as text. A key is one of the sweep, a dotted one of the configuration, or
        ``state``.
        """
        wanted = {**(where or {}), **more}
        self._require(wanted, "select")
        return replace(self, entries=tuple(entry for entry in self.entries if entry.matches(wanted)))

    def pivot(self, rows: Keys = (), columns: Keys = (), scores: Keys = ()) -> ResultTable:
        """Return a table by keys.

        Each cell holds the seeds of one experiment. By default, a paper's shape if there is one. Else rows are the keys
        that separate the experiments; columns are task, data, and main score with loss. A key is one of the sweep or a
        dotted one of the configuration. Keys that separate experiments of one cell are added to the rows.

        Raises:
            PhmrunError: (exit 2) A key or a score does not exist, or the runs of a cell are not seeds of one
                experiment.
        """
        entries, paper = self.entries, self.paper
        if paper and not (rows or columns or scores):
            shape: dict[str, Any] = {"title": self.title, "rows": paper.rows, "reduced": paper.reduced}
            return tabulate(entries, ["row"], paper.headings, **shape)
        self._require(rows, "--rows")
        self._require(columns, "--cols")
        named = {row.partition(".")[0] for row in rows}  # a row key data.copies replaces the column key data
        across = list(columns) or [key for key in self.keys if key in COLUMN_KEYS and key not in named]
        down = list(rows) or [key for key in self.keys if key not in across] or ["layer"]
        down += telling_keys(entries, [*down, *across])
        return tabulate(entries, down, score_headings(entries, across, scores, self.measure), title=self.title)

    def compare(
        self,
        baseline: Mapping[str, Any] | None = None,
        test: Mapping[str, Any] | None = None,
        *,
        score: str | None = None,
        margin: float | None = None,
    ) -> list[RowComparison]:
        """Compare experiments with a baseline: ``compare({"layer": "dense"}, {"layer": "phm n=4"})``.

        Args:
            baseline: Values by key of the baseline; the dense network if not given.
            test: Values by key of the experiments to compare; all others if not given.
            score: Name of a score; the main one if not given.
            margin: δ in units of the score; the metric's default if not given; 0 tests for differences only.

        Returns:
            Comparisons, those with one baseline cell together, in the order of rows, then columns. Cells without a
            baseline are left out.

        Raises:
            PhmrunError: (exit 2) As :meth:`pivot`, or no experiment has the values of ``baseline`` or ``test``.
        """
        for where, values in (("baseline", baseline), ("test", test)):
            self._require(values or {}, where)
            if values and not any(entry.matches(values) for entry in self.entries):
                raise PhmrunError(f"no experiment has {dict(values)}", where=where)
        kept = self.entries
        if test is not None:
            kept = tuple(e for e in kept if e.matches(test) or (e.matches(baseline) if baseline else e.is_baseline))
        table = replace(self, entries=kept, paper=None).pivot(scores=[score] if score else ())
        return list(differences(table, margin, baseline).values())

    def _require(self, keys: Iterable[str], where: str) -> None:
        """Check that each key has a value in an experiment, if there are any.

        Raises:
            PhmrunError: (exit 2) One has none; ``where`` is its place in the message.
        """
        for key in keys:
            if self.entries and key != "state" and not any(entry.label(key) for entry in self.entries):
                hint = f"A key is one of {', '.join([*self.keys, SEED])} or a dotted one of the configuration."
                raise PhmrunError(f"no experiment has a value at {key!r}", where=where, hint=hint)

    def _repr_html_(self) -> str:
        """Return the table of :meth:`pivot` as HTML for a notebook, without comparisons."""
        table = self.pivot()
        return render.html_page(table.title, *lay_out(table, {}, paper=self.paper is not None))

    def to_pandas(self) -> "DataFrame":
        """Return the rows (run × score) as a pandas data frame."""
        from pandas import DataFrame

        return DataFrame(list(self))


def done(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that are done or have diverged, in their order.

    Raises:
        PhmrunError: (exit 3) A run's file differs from its manifest, whatever its state.
    """
    for run in runs:
        run.require_intact()
    return [run for run in runs if run.state == State.DONE or (run.status and run.status.diverged)]
