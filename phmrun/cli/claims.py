"""``phmrun claims``: what the papers' tables are said to show, and what our runs say of it."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory

EPILOG = """Examples:

phmrun claims phm

phmrun claims --json"""


def claims(
    paper: Annotated[str, typer.Argument(metavar="[PAPER]", help="Short name of a paper (default: all).")] = "all",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Says of each claim of a paper whether it holds: with effect, 95 % interval, seeds, reduction and command.

    Runs in reduced settings decide a claim in that setting alone, and it is said. Only the ledger is read.
    """
    from phmrun.papers.claims import Evidence, examine, load_claims

    files = load_claims(paper)
    evidence = Evidence(runs_dir)
    found = [
        examine(file.paper, claim, evidence.measured, evidence.share_of) for file in files for claim in file.claims
    ]
    if as_json:
        console.print_json([each.as_dict() for each in found])
        return
    rows = []
    for each in found:
        outcome = f"{each.outcome}{'‡' if each.reduced else ''}"
        if each.outcome == "not testable here":
            outcome += f": {each.why}"
        effect = None if each.effect is None else f"{each.effect:.4f}"
        if each.effect is not None and each.interval is not None:
            effect = f"{each.effect:+.2f} [{each.interval[0]:+.2f}, {each.interval[1]:+.2f}]"
        seeds = f"{each.seeds[0]}, {each.seeds[1]}" if any(each.seeds) else None
        rows.append([each.paper, each.claim.table, each.claim.says, outcome, each.printed, effect, seeds])
    console.print_table(("paper", "table", "claim", "", "printed", "ours", "seeds"), rows)
    for reduced in dict.fromkeys(each.reduced for each in found if each.reduced):
        console.stdout().print(f"‡ in this reduced setting: {reduced}", markup=False, soft_wrap=True)
    for each in found:
        if each.outcome == "undecided" and each.command:
            console.stdout().print(f"{each.claim.name}: {each.why}: {each.command}", markup=False, soft_wrap=True)
