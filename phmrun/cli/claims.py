"""``phmrun claims``: check the claims of papers against finished runs and results."""

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.progress import waiting

if TYPE_CHECKING:
    from phmrun.papers.claims import Finding

RESULTS = Path("results")


def claims(
    paper: Annotated[str, typer.Argument(metavar="[PAPER]")] = "all",
    runs_dir: RunsDirectory = Path("runs"),
    results: Annotated[Path | None, typer.Option("--results", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Check each of a paper's claims against finished runs: effect, 95 % interval, seeds.

    Runs in a reduced setting decide a claim for that setting only, marked ‡. Nothing is trained. A claim without such
    runs is checked by the sweeps that the claims of DIR/questions.yaml name.

    Claims that are undecided or not run are followed by a command.

    Args:
        paper: Short name of a paper (default: all).
        results: Folder of results (default: results, if it has a questions.yaml).

    Examples:
        phmrun claims phm
        phmrun claims --json
    """
    from phmrun.papers.claims import findings
    from phmrun.report.results_page import QUESTIONS

    folder = results or (RESULTS if (RESULTS / QUESTIONS).is_file() else None)
    with waiting("comparing finished runs and results"):
        listed = findings(paper, runs_dir, folder)
    if as_json:
        console.print_json([finding.as_dict() for finding in listed])
        return
    for cite, group in groupby(listed, key=lambda finding: f"{finding.cite} ({finding.paper})"):
        columns = ("claim", "table", "", "ours", "printed", "seeds")
        console.print_table(columns, map(_row, group), title=cite, drop=("seeds", "printed"))
    for finding in listed:
        if finding.reduced:
            where = f"{finding.sweep}, " if finding.sweep else ""
            console.print_note(f"‡ {finding.claim.name}: {where}{finding.reduced}: {finding.why}")
    for finding in listed:
        if finding.outcome in ("undecided", "not run", "not testable here"):
            then = f": {finding.command}" if finding.command else ""
            console.stdout().print(f"{finding.claim.name}: {finding.why}{then}", markup=False, soft_wrap=True)


def _row(finding: "Finding") -> list[str | float | None]:
    """Return a claim's row: sentence, table, outcome, our difference with its interval, the printed one, seeds.

    The outcome of a reduced setting has the mark ‡. A value that does not exist is ``None``.
    """
    effect = None if finding.effect is None else f"{finding.effect:.4f}"
    if finding.effect is not None and finding.interval is not None:
        effect = f"{finding.effect:+.2f} [{finding.interval[0]:+.2f}, {finding.interval[1]:+.2f}]"
    seeds = f"{finding.seeds[0]}, {finding.seeds[1]}" if any(finding.seeds) else None
    outcome = f"{finding.outcome}{'‡' if finding.reduced else ''}"
    return [finding.claim.says, finding.claim.table, outcome, effect, finding.printed, seeds]
