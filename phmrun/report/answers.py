"""Answer that one sweep of a folder of results gives: its own page, its picture, its verdicts."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel

from phmrun.errors import ExitCode, PhmrunError, counted
from phmrun.files import is_name
from phmrun.ledger.card import duration, number
from phmrun.metric import metric_of
from phmrun.report.document import Code, Document, Listing, Part, Picture, Text, to_markdown
from phmrun.report.environments import environments
from phmrun.results.baselines import baseline_rows
from phmrun.results.comparison import compare_cells
from phmrun.results.costs import MISSING, Point, cost_texts, points_of
from phmrun.results.layout import lay_out
from phmrun.results.pairs import Pair, all_pairs, pair_table
from phmrun.results.row_comparison import RowComparison
from phmrun.results.table import Effect, Numbers
from phmrun.results.verdicts import verdict_words
from phmrun.statistics.verdict import Verdict
from phmrun.sweeps.cell_status import CellState
from phmrun.sweeps.results import Asked, view_of_sweep
from phmrun.sweeps.selection import SEED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE, PICTURE, NONE = "README.md", "effects.svg", "–"
TIME = "ms per training step"  # label of an axis
_RATE = re.compile(r", lr [^,]+")  # in the name of a row
FILE_SIZE, WEIGHTS_SIZE, CLOCK_STEP, CLOCK_SENTENCE = "file-size", "weights-size", "clock-step", "clock-sentence"
Drawing = Callable[[], "Figure"]
"""Function that draws a picture; it imports Matplotlib, which takes half a second."""


def _folder_name(name: str) -> str:
    """Return a name unchanged.

    Raises:
        ValueError: It is not a valid name of a folder.
    """
    if not is_name(name):
        raise ValueError(f"{name!r:.80} is not a valid name of a folder")
    return name


class SweepOfQuestion(BaseModel, extra="forbid"):
    """Sweep that answers a question: a folder with its file and its results."""

    name: Annotated[str, AfterValidator(_folder_name)]
    seeds: int | None = None  # seeds of a row; `None`: all on record
    margin: float | None = None  # δ; `None`: the metric's default
    scores: tuple[str, ...] = ()  # scores shown; the main one if empty
    rows: tuple[str, ...] = ()  # keys of the rows; the usual ones if empty
    withdrawn: dict[str, str] = {}  # reasons by row for withdrawn verdicts; the scores are still shown
    costs: tuple[str, ...] = ()  # costs beside the parameters, such as training-time
    pairs: tuple[str, ...] = ()  # beginnings of rows' names, to compare with one another, too


class Compared(NamedTuple):
    """Difference of a row from the dense one in a score."""

    effect: Effect
    score: str


class Answer:
    """Results of one sweep, with the verdicts its question asks for.

    Attributes:
        title: Title of the sweep's table, else the sweep's name.
        score: First score of the table's first column.
        picture: Path of the picture of differences, beside the sweep's file.
        compared: Differences that have an interval, by row and column; those of withdrawn verdicts are left out.
        points: Parameters and score of each row, in the first column; rows with withdrawn verdicts are left out.
        timed: Milliseconds of a training step, by its clock, and score of each of these rows that has them on record.
        baselines: First score of each baseline by its name with its kind.
        floor: Name and score of the best floor, or a dash.
    """

    def __init__(self, asked: SweepOfQuestion, file: Path, runs_dir: Path) -> None:
        self._asked, self._file = asked, file
        shape = Asked(seeds=asked.seeds, rows=asked.rows, scores=asked.scores)
        view, _ = view_of_sweep(str(file), runs_dir, shape)
        self._done = [status for status in view.statuses if status.state is CellState.DONE]
        self._seeds = len({status.cell.at[SEED] for status in view.statuses})
        self._table = view.table
        compared = view.differences()
        self._withdrawn = {row: self._reason(row) for row, _ in compared if self._reason(row)}
        self._differences = {
            place: comparison for place, comparison in compared.items() if place[0] not in self._withdrawn
        }
        self.title = self._table.title or asked.name
        self.score = self._table.headings[0].scores[0]
        self.picture = file.with_name(PICTURE)
        self.compared = list(self._comparisons())
        self.points: list[Point] = points_of(self._table, 0, without=self._withdrawn)
        timed = points_of(self._table, 0, CLOCK_STEP, without=self._withdrawn)
        self.timed = [point._replace(size=1000 * point.size) for point in timed]
        self._trivial = baseline_rows(self._table)
        # First score of each baseline by its name with its kind: "majority (floor)".
        self.baselines = {row.label: value for row in self._trivial if (value := row.values[0]) is not None}
        self.floor = self._floor()
        self._pairs: list[Pair] = self._compared_pairs() if asked.pairs else []

    def _compared_pairs(self) -> list[Pair]:
        """Return the comparisons of the rows that the question names with one another.

        Raises:
            PhmrunError: (exit 3) There is no such row.
        """
        places = {begin: self._place(begin) for begin in self._asked.pairs}
        if missing := [begin for begin, place in places.items() if place is None]:
            what = f"pairs name a row that is not there: {missing[0]}"
            raise PhmrunError(what, where=str(self._file), valid=self.names, code=ExitCode.DATA)
        return all_pairs(self._table, self._asked.margin, {place for place in places.values() if place is not None})

    def _reason(self, row: int) -> str:
        """Return the reason why a row's verdict is withdrawn.

        The row's name begins with a key of ``withdrawn``; the first such key counts. The result is empty if there is
        none.
        """
        name = self.names[row]
        return next((reason for begin, reason in self._asked.withdrawn.items() if name.startswith(begin)), "")

    @property
    def names(self) -> list[str]:
        """Names of the rows, in the order of the table."""
        return self._table.names

    def _place(self, begin: str) -> int | None:
        """Return the first row whose name begins so, with its learning rate or without; ``None`` without one."""
        either = ((row, form) for row, name in enumerate(self.names) for form in (name, _RATE.sub("", name)))
        return next((row for row, form in either if form.startswith(begin)), None)

    def has(self, begin: str) -> bool:
        """True if a row's name begins so."""
        return self._place(begin) is not None

    def withdrawn(self, begin: str) -> str:
        """Return the reason why the verdict of a row is withdrawn.

        The row is the first whose name begins so. The result is empty if there is none, or its verdict is not
        withdrawn.
        """
        row = self._place(begin)
        return self._withdrawn.get(row, "") if row is not None else ""

    def comparison(self, begin: str, against: str = "") -> RowComparison | None:
        """Return the comparison of a row in the first score.

        Rows are the first whose names begin so. Without ``against``, it is the design's comparison with the baseline,
        and ``None`` if the verdict is withdrawn. With it, it is a single test against that row alone, of all counted
        seeds. The result is ``None`` without such a row or comparison, and if the two were scored on other items.
        """
        row = self._place(begin)
        if row is None:
            return None
        if not against:
            return self._differences.get((row, 0))
        other = self._place(against)
        if other is None:
            return None
        figures = self._table.figures
        margin = self._asked.margin
        return compare_cells({(row, 0): figures[row][0]}, figures[other][0], self.score, margin).get((row, 0))

    def _comparisons(self) -> Iterator[Compared]:
        """Yield each difference that has an interval, sorted by row and column.

        A comparison without an interval is left out.
        """
        for (row, column), comparison in sorted(self._differences.items()):
            shown = comparison.judgement.difference
            if shown is not None:
                different = comparison.verdict is Verdict.DIFFERENT
                effect = Effect(self.names[row], shown.value, shown.low, shown.high, shown.seeds[0], different)
                yield Compared(effect, self._table.headings[column].scores[0])

    def _floor(self) -> str:
        """Return name and score of the first score's best floor.

        Floors are baselines that a trained model must beat. The best is the smallest if lower is better: "bag-of-words
        76.40". Without a floor on record, the result is a dash.
        """
        lower = metric_of(self.score).lower_is_better
        values = [(row.values[0], row.name) for row in self._trivial if row.is_floor]
        ordered = sorted((value, name) for value, name in values if value is not None)
        if not ordered:
            return NONE
        value, name = ordered[0] if lower else ordered[-1]
        return f"{name} {value:.2f}"

    @property
    def _dense(self) -> Numbers | None:
        """Values of the baseline's first score, by default those of the dense row.

        The baseline is the first row whose first experiment is one; ``None`` without such a row.
        """
        figures = self._table.figures
        return next((figures[row][0].numbers[0] for row in range(len(figures)) if self._is_baseline(row)), None)

    def effects(self) -> Drawing:
        """Return the drawing of the differences from dense in one score.

        The score is that of the first comparison. Baselines, minus the dense mean, are in it if that is the table's
        first score.

        Raises:
            IndexError: No comparison has an interval.
        """
        score, dense = self.compared[0].score, self._dense
        shown = [item.effect for item in self.compared if item.score == score]
        mean = dense.mean if dense and score == self.score else None
        baselines = {} if mean is None else {name: value - mean for name, value in self.baselines.items()}

        def draw() -> "Figure":
            """Draw the picture."""
            from phmrun.results.plots.sweeps import draw_effects

            return draw_effects(shown, score, baselines)

        return draw

    def sizes(self, lines: Mapping[str, float], widths: "Answer | None" = None) -> Drawing:
        """Return the drawing of the first score by parameters and by training time.

        Args:
            lines: Further scores by name, drawn as those of the baselines.
            widths: Answer of a sweep of dense networks of several widths, which a curve joins; none if not given.
        """

        def draw() -> "Figure":
            """Draw the picture."""
            from phmrun.results.plots.sweeps import draw_pareto

            floors, beside = {**self.baselines, **lines}, {TIME: self.timed}
            curve = {"parameters": widths.points, TIME: widths.timed} if widths else {}
            return draw_pareto(self.points, self.score, baselines=floors, beside=beside, curve=curve)

        return draw

    def costs(self, begin: str) -> str:
        """Return a row's costs: "3.60 MB, 9.9 ms/step, 0.03 ms/sentence".

        These are the bytes of the weights, those of the file that ships ("MB shipped"), and the medians of a training
        step and a test sentence by the clock. Costs without a record are left out.

        Args:
            begin: Beginning of the row's name; the first such row counts. Empty: the baseline.
        """
        places = range(len(self._table.rows))
        row = self._place(begin) if begin else next((place for place in places if self._is_baseline(place)), None)
        if row is None:
            return ""
        entries = self._table.figures[row][0].entries
        units = {WEIGHTS_SIZE: "MB", FILE_SIZE: "MB shipped", CLOCK_STEP: "ms/step", CLOCK_SENTENCE: "ms/sentence"}
        texts = zip(cost_texts(entries, list(units)), units.values(), strict=True)
        return ", ".join(f"{text} {unit}" for text, unit in texts if text != MISSING)

    def _is_baseline(self, row: int) -> bool:
        """True if a row's first experiment in the first column is a baseline; False without experiments."""
        entries = self._table.figures[row][0].entries
        return bool(entries) and entries[0].is_baseline

    @property
    def reference(self) -> str:
        """First score of the dense row: "76.40 ± 0.31, 3 seeds".

        Without a deviation, "± …" is left out; without runs or a dense row, the text is a dash.
        """
        numbers = self._dense
        if numbers is None or numbers.mean is None:
            return NONE
        deviation = "" if numbers.deviation is None else f" ± {numbers.deviation:.2f}"
        return f"{numbers.mean:.2f}{deviation}, {counted(len(numbers.values), 'seed')}"

    def cell(self, begin: str) -> str:
        """Return a row's difference from dense in the first score.

        It has the interval and, if decided, the verdict: "-0.42 [-0.61, -0.23] different, worse".

        Args:
            begin: Beginning of the row's name; the first such row counts.

        Returns:
            A dash ("–") without such a row or without its comparison; "withdrawn" for a withdrawn verdict; only the
            verdict's words if there is no difference to show.
        """
        if self.withdrawn(begin):
            return "withdrawn"
        comparison = self.comparison(begin)
        if comparison is None:
            return NONE
        words, shown = verdict_words(comparison), comparison.judgement.difference
        if shown is None:
            return words
        numbers = f"{shown.value:+.2f} [{shown.low:+.2f}, {shown.high:+.2f}]"
        return numbers if words in ("undecided", "open") else f"{numbers} {words}"

    def evidence(self, begin: str) -> tuple[str, str, str, str]:
        """Return a row's name, length of training, difference from dense, and seeds.

        The row is the first whose name begins so. Several lengths are joined by "and". The difference is
        that of :meth:`cell`, with the words of an undecided verdict, too. Seeds are those of the row and of dense, "5"
        or "5, 4", and a dash without a comparison.

        Raises:
            ValueError: There is no such row.
        """
        row = self._place(begin)
        if row is None:
            raise ValueError(f"no row begins with {begin!r}")
        comparison = self.comparison(begin)
        words = verdict_words(comparison) if comparison else ""
        text = self.cell(begin)
        text = text if words in text else f"{text} {words}"
        seeds = ", ".join(map(str, dict.fromkeys(comparison.judgement.seeds))) if comparison else NONE
        return self.names[row], " and ".join(self._table.figures[row][0].lengths), text, seeds

    def kinds_of_pairs(self) -> list[str]:
        """Return the verdicts in words of rows beside one another, by pair and score; empty without pairs."""
        return [verdict_words(pair.comparison) for pair in self._pairs]

    def kinds(self) -> list[str]:
        """Return the verdicts in words, by row and score.

        There is one for each compared row in each column of scores, sorted by row, then column; "withdrawn" for each
        withdrawn row comes last.
        """
        decided = [verdict_words(comparison) for _, comparison in sorted(self._differences.items())]
        return decided + ["withdrawn"] * len(self._withdrawn)

    def page(self, question: str, about: str, missing: str = "") -> str:
        """Return the sweep's page as Markdown.

        Its parts: the question and, unless empty, ``about`` and the experiments that are ``missing``, then those of
        :meth:`_parts`. The picture is a link to :attr:`picture`, which is not written here.
        """
        texts = (f"Question: {question}", about, f"Missing: {missing}" if missing else "")
        opening: list[Part] = [Text(text) for text in texts if text]
        return to_markdown(Document(self.title, [*opening, *self._parts()], []))

    def _parts(self) -> Iterator[Part]:
        """Yield the parts of the page below its opening.

        In this order: scores, picture of differences, verdicts, withdrawn verdicts, notes, pairs with their notes,
        environments, runs. The picture is left out without intervals, and a table without comparisons. Last is the
        command that runs the sweep: with ``--until-decided`` if the question has a maximum of seeds, else with its
        seeds.
        """
        laid = lay_out(self._table, "mean±std", self._differences, paper=False, costs=self._asked.costs)
        yield Listing(laid.columns, laid.rows)
        if self.compared:
            yield Picture(self.picture, "Differences from dense with their simultaneous 95 % intervals over seeds")
        if laid.verdict_rows:
            yield Listing(laid.verdict_columns, laid.verdict_rows)
        for row, reason in self._withdrawn.items():
            yield Text(f"{self.names[row]}: verdict withdrawn: {reason}", note=True)
        for note in laid.notes:
            yield Text(note, note=True)
        columns, lines, notes = pair_table(self._table, self._pairs)
        if lines:
            yield Text("Rows beside one another, each with every other:")
            yield Listing(columns, lines)
            yield from (Text(note, note=True) for note in notes)
        yield from environments(self._done)
        yield self._runs()
        file = self._file
        yield Code(
            f"phmrun sweep {file} --seeds {self._seeds}\nphmrun results add {file} --to {file.parent}", "console"
        )

    def _runs(self) -> Listing:
        """Return the table of finished runs, with the commands that reproduce them.

        Runs without a status are left out; the score of a run without a main score is ``None``.
        """
        rows = []
        for status in self._done:
            run = status.run
            if run is None or run.status is None:
                continue
            value = number(run.score(run.main_score)) if run.main_score else None
            again = f"phmrun runs reproduce {run.id}"
            rows.append((status.cell.label, value, duration(run.status.seconds), again))
        return Listing(("cell", "score", "training", "command"), rows, "Runs, with the commands that reproduce them")
