"""``phmrun claims``: what the papers' tables are said to show, and what our runs say of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory

if TYPE_CHECKING:
    from phmrun.papers.claims import Finding

EPILOG = """Examples:

phmrun claims phm

phmrun claims --json"""


def claims(
    paper: Annotated[str, typer.Argument(metavar="[PAPER]", help="Short name of a paper (default: all).")] = "all",
    *,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Says of each claim of a paper whether it holds: with effect, 95 % interval, seeds, reduction and command.

    Runs in reduced settings decide a claim in that setting alone, and it is said. Only the ledger is read.
    """
    from phmrun.papers.claims import examine, load_claims
    from phmrun.papers.evidence import Evidence

    files = load_claims(paper)
    evidence = Evidence(runs_dir)
    found = [
        examine(file.paper, claim, evidence.measured, evidence.share_of) for file in files for claim in file.claims
    ]
    if as_json:
        console.print_json([each.as_dict() for each in found])
        return
    rows = [
        [each.paper, each.claim.table, each.claim.says, _outcome(each), each.printed, _effect(each), _seeds(each)]
        for each in found
    ]
    console.print_table(("paper", "table", "claim", "", "printed", "ours", "seeds"), rows)
    for reduced in dict.fromkeys(each.reduced for each in found if each.reduced):
        console.stdout().print(f"‡ in this reduced setting: {reduced}", markup=False, soft_wrap=True)
    for each in found:
        if each.outcome == "undecided" and each.command:
            console.stdout().print(f"{each.claim.name}: {each.why}: {each.command}", markup=False, soft_wrap=True)


def _outcome(each: "Finding") -> str:
    mark = "‡" if each.reduced else ""
    return f"{each.outcome}{mark}" + (f": {each.why}" if each.outcome == "not testable here" else "")


def _effect(each: "Finding") -> str | None:
    if each.effect is None:
        return None
    if each.interval is None:
        return f"{each.effect:.4f}"
    return f"{each.effect:+.2f} [{each.interval[0]:+.2f}, {each.interval[1]:+.2f}]"


def _seeds(each: "Finding") -> str | None:
    return f"{each.seeds[0]}, {each.seeds[1]}" if any(each.seeds) else None
