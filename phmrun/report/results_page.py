"""Page of a project's results (RESULTS.md), generated from small result files."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ValidationError

from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import is_name
from phmrun.ledger.card import duration, number
from phmrun.ledger.wording import row_name
from phmrun.report.content import environments
from phmrun.report.document import Code, Document, Listing, Part, Picture, Section, Text, to_markdown
from phmrun.results.layout import lay_out
from phmrun.results.long_table import restore_folder
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.sweeps import draw_effects
from phmrun.results.table import Effect
from phmrun.results.verdicts import sentence
from phmrun.statistics.verdict import Verdict
from phmrun.sweeps.cell_status import CellState
from phmrun.sweeps.plan import SEED
from phmrun.sweeps.results import Asked, view_of_sweep

QUESTIONS, SWEEP, PICTURE = "questions.yaml", "sweep.yaml", "effects.svg"


def _folder_name(name: str) -> str:
    """Return a name unchanged.

    Raises:
        ValueError: It is not a valid name of a folder.
    """
    if not is_name(name):
        raise ValueError(f"{name!r:.80} is no name of a folder")
    return name


class SweepOfQuestion(BaseModel, extra="forbid"):
    """Sweep that answers a question: a folder with its file and its results."""

    name: Annotated[str, AfterValidator(_folder_name)]
    # of `sweep --until-decided`; `None`: a single test of all seeds
    max_seeds: int | None = None
    margin: float | None = None  # δ of a sequential sweep; `None`: the metric's default
    scores: tuple[str, ...] = ()  # scores shown; the main one if empty
    rows: tuple[str, ...] = ()  # keys of the rows; the usual ones if empty
    withdrawn: dict[str, str] = {}  # reasons by row for withdrawn verdicts; the scores are still shown
    costs: tuple[str, ...] = ()  # costs beside the parameters, such as training-time


class Question(BaseModel, extra="forbid"):
    """Section of the page."""

    question: str  # its heading
    about: str = ""  # the comparison and its purpose
    sweeps: tuple[SweepOfQuestion, ...] = ()  # sweeps that answer it
    missing: str = ""  # experiments needed for an answer


class Questions(BaseModel, extra="forbid"):
    """Content of `questions.yaml`: title, opening, and questions in order."""

    title: str
    about: str = ""
    questions: tuple[Question, ...]


def _load_questions(folder: Path) -> Questions:
    """Read ``questions.yaml`` of a folder.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or a value is not valid; names the key. (exit 2) It is not YAML.
    """
    path = folder / QUESTIONS
    try:
        return Questions.model_validate(parse_yaml(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        above = folder.parent
        hint = "Its keys: title and questions; a question has sweeps, each with the name of a folder of results add."
        if (above / QUESTIONS).is_file():
            hint = f"phmrun results build {above}"
        what = f"it cannot be read: {error.strerror}"
        raise PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{path}: {'.'.join(map(str, first['loc']))}"
        raise PhmrunError(first["msg"].lower(), where=where, code=ExitCode.DATA) from error


class Compared(NamedTuple):
    """Difference of a row from the dense one in a score."""

    effect: Effect
    score: str


class Page(NamedTuple):
    """Page as Markdown, and the comparisons that each picture shows, by file."""

    text: str
    pictures: dict[Path, list[Compared]]


def page_of(folder: Path) -> Page:
    """Return the page of a folder of results.

    Nothing is written into it. All measured numbers come from its files, which are restored into a temporary directory.
    The folder has `questions.yaml`, and one folder per sweep with its `sweep.yaml` and a file per run.

    Raises:
        PhmrunError: (exit 3) A file is missing or damaged; (exit 2) a YAML file is malformed.
    """
    asked = _load_questions(folder)
    pictures: dict[Path, list[Compared]] = {}
    summary: list[tuple[str, str, str, str]] = []
    with TemporaryDirectory() as temporary:
        runs_dir = Path(temporary)
        runs = restore_folder(folder, runs_dir, durable=False)
        spent = sum(segment.get("cpu_seconds", 0.0) for run in runs for segment in run.environment())
        sections = []
        for place, question in enumerate(asked.questions, start=1):
            answers = [_Answer(sweep, _sweep_file(folder, sweep.name), runs_dir) for sweep in question.sweeps]
            parts: list[Part] = [Text(question.about)] if question.about else []
            for answer in answers:
                # A generator that reads the runs: consumed before the temporary directory is deleted.
                parts += answer.parts()
                heads = itertools.chain([(f"{place}", answer.title)], itertools.repeat(("", "")))
                summary += [(*head, *verdict) for head, verdict in zip(heads, answer.verdicts(), strict=False)]
            pictures |= {answer.picture: answer.compared for answer in answers if answer.compared}
            if not (answers or question.about):
                parts.append(Text("Undecided: nothing was run for it."))
            if question.missing:
                parts.append(Text(f"Missing: {question.missing}"))
            sections.append(Section(f"{place}. {question.question}", parts))
    opening: list[Part] = [Text(asked.about)] if asked.about else []
    opening.append(Text(f"{len(runs)} runs, trials of the tuning among them; {spent / 3600:.1f} CPU hours in all."))
    if summary:
        opening.append(Listing(("", "comparison", "row", "beside dense"), summary))
    opening.append(Code(f"phmrun results restore {folder} --runs-dir runs", "console"))
    return Page(to_markdown(Document(asked.title, opening, sections)), pictures)


def _sweep_file(folder: Path, name: str) -> Path:
    """Return the path of a sweep's file.

    Raises:
        PhmrunError: (exit 3) The sweep's folder is a link out of the folder of results.
    """
    if (folder / name).resolve().parent != folder.resolve():
        raise PhmrunError("this leads out of the folder of results", where=str(folder / name), code=ExitCode.DATA)
    return folder / name / SWEEP


class _Answer:
    """Results of one sweep for a question."""

    def __init__(self, asked: SweepOfQuestion, file: Path, runs_dir: Path) -> None:
        self._asked, self._file = asked, file
        shape = Asked(rows=asked.rows, scores=asked.scores, max_seeds=asked.max_seeds, margin=asked.margin)
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
        self.picture = file.with_name(PICTURE)
        self.compared = list(self._comparisons())

    def _name(self, row: int) -> str:
        """Return the name of a row, by its index."""
        return row_name(dict(zip(self._table.keys, self._table.rows[row], strict=True)))

    def _reason(self, row: int) -> str:
        """Return the reason why a row's verdict is withdrawn.

        The result is empty if it is not. A withdrawn name covers all rows that begin with it.
        """
        name = self._name(row)
        return next((reason for begin, reason in self._asked.withdrawn.items() if name.startswith(begin)), "")

    def _comparisons(self) -> Iterator[Compared]:
        """Yield the comparisons that have a difference, by row and column."""
        for (row, column), comparison in sorted(self._differences.items()):
            shown = comparison.judgement.difference
            if shown is not None:
                different = comparison.verdict is Verdict.DIFFERENT
                effect = Effect(self._name(row), shown.value, shown.low, shown.high, shown.seeds[0], different)
                yield Compared(effect, self._table.headings[column].scores[0])

    def verdicts(self) -> list[tuple[str, str]]:
        """Return the name and verdict of each compared row.

        A withdrawn one has its reason.
        """
        lines = {row: f"withdrawn: {reason}" for row, reason in self._withdrawn.items()}
        lines |= {row: sentence(difference) for (row, _), difference in sorted(self._differences.items())}
        return [(self._name(row), line) for row, line in sorted(lines.items())]

    def parts(self) -> Iterator[Part]:
        """Yield table, picture, verdicts, notes, environments, runs and commands."""
        laid = lay_out(self._table, "mean±std", self._differences, paper=False, costs=self._asked.costs)
        yield Text(self.title)
        yield Listing(laid.columns, laid.rows)
        if self.compared:
            caption = f"Differences from dense with their simultaneous 95 % intervals over seeds: {self.title}"
            yield Picture(self.picture, caption, self.picture.as_posix())
        if laid.verdict_rows:
            yield Listing(laid.verdict_columns, laid.verdict_rows)
        for row, reason in self._withdrawn.items():
            yield Text(f"{self._name(row)}: verdict withdrawn: {reason}", note=True)
        for note in laid.notes:
            yield Text(note, note=True)
        yield from environments(self._done)
        yield self._runs()
        asked, file = self._asked, self._file
        how = f"--seeds {self._seeds}"
        if asked.max_seeds:
            margin = "" if asked.margin is None else f" --margin {asked.margin:g}"
            how = f"--until-decided --max-seeds {asked.max_seeds}{margin}"
        yield Code(f"phmrun sweep {file} {how}\nphmrun results add {file} --to {file.parent}", "console")

    def _runs(self) -> Listing:
        """Return a table of the finished runs.

        Columns: main score, training time, and the command that reproduces it.
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


def save_pictures(page: Page) -> None:
    """Draw and write the pictures of a page.

    Each shows the first score of its comparisons only.
    """
    for path, compared in page.pictures.items():
        score = compared[0].score
        save_figure(draw_effects([item.effect for item in compared if item.score == score], score), path)
