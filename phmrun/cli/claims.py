"""``phmrun claims``: check the claims of papers against finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory


def claims(
    paper: Annotated[str, typer.Argument(metavar="[PAPER]")] = "all",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Check each of a paper's claims against finished runs: effect, 95 % interval, seeds.

    Runs in a reduced setting decide a claim for that setting only, marked ‡. Nothing is trained.

    Claims that are undecided or not run are followed by a command.

    Args:
        paper: Short name of a paper (default: all).

    Examples:
        phmrun claims phm
        phmrun claims --json
    """
    from phmrun.papers.claims import Evidence, examine, load_claims

    files = load_claims(paper)
    evidence = Evidence(runs_dir)
    findings = [
        examine(file.paper, claim, evidence.measured, evidence.share_of) for file in files for claim in file.claims
    ]
    if as_json:
        console.print_json([finding.as_dict() for finding in findings])
        return
    rows = []
    for finding in findings:
        outcome = f"{finding.outcome}{'‡' if finding.reduced else ''}"
        if finding.outcome == "not testable here":
            outcome += f": {finding.why}"
        effect = None if finding.effect is None else f"{finding.effect:.4f}"
        if finding.effect is not None and finding.interval is not None:
            effect = f"{finding.effect:+.2f} [{finding.interval[0]:+.2f}, {finding.interval[1]:+.2f}]"
        seeds = f"{finding.seeds[0]}, {finding.seeds[1]}" if any(finding.seeds) else None
        rows.append([finding.paper, finding.claim.table, finding.claim.says, outcome, finding.printed, effect, seeds])
    console.print_table(("paper", "table", "claim", "", "printed", "ours", "seeds"), rows)
    for reduced in dict.fromkeys(finding.reduced for finding in findings if finding.reduced):
        console.stdout().print(f"‡ in this reduced setting: {reduced}", markup=False, soft_wrap=True)
    for finding in findings:
        if finding.outcome in ("undecided", "not run") and finding.command:
            console.stdout().print(
                f"{finding.claim.name}: {finding.why}: {finding.command}", markup=False, soft_wrap=True
            )
