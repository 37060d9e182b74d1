"""Page of a project's results (RESULTS.md) and one page per sweep, generated from small result files."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pydantic import BaseModel, ValidationError

from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError, counted
from phmrun.files import sha256_of
from phmrun.ledger import Run
from phmrun.ledger.listing import unchanged
from phmrun.progress import note
from phmrun.registry import loaded_plugins
from phmrun.report.answers import NONE, PAGE, Answer, Drawing, SweepOfQuestion
from phmrun.report.document import Code, Document, Links, Listing, Part, Picture, Section, Text, to_markdown
from phmrun.report.reduced_claims import CheckedClaim, ReducedClaim, check, claims_table, papers_claims
from phmrun.results.long_table import restore_folder
from phmrun.results.printed import Printed
from phmrun.results.render import Styled
from phmrun.results.verdicts import verdict_words
from phmrun.statistics.verdict import DECIDED
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.paper_claims import load_claims
from phmrun.sweeps.paper_table import FOLDER, load_table

QUESTIONS, SWEEP, SIZES, EVIDENCE, SWEEPS = "questions.yaml", "sweep.yaml", "sizes.svg", "evidence.md", "sweeps.md"
SWEEPS_LISTED = (
    "A sweep's page has its scores, verdicts, environments and signatures, and the command that repeats each run."
)
CLAIMS_HOLD = (
    "Differences are in the sweep's score: a positive one of perplexity is a loss. Claims of another metric, corpus or "
    "pair of languages than a sweep's are not decided here. Two rows that are not dense are compared alone, in one "
    "test of all seeds that count."
)


class Question(BaseModel, extra="forbid"):
    """Question of the page, answered by sweeps that have pages of their own."""

    question: str
    about: str = ""  # the comparison and its purpose; on the pages of its sweeps
    sweeps: tuple[SweepOfQuestion, ...] = ()  # sweeps that answer it
    missing: str = ""  # experiments needed for an answer


class Published(BaseModel, extra="forbid"):
    """Printed cell of a paper's table, a line in a picture."""

    table: str  # paper and table: phm/table6
    row: str
    column: str

    def line(self) -> tuple[str, float]:
        """Return its name, such as "Zhang et al. 2021, Transformer (published)", and the printed number.

        Raises:
            PhmrunError: (exit 2) There is no such table. (exit 3) The table has no such cell, or it is no number.
        """
        table = load_table(f"{FOLDER}{self.table}.yaml")
        try:
            printed = Printed.parse(table.row(self.row).published[self.column])
        except (StopIteration, KeyError, PhmrunError):
            what = f"the table {self.table} has no number at {self.row} / {self.column}"
            raise PhmrunError(what, where=QUESTIONS, code=ExitCode.DATA) from None
        return f"{load_claims(table.paper)[0].cite}, {self.row} (published)", float(printed.amount)


class Column(BaseModel, extra="forbid"):
    """Column of the matrix: a sweep under a short name."""

    name: str
    sweep: str
    also: tuple[str, ...] = ()  # sweeps with the same baseline whose rows are in the column, too
    longer: str = ""  # sweep of the same rows trained longer; none if empty
    widths: str = ""  # sweep of dense networks of several widths, a curve in the column's picture; none if empty
    published: tuple[Published, ...] = ()  # printed scores, lines in the column's picture

    @property
    def sweeps(self) -> list[str]:
        """Names of all its sweeps."""
        return [name for name in (self.sweep, *self.also, self.longer, self.widths) if name]


class Advice(BaseModel, extra="forbid"):
    """Sentence of advice, and the rows that it follows from."""

    says: str
    rows: dict[str, tuple[str, ...]]  # beginnings of rows' names, by the name of their sweep


class Matrix(BaseModel, extra="forbid"):
    """Table of structures by tasks that opens the page."""

    question: str
    about: str = ""
    columns: tuple[Column, ...]
    rows: dict[str, str]  # beginning of the row's name in the sweeps, by the name to print
    advice: tuple[Advice, ...] = ()  # sentences that follow from it
    pictures: tuple[Column, ...] = ()  # sweeps that are no columns, with pictures like those of columns


class Questions(BaseModel, extra="forbid"):
    """Content of `questions.yaml`."""

    title: str
    about: str = ""
    matrix: Matrix | None = None
    questions: tuple[Question, ...]
    claims: tuple[ReducedClaim, ...] = ()  # claims of papers, each checked on rows of a sweep
    longer: str = ""  # what changes with longer training
    unknown: tuple[str, ...] = ()  # what these results do not say


class Page(NamedTuple):
    """Page as Markdown, with the sweeps' pages and the drawings of all pictures by file."""

    text: str
    pages: Mapping[Path, str]
    pictures: Mapping[Path, Drawing]


def page_of(folder: Path) -> Page:
    """Return the page of a folder of results, with its sweeps' pages.

    All measured numbers come from the folder's files: `questions.yaml`, and one folder per sweep with its `sweep.yaml`
    and a file per run. Nothing is written there. Pages and pictures are returned by the path to write them to. With a
    matrix, the questions' sections are in ``sweeps.md``, else in the page itself. ``evidence.md`` is there if the
    matrix has advice. Each sweep has ``README.md``, ``effects.svg`` if a difference has an interval, and ``sizes.svg``
    if it is drawn for the matrix.

    Raises:
        PhmrunError: (exit 3) A file is missing or damaged, the matrix names a sweep that no question has, or a sweep
            names a plug-in that the user has not. (exit 2) A file is not YAML.
    """
    asked = _load_questions(folder)
    with TemporaryDirectory() as temporary, unchanged():
        runs, answers = _answers(folder, asked, Path(temporary))
        spent = sum(segment.get("cpu_seconds", 0.0) for run in runs for segment in run.environment())
        # All reads of runs happen here, before the temporary directory is deleted.
        pages = {
            folder / sweep.name / PAGE: answers[sweep.name].page(question.question, question.about, question.missing)
            for question in asked.questions
            for sweep in question.sweeps
        }
        pictures = {answer.picture: answer.effects() for answer in answers.values() if answer.compared}
        sections = _matrix(asked.matrix, answers, folder, pictures) if asked.matrix else []
        if asked.matrix and asked.matrix.advice:
            pages[folder / EVIDENCE] = _evidence(asked.matrix, answers, folder / QUESTIONS)
        checked = _checked(asked, answers, folder / QUESTIONS)
    if asked.longer:
        sections.append(Section("What changes with longer training?", [Text(asked.longer)]))
    if checked:
        sections.append(Section("Do the papers' claims hold here?", [Text(CLAIMS_HOLD), claims_table(checked)]))
    if asked.unknown:
        sections.append(Section("What is not known", [Text(line) for line in asked.unknown]))
    root = Path() if asked.matrix else folder  # of links to sweeps' pages
    questions = [Section(question.question, _question(question, answers, root)) for question in asked.questions]
    if asked.matrix:
        pages[folder / SWEEPS] = to_markdown(Document("Sweeps", [Text(SWEEPS_LISTED)], questions))
        runs_listed = f"all {len(answers)} by question, with their verdicts counted"
        sections.append(
            Section("Where are the runs?", [Links([("Sweeps", (folder / SWEEPS).as_posix(), runs_listed)])])
        )
    else:
        sections += questions
    opening: list[Part] = [Text(asked.about)] if asked.about else []
    opening.append(Text(f"{len(runs)} runs, trials of the tuning among them; {spent / 3600:.1f} CPU hours in all."))
    opening.append(Code(f"phmrun results restore {folder} --runs-dir runs", "console"))
    numbered = [Section(f"{place}. {section.title}", section.parts) for place, section in enumerate(sections, 1)]
    return Page(to_markdown(Document(asked.title, opening, numbered)), pages, pictures)


def checked_claims(folder: Path) -> list[CheckedClaim]:
    """Return the claims of ``questions.yaml`` in a folder of results, each checked on its sweep.

    Only the sweeps that claims name are compared. The result is empty if the file has no claims.

    Raises:
        PhmrunError: (exit 3) A file is missing or damaged, a claim names a claim, sweep or row that does not exist, or
            a sweep names a plug-in that the user has not. (exit 2) A file is not YAML.
    """
    asked = _load_questions(folder)
    if not asked.claims:
        return []
    with TemporaryDirectory() as temporary, unchanged():
        _, answers = _answers(folder, asked, Path(temporary), {claim.sweep for claim in asked.claims})
        return _checked(asked, answers, folder / QUESTIONS)


def _checked(asked: Questions, answers: Mapping[str, Answer], where: Path) -> list[CheckedClaim]:
    """Check the claims of the questions on the answers of their sweeps.

    Raises:
        PhmrunError: (exit 3) A claim names a claim, sweep or row that does not exist.
    """
    papers = papers_claims() if asked.claims else {}
    return [check(claim, papers, answers, where) for claim in asked.claims]


def _answers(
    folder: Path, asked: Questions, runs_dir: Path, only: Collection[str] | None = None
) -> tuple[list[Run], dict[str, Answer]]:
    """Restore all runs of a folder, and return them with the answers of the questions' sweeps by name.

    Args:
        folder: Folder of results.
        asked: Its questions.
        runs_dir: Directory to restore the runs in; the answers read it lazily.
        only: Names of the sweeps to answer; all if not given.

    Raises:
        PhmrunError: (exit 3) A file is missing or damaged, or a sweep names a plug-in that the user has not.
    """
    sweeps = [sweep for question in asked.questions for sweep in question.sweeps if only is None or sweep.name in only]
    _require_named_plugins(_sweep_file(folder, sweep.name) for sweep in sweeps)
    runs = restore_folder(folder, runs_dir, durable=False)
    return runs, {sweep.name: Answer(sweep, _sweep_file(folder, sweep.name), runs_dir) for sweep in sweeps}


def _load_questions(folder: Path) -> Questions:
    """Read ``questions.yaml`` of a folder.

    Without that file, each sweep of the folder is a section, in alphabetical order, and a note says so. A section's
    question is the sweep's title, else its folder's name.

    Raises:
        PhmrunError: (exit 3) The file cannot be read, or is missing without any sweep, or a value is not valid; names
            the first such key. (exit 2) It is not YAML.
    """
    path = folder / QUESTIONS
    if not path.exists() and (sweeps := sorted(folder.glob(f"*/{SWEEP}"))):
        note(f"{path} does not exist: one section for each sweep, in alphabetical order")
        titles = [str(parse_yaml(file.read_text(encoding="utf-8"), str(file)).get("title") or "") for file in sweeps]
        sections = [
            Question(question=title or file.parent.name, sweeps=(SweepOfQuestion(name=file.parent.name),))
            for file, title in zip(sweeps, titles, strict=True)
        ]
        return Questions(title=f"Results in {folder}", questions=tuple(sections))
    try:
        return Questions.model_validate(parse_yaml(path.read_text(encoding="utf-8"), str(path)))
    except OSError as error:
        above = folder.parent
        hint = f"Run: phmrun results add sweep.yaml --to {folder}/NAME. Without {QUESTIONS}, each NAME is a section."
        if (above / QUESTIONS).is_file():
            hint = f"phmrun results build {above}"
        what = f"it cannot be read: {error.strerror}"
        raise PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = f"{path}: {'.'.join(map(str, first['loc']))}"
        raise PhmrunError(first["msg"].lower(), where=where, code=ExitCode.DATA) from error


def _sweep_file(folder: Path, name: str) -> Path:
    """Return the path of a sweep's file, ``FOLDER/NAME/sweep.yaml``.

    Raises:
        PhmrunError: (exit 3) The sweep's folder is a link out of the folder of results.
    """
    if (folder / name).resolve().parent != folder.resolve():
        raise PhmrunError("this leads out of the folder of results", where=str(folder / name), code=ExitCode.DATA)
    return folder / name / SWEEP


def _require_named_plugins(files: Iterable[Path]) -> None:
    """Check that the plug-ins of contributed sweeps have been imported.

    ``--plugin`` imports them: a plug-in executes code, and a folder of results may come from anyone. Contents are
    compared, not paths.

    Raises:
        PhmrunError: (exit 3) A sweep names a plug-in that is missing or has not been imported.
    """
    trusted = {sha256_of(path) for path in loaded_plugins() if path.is_file()}
    for file in files:
        for plugin in map(Path, load_sweep(str(file)).file.plugins):
            if not plugin.is_file() or sha256_of(plugin) not in trusted:
                raise PhmrunError(
                    f"this sweep names a plug-in, {plugin.name}, whose code is not run unless you name it",
                    where=str(file),
                    hint=f"Read the file, then: phmrun results build {file.parents[1]} --plugin {plugin}",
                    code=ExitCode.DATA,
                )


def _matrix(
    matrix: Matrix, answers: Mapping[str, Answer], folder: Path, pictures: dict[Path, Drawing]
) -> list[Section]:
    """Return the section of the matrix, and one of pictures.

    The matrix has the dense scores, a row of differences for each structure, and the best floors, each with its costs;
    the advice follows. A picture shows the scores of a column's sweep by parameters and by training time, if it has two
    points or more. Pictures are added to ``pictures`` in place.

    Raises:
        PhmrunError: (exit 3) A column's sweep belongs to no question, or the paper has no such printed number.
    """
    shown = (*matrix.columns, *matrix.pictures)
    for name in (name for column in shown for name in column.sweeps):
        if name not in answers:
            what = f"the matrix names {name}, a sweep that belongs to no question"
            raise PhmrunError(what, where=str(folder / QUESTIONS), valid=list(answers), code=ExitCode.DATA)
    its = [answers[column.sweep] for column in matrix.columns]
    rows: list[tuple[str | Styled, ...]] = [("dense", *(Styled(answer.reference, answer.costs("")) for answer in its))]
    rows += [
        (name, *(_cell(column, begin, answers) for column in matrix.columns)) for name, begin in matrix.rows.items()
    ]
    rows += [("best trivial system", *(answer.floor for answer in its))]
    parts: list[Part] = [Text(matrix.about)] if matrix.about else []
    parts.append(Listing(("", *(column.name for column in matrix.columns)), rows))
    parts += [Text(advice.says) for advice in matrix.advice]
    if matrix.advice:
        evidence = (folder / EVIDENCE).as_posix()
        parts.append(Links([("Evidence", evidence, "rows, intervals and lengths of training behind each sentence")]))
    drawn: list[Part] = []
    for column in shown:
        lines = dict(published.line() for published in column.published)
        curve = answers[column.widths] if column.widths else None
        for name in (column.sweep, *column.also):
            answer, path = answers[name], folder / name / SIZES
            if len(answer.points) > 1:
                pictures[path] = answer.sizes(lines, curve)
                drawn.append(Picture(path, f"{column.name}: {answer.score} by size and training time", path.as_posix()))
    return [Section(matrix.question, parts), Section("Scores by size and time", drawn)]


def _evidence(matrix: Matrix, answers: Mapping[str, Answer], where: Path) -> str:
    """Return the page of the rows behind each sentence of advice, as Markdown.

    Raises:
        PhmrunError: (exit 3) A sentence names a sweep that belongs to no question, or a row that its sweep lacks.
    """
    sections = []
    for number, advice in enumerate(matrix.advice, 1):
        rows = []
        for name, begin in ((name, begin) for name, begins in advice.rows.items() for begin in begins):
            if name not in answers or not answers[name].has(begin):
                what = f"the advice names a row that is not there: {name}, {begin}"
                raise PhmrunError(what, where=str(where), code=ExitCode.DATA)
            rows.append((answers[name].title, *answers[name].evidence(begin)))
        listing = Listing(("sweep", "row", "length", "beside dense", "seeds"), rows)
        sections.append(Section(f"Advice {number}", [Text(advice.says), listing]))
    opening = [Text("Intervals are simultaneous over the rows of a sweep and its looks, over training seeds.")]
    return to_markdown(Document("Evidence for the advice", opening, sections))


def _cell(column: Column, begin: str, answers: Mapping[str, Answer]) -> Styled:
    """Return the cell of a structure in a column of the matrix, with the row's costs below.

    The first sweep of the column that has the row counts. An undecided cell is muted. One that the column's longer
    sweep decides the same way is strong. Without the row, the cell is a dash.
    """
    answer = next((answers[name] for name in (column.sweep, *column.also) if answers[name].has(begin)), None)
    if answer is None:
        return Styled(NONE)
    compared = answer.comparison(begin)
    longer = answers[column.longer].comparison(begin) if column.longer else None
    decided = compared is not None and compared.verdict in DECIDED
    words = [verdict_words(comparison) for comparison in (compared, longer) if comparison]
    strong = decided and len(words) == 2 and len(set(words)) == 1
    return Styled(answer.cell(begin), answer.costs(begin), strong=strong, muted=not decided)


def _question(question: Question, answers: Mapping[str, Answer], folder: Path) -> Sequence[Part]:
    """Return the parts of a question's section.

    These are the links to the pages of its sweeps, with their verdicts counted: "2 different, worse · 1 open", or "no
    comparison" without any; those of pairs follow: "; of 6 pairs 1 different, better · 5 undecided". Without sweeps,
    they are the question's ``about``, or the sentence that nothing was run, and what is missing, if anything.
    """
    links = []
    for sweep in question.sweeps:
        answer = answers[sweep.name]
        listed = _counted_kinds(answer.kinds()) or "no comparison"
        if pairs := answer.kinds_of_pairs():
            listed += f"; of {counted(len(pairs), 'pair')} {_counted_kinds(pairs)}"
        links.append((answer.title, (folder / sweep.name / PAGE).as_posix(), listed))
    parts: list[Part] = [Links(links)] if links else []
    if not links:
        parts.append(Text(question.about or "Undecided: nothing was run for it."))
        parts += [Text(f"Missing: {question.missing}")] if question.missing else []
    return parts


def _counted_kinds(kinds: Sequence[str]) -> str:
    """Return verdicts counted: "2 different, worse · 1 open"; empty without any."""
    return " · ".join(f"{number} {kind}" for kind, number in Counter(kinds).items())


def save_pictures(page: Page) -> None:
    """Draw the pictures of a page and write them to their paths, in place of existing files."""
    from phmrun.results.plots.canvas import save_figure  # imports Matplotlib

    for path, draw in page.pictures.items():
        save_figure(draw(), path)
