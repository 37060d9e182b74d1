"""Page of a project's results (RESULTS.md), made from small files alone."""

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
    if not is_name(name):
        raise ValueError(f"{name!r:.80} is no name of a folder")
    return name


class SweepOfQuestion(BaseModel, extra="forbid"):
    """A sweep that answers a question: a folder with its file and its results."""

    name: Annotated[str, AfterValidator(_folder_name)]
    max_seeds: int | None = (
        None  # of `sweep --until-decided`, which decides by its looks; `None`: one test of all seeds
    )
    margin: float | None = None  # δ of these looks; `None`: the one that is usual for the score
    scores: tuple[str, ...] = ()  # these instead of the main score
    rows: tuple[str, ...] = ()  # keys that make a row, instead of the usual ones
    withdrawn: dict[str, str] = {}  # reasons by row for verdicts that are not to be read, though the numbers stand
    costs: tuple[str, ...] = ()  # what stands beside the parameters: multiplications, training-time


class Question(BaseModel, extra="forbid"):
    """A section of the page."""

    question: str  # its heading
    about: str = ""  # what is compared with what, and why
    sweeps: tuple[SweepOfQuestion, ...] = ()  # what was run for it
    missing: str = ""  # what it takes to decide what is not decided


class Questions(BaseModel, extra="forbid"):
    """The file `questions.yaml`: a title, an opening, and the questions in their order."""

    title: str
    about: str = ""
    questions: tuple[Question, ...]


def _load_questions(folder: Path) -> Questions:
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
    """Difference of a row from the dense one in a score."""

    effect: Effect
    score: str


class Page(NamedTuple):
    """The page as Markdown, and what its pictures show, by their files."""

    text: str
    pictures: dict[Path, list[Compared]]


def page_of(folder: Path) -> Page:
    """The page: every measured number in it is read from the results, or computed from them.

    The folder has `questions.yaml`, and a folder for every sweep with its `sweep.yaml` and a file for each run; one
    that is missing or damaged is an error.
    """
    asked = _load_questions(folder)
    pictures: dict[Path, list[Compared]] = {}
    known: list[tuple[str, str, str, str]] = []
    with TemporaryDirectory() as temporary:
        runs_dir = Path(temporary)
        runs = restore_folder(folder, runs_dir, durable=False)
        spent = sum(segment.get("cpu_seconds", 0.0) for run in runs for segment in run.environment())
        sections = []
        for place, question in enumerate(asked.questions, start=1):
            answers = [_Answer(each, _sweep_file(folder, each.name), runs_dir) for each in question.sweeps]
            parts: list[Part] = [Text(question.about)] if question.about else []
            for answer in answers:
                # A generator that reads the runs: used up here, before the temporary directory is gone.
                parts += answer.parts()
                heads = itertools.chain([(f"{place}", answer.title)], itertools.repeat(("", "")))
                known += [(*head, *verdict) for head, verdict in zip(heads, answer.verdicts(), strict=False)]
            pictures |= {answer.picture: answer.compared for answer in answers if answer.compared}
            if not (answers or question.about):
                parts.append(Text("Undecided: nothing was run for it."))
            if question.missing:
                parts.append(Text(f"Missing: {question.missing}"))
            sections.append(Section(f"{place}. {question.question}", parts))
    opening: list[Part] = [Text(asked.about)] if asked.about else []
    opening.append(Text(f"{len(runs)} runs, trials of the tuning among them; {spent / 3600:.1f} CPU hours in all."))
    if known:
        opening.append(Listing(("", "comparison", "row", "beside dense"), known))
    opening.append(Code(f"phmrun results restore {folder} --runs-dir runs", "console"))
    return Page(to_markdown(Document(asked.title, opening, sections)), pictures)


def _sweep_file(folder: Path, name: str) -> Path:
    """The file of a sweep; a link that leads out of the folder, where a picture would be written, is refused."""
    if (folder / name).resolve().parent != folder.resolve():
        raise PhmrunError("this leads out of the folder of results", where=str(folder / name), code=ExitCode.DATA)
    return folder / name / SWEEP


class _Answer:
    """What a sweep says to a question."""

    def __init__(self, asked: SweepOfQuestion, file: Path, runs_dir: Path) -> None:
        self._asked, self._file = asked, file
        shape = Asked(rows=asked.rows, scores=asked.scores, max_seeds=asked.max_seeds, margin=asked.margin)
        view, _ = view_of_sweep(str(file), runs_dir, shape)
        self._done = [status for status in view.statuses if status.state is CellState.DONE]
        self._seeds = len({status.cell.at[SEED] for status in view.statuses})
        self._table = view.table
        compared = view.differences()
        self._withdrawn = {row: self._reason(row) for row, _ in compared if self._reason(row)}
        self._differences = {place: each for place, each in compared.items() if place[0] not in self._withdrawn}
        self.title = self._table.title or asked.name
        self.picture = file.with_name(PICTURE)
        self.compared = list(self._comparisons())

    def _name(self, row: int) -> str:
        return row_name(dict(zip(self._table.keys, self._table.rows[row], strict=True)))

    def _reason(self, row: int) -> str:
        """Reason for which the verdict of a row is withdrawn; empty: it is not."""
        name = self._name(row)
        return next((reason for begin, reason in self._asked.withdrawn.items() if name.startswith(begin)), "")

    def _comparisons(self) -> Iterator[Compared]:
        for (row, column), comparison in sorted(self._differences.items()):
            shown = comparison.judgement.difference
            if shown is not None:
                different = comparison.verdict is Verdict.DIFFERENT
                effect = Effect(self._name(row), shown.value, shown.low, shown.high, shown.seeds[0], different)
                yield Compared(effect, self._table.headings[column].scores[0])

    def verdicts(self) -> list[tuple[str, str]]:
        """What is known of each row that was compared with the dense one."""
        lines = {row: f"withdrawn: {reason}" for row, reason in self._withdrawn.items()}
        lines |= {row: sentence(difference) for (row, _), difference in sorted(self._differences.items())}
        return [(self._name(row), line) for row, line in sorted(lines.items())]

    def parts(self) -> Iterator[Part]:
        """The table, the picture, the effects, and how all of it was made."""
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
        rows = []
        for status in self._done:
            run = status.run
            if run is None or run.status is None:
                continue
            value = number(run.score(run.main_score)) if run.main_score else None
            again = f"phmrun runs reproduce {run.id}"
            rows.append((status.cell.label, value, duration(run.status.seconds), again))
        return Listing(("cell", "score", "training", "command"), rows, "The runs, and what trains each again")


def save_pictures(page: Page) -> None:
    """Draws the pictures of a page; of several scores of a row the first, which decides."""
    for path, compared in page.pictures.items():
        score = compared[0].score
        save_figure(draw_effects([each.effect for each in compared if each.score == score], score), path)
