"""Write RESULTS.md, one page for each sweep, and their pictures from the records in this folder.

``python results/build.py [DIR] [--check]``. ``DIR/questions.yaml`` has the order, the words and the matrix; without it,
each sweep is a section. Numbers in the answer are filled in from the records. ``--check`` writes nothing, and exits
with code 3 if a page differs or a picture is missing. Trains nothing and needs no data.
"""

import argparse
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError, counted
from phmrun.escaping import fenced, markdown
from phmrun.ledger.listing import unchanged
from phmrun.ledger.record import record_paths, recorded_runs
from phmrun.ledger.run import Run
from phmrun.ledger.wording import duration, number
from phmrun.metric import metric_of
from phmrun.report.content import environments
from phmrun.results.baselines import baseline_rows
from phmrun.results.comparison import all_pairs, differences
from phmrun.results.costs import cost_of
from phmrun.results.layout import lay_out, verdict_notes, verdict_table
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.sweeps import draw_effects
from phmrun.results.render import markdown_table
from phmrun.results.table import MISSING
from phmrun.statistics.verdict import Verdict
from phmrun.statistics.welch import Difference, interval_words
from phmrun.sweeps.cell_status import CellState
from phmrun.sweeps.results import Asked, view
from phmrun.sweeps.selection import SEED

RATE = re.compile(r", lr [^,]+")  # in the name of a row
SWAPPED = {"worse": "better", "better": "worse"}
LIMIT = re.compile(r"not better by more than ([\d.]+)")
USUAL = ", embedding dense"  # in the name of a row of a sweep that varies embeddings, too
COSTS = ("parameters", "multiplications")
DECIDED = (Verdict.DIFFERENT, Verdict.EQUIVALENT, Verdict.NOT_WORSE)
Pictures = dict[Path, Callable[[], Any]]
"""Functions that draw a picture, by its path."""


def link(title: str, to: Path, mark: str = "") -> str:
    """Return a link, or with the mark "!" a picture, in Markdown."""
    return f"{mark}[{markdown(title)}]({quote(to.as_posix())})"


class Sweep:
    """Sweep with its records: table, comparisons without the withdrawn ones, and pairs.

    Raises:
        PhmrunError: (exit 3) No record belongs to a cell of the sweep's file.
    """

    def __init__(self, asked: Mapping[str, Any], folder: Path) -> None:
        self.name, self.asked = asked["name"], asked
        self.file = folder / self.name / "sweep.yaml"
        self.margin = asked.get("margin")
        shape = {key: tuple(asked.get(key, ())) for key in ("rows", "scores")}
        self.view = view([str(self.file)], folder, Asked(seeds=asked.get("seeds"), **shape))
        self.table = self.view.table
        if not any(figure.values for figure in self.table.cells.values()):
            fault = next((f"; {status.cell.fault}" for status in self.view.statuses if status.cell.fault), "")
            what = f"no record belongs to a cell of this sweep: its file may have changed since the runs{fault}"
            raise PhmrunError(what, where=str(self.file), hint=f"phmrun sweep {self.file} --plan", code=ExitCode.DATA)
        self.title = self.table.title or self.name
        self.score = self.table.headings[0].score
        self.compared = differences(self.table, self.margin)
        self.withdrawn: dict[int, str] = {}
        entries = [line[0].entries for line in self.table.figures]
        self.dense = next((row for row, its in enumerate(entries) if its and its[0].is_baseline), None)
        rows = {row for begin in asked.get("pairs", ()) if (row := self.place(begin)) is not None}
        self.pairs = all_pairs(self.table, self.margin, rows) if rows else []

    def withdraw(self, longer: Sequence["Sweep"]) -> None:
        """Withdraw the verdicts of rows that were trained longer in another sweep; done once for all rows."""
        names = {other.plain_name(row): other for other in longer for row in range(len(other.table.rows))}
        places = {row: names[name] for row, _ in self.compared if (name := self.plain_name(row)) in names}
        self.withdrawn = {row: f"trained longer in {sweep.name}" for row, sweep in places.items()}
        self.compared = {place: value for place, value in self.compared.items() if place[0] not in self.withdrawn}

    def plain_name(self, row: int) -> str:
        """Return a row's name without learning rate and remarks."""
        return RATE.sub("", self.table.names[row].partition(" (")[0]).removesuffix(USUAL)

    def place(self, begin: str) -> int | None:
        """Return the first row whose name begins so, with its learning rate or without."""
        forms = ((row, form) for row, name in enumerate(self.table.names) for form in (name, RATE.sub("", name)))
        return next((row for row, form in forms if form.startswith(begin)), None)

    def cell(self, row: int) -> str:
        """Return a row's difference from dense: "-0.42 [-0.61, -0.23] worse"; a dash without one."""
        if row in self.withdrawn:
            return "withdrawn"
        if (comparison := self.compared.get((row, 0))) is None:
            return MISSING
        words, shown = comparison.words, comparison.judgement.difference
        if shown is None:
            return words
        return f"{with_interval(shown)} {plain(words)}"

    def floor(self) -> str:
        """Return name and score of the best trivial system, or a dash."""
        floors = [(row.values[0], row.name) for row in baseline_rows(self.table) if row.is_floor]
        known = sorted((value, name) for value, name in floors if value is not None)
        if not known:
            return MISSING
        value, name = known[0] if metric_of(self.score).lower_is_better else known[-1]
        return f"{name} {value:.2f}"

    def reference(self) -> str:
        """Return the dense row's score: "76.40 ± 0.31, 3 seeds"; a dash without one."""
        if self.dense is None or not (figure := self.table.figures[self.dense][0]).values:
            return MISSING
        return f"{figure.text}, {counted(len(figure.values), 'seed')}"

    def amount(self, row: int | None, cost: str) -> float:
        """Return a cost of a row; NaN if it is not on record."""
        value = None if row is None else cost_of(self.table.figures[row][0].entries, cost)
        return math.nan if value is None else value

    def verdicts(self) -> str:
        """Return its verdicts counted: "2 different, worse · 1 open; of 6 pairs 6 undecided"."""
        words = [comparison.words for _, comparison in sorted(self.compared.items())]
        text = tally([*words, *["withdrawn"] * len(self.withdrawn)]) or "no comparison"
        pairs = [pair.words for pair in self.pairs]
        return f"{text}; of {counted(len(pairs), 'pair')} {tally(pairs)}" if pairs else text

    def effects(self) -> Callable[[], Any] | None:
        """Return a function that draws the differences in the first compared score; ``None`` without intervals."""
        scores = [heading.score for heading in self.table.headings]
        shown = [
            (scores[column], self.table.names[row], comparison.judgement)
            for (row, column), comparison in sorted(self.compared.items())
            if comparison.judgement.difference
        ]
        if not shown:
            return None
        score = shown[0][0]
        return lambda: draw_effects({name: judged for of, name, judged in shown if of == score}, score)

    def readme(self, question: Mapping[str, Any]) -> Iterator[str]:
        """Yield the parts of the sweep's page."""
        (scores, *verdicts), notes = lay_out(self.table, self.compared, costs=("multiplications", "training-time"))
        yield f"# {markdown(self.title)}"
        yield f"Question: {markdown(question['question'])}"
        yield markdown(question.get("about", ""))
        yield f"Missing: {markdown(question['missing'])}" if question.get("missing") else ""
        yield markdown_table(*scores)
        if self.effects():
            base = self.plain_name(self.dense or 0).partition(",")[0]
            what = f"Differences from {base} with their simultaneous 95 % intervals over seeds"
            yield link(what, Path("effects.svg"), "!")
        yield from (markdown_table(*table) for table in verdicts)
        for row, reason in self.withdrawn.items():
            yield markdown(f"{self.table.names[row]}: verdict withdrawn: {reason}")
        yield from map(markdown, notes)
        if self.pairs:
            yield "Rows beside one another, each with every other:"
            yield markdown_table(*verdict_table(self.table, self.pairs))
            yield from map(markdown, verdict_notes(self.table, self.pairs))
        done = [status for status in self.view.statuses if status.state is CellState.DONE]
        columns, lines, notes = environments(done)
        yield markdown_table(columns, lines) if lines else ""
        yield from map(markdown, notes)
        runs = [
            (s.cell.label, number(s.run.score(s.run.main_score)) if s.run.main_score else None,
             duration(s.run.status.seconds), f"phmrun runs reproduce {s.run.id}")
            for s in done if s.run and s.run.status
        ]  # fmt: skip
        summary = '<details markdown="1"><summary>Runs, with the commands that reproduce them</summary>'
        yield f"{summary}\n\n{markdown_table(('cell', 'score', 'training', 'command'), runs)}\n</details>"
        how = f"--seeds {len({status.cell.at[SEED] for status in self.view.statuses})}"
        yield fenced(
            f"phmrun sweep {self.file} {how}\nphmrun results add {self.file} --to {self.file.parent}", "console"
        )


def joined(parts: Iterable[str]) -> str:
    """Return a page of parts; empty ones are left out."""
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def tally(words: Sequence[str]) -> str:
    """Return verdicts counted: "2 different, worse · 1 open"."""
    return " · ".join(f"{count} {word}" for word, count in Counter(words).items())


def with_interval(shown: Difference) -> str:
    """Return a difference: "-0.42 [-0.61, -0.23]"."""
    return f"{shown.value:+.2f} [{interval_words(shown.low, shown.high).replace(' to ', ', ')}]"


def plain(words: str) -> str:
    """Return a verdict without "different"."""
    return words.removeprefix("different, ")


Found = tuple[Sweep, int]
"""Sweep and row of a structure."""


def found(column: Mapping[str, Any], begin: str, sweeps: Mapping[str, Sweep]) -> Found | None:
    """Return where a column has a structure: the first of its sweeps with a row whose name begins so."""
    named = [sweeps[name] for name in (column["sweep"], *column.get("also", ()))]
    return next(((sweep, row) for sweep in named if (row := sweep.place(begin)) is not None), None)


def is_decided(place: Found) -> bool:
    """True if a row differs from dense, or is as good within the margin."""
    compared = place[0].compared.get((place[1], 0))
    return compared is not None and compared.verdict in DECIDED


def facts(matrix: Mapping[str, Any], sweeps: Mapping[str, Sweep]) -> dict[str, Any]:
    """Return what the answer says of the first column's task: the narrower dense row beside all structures."""
    column = matrix["columns"][0]
    sweep, narrow = found(column, matrix["equal"], sweeps) or (sweeps[column["sweep"]], -1)
    sized = {name: place for name, begin in matrix["rows"].items() if (place := found(column, begin, sweeps))}
    placed = {name: place for name, place in sized.items() if matrix["rows"][name] != matrix["equal"]}
    shown = {name: place[0].compared[place[1], 0].judgement.difference for name, place in placed.items()} | {
        "": sweep.compared[narrow, 0].judgement.difference
    }
    known = {name: difference for name, difference in shown.items() if difference}
    if len(known) < 2 or "" not in known:
        what = "the answer is about a row of equal size and others, each with an interval of its difference from dense"
        raise PhmrunError(what, where="matrix.answer", hint="Leave it out.", code=ExitCode.DATA)
    ranked = sorted(known.keys() - {""}, key=lambda name: known[name].value)
    direct = [p for p in sweep.pairs if narrow in (p.place[0], p.beside) and sweep.dense not in (p.place[0], p.beside)]
    names: dict[int | None, str] = dict(enumerate(map(sweep.plain_name, range(len(sweep.table.rows)))))
    names |= {place[1]: name for name, place in placed.items() if place[0] is sweep}
    swap = partial(re.sub, "worse|better", lambda word: SWAPPED[word[0]])
    sides = [(names[p.beside], swap(p.words)) for p in direct if p.place[0] == narrow]
    sides += [(names[p.place[0]], p.words) for p in direct if p.beside == narrow]
    decided, words = [], dict[str, str]()
    for each in matrix["columns"]:
        its = {name: place for name, begin in matrix["rows"].items() if (place := found(each, begin, sweeps))}
        words = {name: plain(at[0].compared[at[1], 0].words) for name, at in its.items() if is_decided(at)}
        counts = f" ({tally([*words.values()])})" if words else ""
        decided.append(f"{len(words)} of {len(its)} rows of {each['name']} are decided{counts}")
    whole = sweep.amount(sweep.dense, COSTS[1])
    products = {name: place[0].amount(place[1], COSTS[1]) / whole for name, place in sized.items()}
    reach = [difference.detectable for difference in known.values()]
    counted_seeds = [count for difference in known.values() for count in difference.seeds]
    return {
        "task": column["name"],
        "narrow": with_interval(known[""]),
        "structures": len(ranked),
        "lower": sum(known[name].value < known[""].value for name in ranked),
        "best": f"{known[ranked[-1]].value:+.2f}, {ranked[-1]}",
        "worst": f"{known[ranked[0]].value:+.2f}, {ranked[0]}",
        "open": ", ".join(name for name, place in placed.items() if not is_decided(place)),
        "pairs": LIMIT.sub(r"at most \1 better", ", ".join(f"{name} {plain(words)}" for name, words in sides)),
        "cheap": ", ".join(name for name, ratio in products.items() if ratio < 0.75),
        "dear": ", ".join(name for name, ratio in products.items() if ratio >= 0.75),
        "decided": " and ".join(decided),
        "last": "; ".join(f"{', '.join(n for n in words if words[n] == w)} {w}" for w in dict.fromkeys(words.values())),
        "seeds": f"{min(counted_seeds)} to {max(counted_seeds)}",
        "detectable": f"{min(reach):.1f} to {max(reach):.1f}",
        **(updates_of(matrix["updates"], sweeps) if "updates" in matrix else {}),
    }


def updates_of(asked: Mapping[str, Any], sweeps: Mapping[str, Sweep]) -> dict[str, str]:
    """Return what the answer says of sweeps of updates: the baseline's score, the floor, and the other rows."""
    sweep = sweeps[asked["sweep"]]
    places = {name: place for name, begin in asked["rows"].items() if (place := found(asked, begin, sweeps))}
    shown = ", ".join(f"{name} {place[0].cell(place[1])}" for name, place in places.items())
    return {"updates": shown, "update": sweep.reference(), "floor": sweep.floor()}


def costs_of(place: tuple[Sweep, int | None] | None) -> list[str]:
    """Return the costs of a structure's row; dashes without one."""
    return [f"{place[0].amount(place[1], cost):,.0f}" for cost in COSTS] if place else [MISSING] * len(COSTS)


def overview(matrix: Mapping[str, Any], sweeps: Mapping[str, Sweep]) -> list[str]:
    """Return the answer and the table of structures by costs and tasks; decided differences have a star."""
    columns = matrix["columns"]
    first = sweeps[columns[0]["sweep"]]
    rows = [["dense", *costs_of((first, first.dense)), *(sweeps[column["sweep"]].reference() for column in columns)]]
    for name, begin in matrix["rows"].items():
        places = [found(column, begin, sweeps) for column in columns]
        shown = (f"{at[0].cell(at[1])}{' *' * is_decided(at)}" if at else MISSING for at in places)
        rows.append([name, *costs_of(places[0]), *shown])
    rows.append(["best trivial system", "", "", *(sweeps[column["sweep"]].floor() for column in columns)])
    told = facts(matrix, sweeps) if "answer" in matrix else {}
    return [
        *(markdown(sentence.format(**told)) for sentence in matrix.get("answer", ())),
        markdown_table(("", "parameters", "multiplications", *(column["name"] for column in columns)), rows),
        "\n".join(f"- {markdown(text)}" for text in matrix.get("about", ())),
    ]


def questions_of(folder: Path) -> dict[str, Any]:
    """Return the content of questions.yaml; without that file, one question for each sweep."""
    path = folder / "questions.yaml"
    if path.is_file():
        return dict(parse_yaml(path.read_text(encoding="utf-8"), str(path)))
    names = sorted(file.parent.name for file in folder.glob("*/sweep.yaml"))
    return {"title": "Results", "questions": [{"question": name, "sweeps": [{"name": name}]} for name in names]}


def build(folder: Path, records: Sequence[Run]) -> tuple[dict[Path, str], Pictures]:
    """Return the texts of all pages and the drawings of all pictures, by path."""
    asked = questions_of(folder)
    spent = sum(segment.get("cpu_seconds", 0.0) for run in records for segment in run.environment()) / 3600
    sweeps = {s["name"]: Sweep(s, folder) for q in asked["questions"] for s in q.get("sweeps", ())}
    for sweep in sweeps.values():
        sweep.withdraw([sweeps[name] for name in sweep.asked.get("longer", ())])
    pages, pictures, listed = {}, Pictures(), list[str]()
    for question in asked["questions"]:
        its = [sweeps[sweep["name"]] for sweep in question.get("sweeps", ())]
        for sweep in its:
            pages[sweep.file.with_name("README.md")] = joined(sweep.readme(question))
            if draw := sweep.effects():
                pictures[sweep.file.with_name("effects.svg")] = draw
        links = [f"- {link(s.title, Path(s.name, 'README.md'))}: {markdown(s.verdicts())}" for s in its]
        listed += [
            f"## {question['question']}",
            "\n".join(links) or markdown(question.get("about", "Nothing was run.")),
        ]
    unknown = ["## What is not known", *map(markdown, asked["unknown"])] if "unknown" in asked else []
    pages[folder / "sweeps.md"] = joined(["# Sweeps", markdown(asked.get("rule", "")), *listed, *unknown])
    parts = [f"# {asked.get('title', 'Results')}", markdown(asked.get("about", ""))]
    parts += overview(asked["matrix"], sweeps) if "matrix" in asked else []
    parts += [
        f"{link('Sweeps', folder / 'sweeps.md')}: all {len(sweeps)}, with costs, pictures, verdicts and commands. "
        f"{len(records)} runs, trials of the tuning among them; {spent:.1f} CPU hours in all.",
        "This restores the stored runs:",
        fenced(f"phmrun results restore {folder} --runs-dir runs", "console"),
    ]
    pages[Path("RESULTS.md")] = joined(parts)
    return pages, pictures


def main() -> int:
    """Write or check the pages; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    os.chdir(options.folder.resolve().parent)  # so that no page has the path of this machine
    folder = Path(options.folder.resolve().name)
    try:
        os.environ["PHMRUN_DATA"] = f"{folder}/none"  # the same on every machine; reading vocabularies takes long
        records = recorded_runs(record_paths(folder), folder)
        with unchanged({folder: records}):
            pages, pictures = build(folder, records)
            if options.check:
                # Pictures only need to exist: releases of Matplotlib write the same one in different bytes.
                other = [path for path, text in pages.items() if not path.is_file() or path.read_text("utf-8") != text]
                for path in (other := [*other, *(path for path in pictures if not path.is_file())]):
                    print(f"{path} is not what the results say: python {folder}/build.py", file=sys.stderr)
                return ExitCode.DATA if other else 0
            for path, draw in pictures.items():
                save_figure(draw(), path)
    except PhmrunError as error:
        print(error, file=sys.stderr)
        return error.code
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    print(f"written: {', '.join(map(str, pages))}, and {len(pictures)} pictures, in {Path.cwd()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
