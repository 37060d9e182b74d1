"""The page of a project's results, made from small files alone. Imported when `phmrun results` runs."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from phmrun.cli.table_results import decided, results_of_sweep
from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.card import duration, number
from phmrun.ledger.record import restore
from phmrun.ledger.wording import row_name
from phmrun.papers.effects import Effect
from phmrun.papers.layout import Differences, lay_out, sentence
from phmrun.papers.results import ResultTable
from phmrun.papers.significance import over_seeds, pairs
from phmrun.report.document import Code, Document, Listing, Part, Picture, Section, Text, to_markdown
from phmrun.report.environments import environments
from phmrun.statistics.decision import Verdict, detectable
from phmrun.sweeps.cell_status import CellState, CellStatus

QUESTIONS, SWEEP, PICTURE = "questions.yaml", "sweep.yaml", "effects.svg"


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SweepOfQuestion(_Asked):
    """A sweep that answers a question: a folder with its file and its results.

    Attributes:
        name: The folder.
        max_seeds: Of `sweep --until-decided`, which decides by its looks; ``None``: one test of all seeds.
        margin: δ of these looks; ``None``: the one that is usual for the score.
        scores: These instead of the main score.
        rows: Keys that make a row, instead of the usual ones.
        costs: What stands beside the parameters: multiplications, training-time.
    """

    name: str
    max_seeds: int | None = None
    margin: float | None = None
    scores: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()


class Question(_Asked):
    """A section of the page.

    Attributes:
        question: Its heading.
        about: What is compared with what, and why.
        sweeps: What was run for it.
        missing: What it takes to decide what is not decided.
    """

    question: str
    about: str = ""
    sweeps: tuple[SweepOfQuestion, ...] = ()
    missing: str = ""


class Questions(_Asked):
    """The file `questions.yaml`: a title, an opening, and the questions in their order."""

    title: str
    about: str = ""
    questions: tuple[Question, ...]


def restore_all(folder: Path, runs_dir: Path, *, durable: bool = True) -> list[Run]:
    """Makes a run directory of every result below a folder of sweeps, or a sweep's own folder.

    See :func:`phmrun.ledger.record.restore`.

    Raises:
        PhmrunError: (exit 3) There is none, or one is damaged.
    """
    paths = sorted(folder.glob("*/*.json")) or sorted(folder.glob("*.json"))
    if not paths:
        raise PhmrunError(
            "there are no results below it" if folder.is_dir() else "there is no such folder",
            where=str(folder),
            hint="`phmrun results add FILE|RUN… --to DIR/NAME` writes results.",
            code=ExitCode.DATA,
        )
    return restore(paths, runs_dir, durable=durable)


def load_questions(folder: Path) -> Questions:
    """The questions of a folder of results.

    Raises:
        PhmrunError: (exit 3) The file is missing or says something else.
    """
    path = folder / QUESTIONS
    try:
        return Questions.model_validate(parse_yaml(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        above = folder.parent
        hint = f"phmrun results build {above}" if (above / QUESTIONS).is_file() else None
        what = f"it cannot be read: {error.strerror}"
        raise PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{path}: {'.'.join(map(str, first['loc']))}"
        raise PhmrunError(first["msg"].lower(), where=where, code=ExitCode.DATA) from error


class Compared(NamedTuple):
    """A row beside the dense one.

    Attributes:
        effect: By their seeds alone.
        score: The name of the score.
        detectable: The difference that would have been seen.
    """

    effect: Effect
    score: str
    detectable: float


class Page(NamedTuple):
    """The page as Markdown, and what its pictures show, by their files."""

    text: str
    pictures: dict[Path, list[Compared]]


def page_of(folder: Path) -> Page:
    """The page: every measured number in it is read from the results, or computed from them.

    Args:
        folder: `questions.yaml`, and a folder for every sweep with its `sweep.yaml` and a file for each run.

    Raises:
        PhmrunError: A file is missing or damaged.
    """
    asked = load_questions(folder)
    pictures: dict[Path, list[Compared]] = {}
    known: list[tuple[str, str, str, str]] = []
    with TemporaryDirectory() as temporary:
        runs_dir = Path(temporary)
        runs = restore_all(folder, runs_dir, durable=False)
        spent = sum(segment.get("cpu_seconds", 0.0) for run in runs for segment in run.environment())
        sections = []
        for place, question in enumerate(asked.questions, start=1):
            answers = [_Answer(each, folder / each.name / SWEEP, runs_dir) for each in question.sweeps]
            sections.append(Section(f"{place}. {question.question}", list(_section(question, answers))))
            for answer in answers:
                heads = itertools.chain([(f"{place}", answer.title)], itertools.repeat(("", "")))
                known += [(*head, *verdict) for head, verdict in zip(heads, answer.verdicts(), strict=False)]
            pictures |= {answer.picture: answer.compared for answer in answers if answer.compared}
    opening: list[Part] = [Text(asked.about)] if asked.about else []
    opening.append(Text(f"{len(runs)} runs, trials of the tuning among them; {spent / 3600:.1f} CPU hours in all."))
    if known:
        opening.append(Listing(("", "comparison", "row", "beside dense"), known))
    opening.append(Code(f"phmrun results restore {folder} --runs-dir runs", "console"))
    return Page(to_markdown(Document(asked.title, opening, sections)), pictures)


def _section(asked: Question, answers: "Sequence[_Answer]") -> Iterator[Part]:
    if asked.about:
        yield Text(asked.about)
    for answer in answers:
        yield from answer.parts()
    if not (asked.sweeps or asked.about):
        yield Text("Undecided: nothing was run for it.")
    if asked.missing:
        yield Text(f"Missing: {asked.missing}")


class _Answer:
    """What a sweep says to a question."""

    def __init__(self, asked: SweepOfQuestion, file: Path, runs_dir: Path) -> None:
        self._asked, self._file = asked, file
        self._seeds = None if asked.max_seeds else _seeds(file.parent)
        found, self._plan, self._statuses = results_of_sweep(
            str(file),
            runs_dir,
            seeds=self._seeds,
            rows=asked.rows,
            scores=asked.scores,
            max_seeds=asked.max_seeds,
            margin=asked.margin,
        )
        self._table: ResultTable = found.table
        self._differences: Differences = decided(found)
        self.title = self._plan.sweep.title or asked.name
        self.picture = file.with_name(PICTURE)
        self.compared = _compared(self._table, self._differences)

    def verdicts(self) -> list[tuple[str, str]]:
        """What is known of each row that was compared with the dense one."""
        return [
            (_name(self._table, row), sentence(difference))
            for (row, _), difference in sorted(self._differences.items())
        ]

    def parts(self) -> Iterator[Part]:
        """The table, the picture, the effects, and how all of it was made."""
        laid = lay_out(self._table, "mean±std", self._differences, paper=False, costs=self._asked.costs)
        yield Text(self.title)
        yield Listing(laid.columns, laid.rows)
        if self.compared:
            caption = f"Differences from dense with their 95 % intervals over seeds: {self.title}"
            yield Picture(self.picture, caption, self.picture.as_posix())
            yield _effects(self.compared)
        for note in laid.notes:
            yield Text(note, note=True)
        done = [status for status in self._statuses if status.state is CellState.DONE]
        yield from environments(done)
        yield _runs(done)
        yield Code(_commands(self._file, self._asked, self._seeds or 1), "console")


def _name(table: ResultTable, row: int) -> str:
    return row_name(dict(zip(table.keys, table.rows[row], strict=True)))


def _compared(table: ResultTable, differences: Differences) -> list[Compared]:
    found = []
    for place, figure, dense, score in pairs(table):
        comparison = over_seeds(figure, dense, score)
        if comparison is not None and min(comparison.seeds) > 1:
            known = differences.get(place)
            different = known is not None and known.decision.verdict is Verdict.DIFFERENT
            name, seeds = _name(table, place[0]), comparison.seeds[0]
            effect = Effect(name, comparison.value, *comparison.interval(), seeds, different)
            found.append(Compared(effect, score, detectable(comparison)))
    return found


def _effects(compared: Sequence[Compared]) -> Listing:
    rows = [
        (each.label, score, f"{each.value:+.2f}", f"{each.low:+.2f} to {each.high:+.2f}", f"{size:.2f}", each.seeds)
        for each, score, size in compared
    ]
    return Listing(("row", "score", "against dense", "95 % interval", "detectable (power 80 %)", "seeds"), rows)


def save_pictures(page: Page) -> None:
    """Draws the pictures of a page; of several scores of a row the first, which decides."""
    from phmrun.plots.canvas import save_figure
    from phmrun.plots.effects import draw_effects

    for path, compared in page.pictures.items():
        score = compared[0].score
        save_figure(draw_effects([each.effect for each in compared if each.score == score], score), path)


def _runs(done: Sequence[CellStatus]) -> Listing:
    rows = []
    for status in done:
        run = status.run
        if run is None or run.status is None:
            continue
        score = run.main_score
        value = number(run.score(score)) if score else None
        rows.append((status.cell.label, value, duration(run.status.seconds), f"phmrun runs reproduce {run.id}"))
    return Listing(("cell", "score", "training", "command"), rows, "The runs, and what trains each again")


def _seeds(folder: Path) -> int:
    """The seeds of the results of a sweep."""
    return max((int(path.stem.split("-")[-2]) for path in folder.glob("*.json")), default=1)


def _commands(file: Path, asked: SweepOfQuestion, seeds: int) -> str:
    """What trains the sweep anew or adds to it, from the project's own folder."""
    margin = "" if asked.margin is None else f" --margin {asked.margin:g}"
    how = f"--until-decided --max-seeds {asked.max_seeds}{margin}" if asked.max_seeds else f"--seeds {seeds}"
    return f"phmrun sweep {file} {how}\nphmrun results add {file} --to {file.parent}"
