"""The page of a project's results, made from small files alone. Imported when `phmrun results` runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import BaseModel, ConfigDict, ValidationError

from phmrun.cli.table_results import Results, decided, results_of_sweep
from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.card import duration, number
from phmrun.ledger.record import restore
from phmrun.papers.layout import lay_out
from phmrun.papers.significance import over_seeds, pairs
from phmrun.report.document import Code, Document, Listing, Part, Section, Text, to_markdown
from phmrun.report.environments import environments
from phmrun.statistics.decision import detectable
from phmrun.sweeps.cell_status import CellState, CellStatus

QUESTIONS, SWEEP = "questions.yaml", "sweep.yaml"


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


def restore_all(folder: Path, runs_dir: Path) -> list[Run]:
    """Makes a run directory of every result below a folder.

    Raises:
        PhmrunError: (exit 3) There is none, or one is damaged.
    """
    paths = sorted(folder.glob("*/*.json"))
    if not paths:
        raise PhmrunError("there are no results below it", where=str(folder), code=ExitCode.DATA)
    return [restore(path, runs_dir) for path in paths]


def load_questions(folder: Path) -> Questions:
    """The questions of a folder of results.

    Raises:
        PhmrunError: (exit 3) The file is missing or says something else.
    """
    path = folder / QUESTIONS
    try:
        return Questions.model_validate(parse_yaml(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        raise PhmrunError(f"it cannot be read: {error.strerror}", where=str(path), code=ExitCode.DATA) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{path}: {'.'.join(map(str, first['loc']))}"
        raise PhmrunError(first["msg"].lower(), where=where, code=ExitCode.DATA) from error


def page_of(folder: Path) -> str:
    """The page as Markdown: every number in it is read from the results, or computed from them.

    Args:
        folder: `questions.yaml`, and a folder for every sweep with its `sweep.yaml` and a file for each run.

    Raises:
        PhmrunError: A file is missing or damaged.
    """
    asked = load_questions(folder)
    with TemporaryDirectory() as temporary:
        runs_dir = Path(temporary)
        runs = restore_all(folder, runs_dir)
        spent = sum(segment.get("cpu_seconds", 0.0) for run in runs for segment in run.environment())
        opening: list[Part] = [Text(asked.about)] if asked.about else []
        opening.append(Text(f"{len(runs)} runs, trials of the tuning among them; {spent / 3600:.1f} CPU hours in all."))
        opening.append(Code(f"phmrun results restore {folder} --runs-dir runs", "console"))
        sections = [
            Section(f"{place}. {each.question}", list(_answer(each, folder, runs_dir)))
            for place, each in enumerate(asked.questions, start=1)
        ]
    return to_markdown(Document(asked.title, opening, sections))


def _answer(asked: Question, folder: Path, runs_dir: Path) -> Iterator[Part]:
    if asked.about:
        yield Text(asked.about)
    for sweep in asked.sweeps:
        yield from _of_sweep(sweep, folder / sweep.name / SWEEP, runs_dir)
    if not (asked.sweeps or asked.about):
        yield Text("Undecided: nothing was run for it.")
    if asked.missing:
        yield Text(f"Missing: {asked.missing}")


def _of_sweep(asked: SweepOfQuestion, file: Path, runs_dir: Path) -> Iterator[Part]:
    seeds = None if asked.max_seeds else _seeds(file.parent)
    found, plan, statuses = results_of_sweep(
        str(file),
        runs_dir,
        seeds=seeds,
        rows=asked.rows,
        scores=asked.scores,
        max_seeds=asked.max_seeds,
        margin=asked.margin,
    )
    differences = decided(found)
    laid = lay_out(found.table, "mean±std", differences, paper=False, costs=asked.costs)
    yield Text(plan.sweep.title or asked.name)
    yield Listing(laid.columns, laid.rows)
    yield from _effects(found)
    for note in laid.notes:
        yield Text(note, note=True)
    done = [status for status in statuses if status.state is CellState.DONE]
    yield from environments(done)
    yield _runs(done)
    yield Code(_commands(file, asked, seeds or 1), "console")


def _effects(found: Results) -> Iterator[Part]:
    """What each cell is to the dense one by its seeds alone: effect, interval, and what could have been seen."""
    rows = []
    for (row, _), figure, dense, score in pairs(found.table):
        comparison = over_seeds(figure, dense, score)
        if comparison is not None and min(comparison.seeds) > 1:
            low, high = comparison.interval()
            size = f"{detectable(comparison):.2f}"
            said = (f"{comparison.value:+.2f}", f"{low:+.2f} to {high:+.2f}", size, comparison.seeds[0])
            rows.append((", ".join(found.table.rows[row]), score, *said))
    if rows:
        yield Listing(("row", "score", "against dense", "95 % interval", "detectable (power 80 %)", "seeds"), rows)


def _runs(done: Sequence[CellStatus]) -> Listing:
    rows = []
    for status in done:
        run = status.run
        if run is None or run.status is None:
            continue
        score = run.main_score
        value = number(run.score(score)) if score else None
        rows.append((status.cell.label, value, duration(run.status.seconds), f"phmrun runs reproduce {run.id}"))
    return Listing(("cell", "score", "training", "command"), rows)


def _seeds(folder: Path) -> int:
    """The seeds of the results of a sweep."""
    return max((int(path.stem.split("-")[-2]) for path in folder.glob("*.json")), default=1)


def _commands(file: Path, asked: SweepOfQuestion, seeds: int) -> str:
    """What trains the sweep anew or adds to it, from the project's own folder."""
    margin = "" if asked.margin is None else f" --margin {asked.margin:g}"
    how = f"--until-decided --max-seeds {asked.max_seeds}{margin}" if asked.max_seeds else f"--seeds {seeds}"
    return f"phmrun sweep {file} {how}\nphmrun results add {file} --to {file.parent}"
