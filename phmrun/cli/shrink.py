"""``phmrun shrink``: the cheapest way to a smaller model, by measurement."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory, choose_run
from phmrun.errors import PhmrunError
from phmrun.files import read_object
from phmrun.ledger.directory import DATA, find
from phmrun.progress import waiting
from phmrun.registry import load_plugins
from phmrun.shares import share_of

if TYPE_CHECKING:
    from phmrun.sweeps.shrink import Result, Search

COLUMNS = ("way", "candidate", "bytes", "parameters", "latency", "score", "loss", "reached", "verdict")


def shrink(
    run: RunArgument,
    to: Annotated[str, typer.Option("--to")],
    by: Literal["bytes", "parameters", "latency"] = "bytes",
    within: Annotated[float, typer.Option(min=0)] = 0.5,
    steps: Annotated[int, typer.Option(min=0)] = 300,
    seeds: Annotated[int, typer.Option(min=1)] = 1,
    every: Annotated[bool, typer.Option("--all")] = False,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Find the cheapest way to make a trained model smaller.

    Tries rounding, then structures for maps and tables, then a narrower dense student. Trained candidates learn from
    the run, beside a dense control with the same steps. Structures and control are trained with three rates; the best
    on the validation data is kept. The same command continues an interrupted search: latest and prefixes leave out
    runs that were compressed from, or taught by, a run that has a search.

    Candidates are printed on standard error as they are measured, then a table, a recommendation and the page's path.

    Args:
        to: Largest share of --by to keep: 50% or 1/2. A file's header may add a 200th of that: 50.25%.
        by: Cost: bytes of the file, against the run's float32 safetensors; parameters; latency.
        within: Largest loss of the score, in its units.
        steps: Further optimizer steps of each trained candidate.
        seeds: Seeds of each trained candidate and of the dense control. Of several, the first chooses the learning rate
            and does not count in the verdict.
        every: Try all ways; default: stop at the first that does.

    Examples:
        phmrun shrink latest --to 50%
        phmrun shrink latest --to 25% --within 1 --steps 500 --seeds 3 --all
    """
    share = share_of(re.sub(r"%$", "e-2", to.replace(" ", "")))
    if share is None:
        raise PhmrunError(f"{to!r} is not a share", where="--to", valid=("50%", "1/2", "above 0, up to 100%"))
    plugins = load_plugins(plugin)
    source = choose_run(runs_dir, str(find(runs_dir, run, skip=_is_candidate)))
    with waiting("preparing"):
        from phmrun.sweeps.shrink import Goal, Search, recommended

    goal = Goal(share, by, within, steps, seeds, every)
    search = Search(source, goal, plugins, lambda result: _tell(result) if not as_json else None)
    results = search.results()
    best = recommended(results, by)
    page = _write_page(search, results, best)
    if as_json:
        facts = {"results": [result.to_json() for result in results], "page": str(page)}
        chosen = None if best is None else best.to_json()
        console.print_json({"run_id": source.id, "to": float(share), "by": by, **facts, "recommended": chosen})
        return
    console.print_table(COLUMNS, [_row(result) for result in results])
    for line in (_sentence(search, best), f"the page: {page}"):
        console.print_line(line)


def _is_candidate(path: Path) -> bool:
    """True if a run was compressed from, or taught by, a run beside it that has a search's folder."""
    marks = read_object(path / DATA).get("fingerprints")
    source = isinstance(marks, dict) and marks.get("compresses", marks.get("teacher"))
    return (path.parent / ".sweeps" / f"shrink-{source}").is_dir()


def _tell(result: "Result") -> None:
    """Print a candidate on stderr as soon as it is measured.

    The line has the way, the label, the shares of bytes, parameters and latency, the score, and its loss.
    """
    way, label, *cells = _row(result)
    console.print_aside(f"{way}: {label}: {', '.join(cells[:5])}")


def _row(result: "Result") -> tuple[str, ...]:
    """Return the texts of a candidate's cells.

    In this order: way, candidate, bytes, parameters, latency, score, loss, reached, verdict; "–" without a verdict.
    """
    shares = (f"{result.shares[name]:.1%}" for name in ("bytes", "parameters", "latency"))
    judgement = result.judgement
    verdict = "–" if judgement is None else str(judgement.verdict)
    score, reached = f"{result.served['score']:.2f}", "yes" if result.reached else "no"
    return result.way, result.label, *shares, score, f"{result.loss:+.2f}", reached, verdict


def _sentence(search: "Search", best: "Result | None") -> str:
    """Return the recommendation in one sentence.

    It has the share and loss reached, and the command that writes the file. Without a way that reaches the goal, it
    says what to allow.
    """
    goal = search.goal
    aim = f"{100 * float(goal.share):.3g}% of the {goal.by} within {goal.within:g}"
    if best is None:
        return f"no way that was tried reaches {aim}: allow more loss with --within, or more --steps"
    reached = f"{best.shares[goal.by]:.1%} of the {goal.by} at a loss of {best.loss:+.2f} on the split dev"
    return f"{best.label} reaches {reached} (goal: {aim}); write it with: {best.command}"


def _write_page(search: "Search", results: "list[Result]", best: "Result | None") -> Path:
    """Write the page of a search with its Pareto plots; return its path.

    They are README.md, bytes.svg and latency.svg in the search's folder.
    """
    from phmrun.escaping import markdown
    from phmrun.files import write_text
    from phmrun.results.costs import Point
    from phmrun.results.plots.canvas import save_figure
    from phmrun.results.plots.sweeps import draw_pareto
    from phmrun.results.render import markdown_table

    metric = f"dev/{search.base['metric']}"
    pictures = []
    for name, field, title in (("bytes", "bytes", "bytes"), ("latency", "single_ms", "ms a sentence")):
        measured = [("the run, float32", search.base), *((result.label, result.served) for result in results)]
        points = [Point(label, float(served[field]), served["score"], None) for label, served in measured]
        save_figure(draw_pareto(points, metric, size=title), search.folder / f"{name}.svg")
        pictures.append(f"![score by {name}]({name}.svg)")
    note = (
        "Shares are of the run's float32 safetensors file, parameters and time of a sentence. Candidates are scored "
        f"on dev; verdicts are on the test set, against the dense control with the same {search.goal.steps} steps "
        f"({search.goal.seeds} seeds, margin {search.goal.within:g})."
    )
    table = markdown_table(COLUMNS, [_row(result) for result in results])
    parts = [f"# A smaller {markdown(search.run.id)}", _sentence(search, best), table, note, "\n".join(pictures)]
    write_text(path := search.folder / "README.md", "\n\n".join(parts) + "\n")
    return path
