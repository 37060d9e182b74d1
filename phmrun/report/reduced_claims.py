"""Claims of papers, checked on two rows of a sweep with reduced settings.

The verdict holds in the reduced setting only; it is computed from the sweep's own comparison, never typed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field

from phmrun.errors import ExitCode, PhmrunError
from phmrun.metric import metric_of
from phmrun.report.answers import Answer
from phmrun.report.document import Listing
from phmrun.results.row_comparison import RowComparison
from phmrun.statistics.welch import Difference
from phmrun.sweeps.paper_claims import Claim, ClaimsFile, Outcome, load_claims, outcome_of


class ReducedClaim(BaseModel, extra="forbid"):
    """Claim of a paper, and the two rows of a sweep that check it in a reduced setting."""

    claim: str  # short names of the paper and of its claim: phm/sva-n8
    sweep: str
    row: str  # beginning of the row's name in the sweep; the first such row counts
    against: str = ""  # beginning of the other row's name; the sweep's baseline if empty
    reduction: str = Field(min_length=1)  # how the setting differs from the paper's


class CheckedClaim(NamedTuple):
    """Reduced claim with its outcome in the first score of its sweep."""

    asked: ReducedClaim
    paper: ClaimsFile
    claim: Claim
    score: str
    outcome: Outcome
    why: str
    difference: Difference | None  # of the two rows; ``None`` if there is none or the verdict is withdrawn
    seeds: tuple[int, int]  # seeds of both rows; (0, 0) without a comparison


Papers = Mapping[str, tuple[ClaimsFile, Claim]]
"""Claims by short names of the paper and of the claim, each with its file: phm/sva-n8."""


def papers_claims() -> Papers:
    """Load the claims of all papers, except those on size, which are counted.

    Raises:
        PhmrunError: (exit 2) A file of claims is malformed.
    """
    named = {f"{file.paper}/{claim.name}": (file, claim) for file in load_claims() for claim in file.claims}
    return {name: pair for name, pair in named.items() if pair[1].claim != "size"}


def check(asked: ReducedClaim, papers: Papers, answers: Mapping[str, Answer], where: Path) -> CheckedClaim:
    """Check a claim on the rows of a sweep.

    The comparison with the baseline is that of the sweep's design. One with another row is a single test of all counted
    seeds, at the usual level. The outcome is WITHDRAWN if the verdict of either row is, UNDECIDED without a comparison
    or if the comparison names a reason, and UNTRAINED if its verdict is; else it is that of :func:`outcome_of`.

    Args:
        asked: The claim and its rows.
        papers: Claims of :func:`papers_claims`.
        answers: Answers of sweeps, by name.
        where: File that names the claim, for messages.

    Raises:
        PhmrunError: (exit 3) The paper has no such claim, the claim is one on size, the sweep is not among the answers,
            or it has no such row.
    """
    for kind, name, valid in (("trained claim", asked.claim, list(papers)), ("sweep", asked.sweep, list(answers))):
        if name not in valid:
            raise PhmrunError(f"there is no {kind} {name!r}", where=str(where), valid=valid, code=ExitCode.DATA)
    (file, claim), answer = papers[asked.claim], answers[asked.sweep]
    missing = [name for name in (asked.row, asked.against) if name and not answer.has(name)]
    if missing:
        what = f"the claim {asked.claim} names a row that the sweep {asked.sweep} lacks: {missing[0]}"
        raise PhmrunError(what, where=str(where), valid=answer.names, code=ExitCode.DATA)
    if reason := answer.withdrawn(asked.row) or (asked.against and answer.withdrawn(asked.against)):
        return CheckedClaim(asked, file, claim, answer.score, Outcome.WITHDRAWN, reason, None, (0, 0))
    comparison = answer.comparison(asked.row, asked.against)
    outcome, why = _outcome(claim, comparison, lower_is_better=metric_of(answer.score).lower_is_better)
    shown, seeds = (comparison.judgement.difference, comparison.judgement.seeds) if comparison else (None, (0, 0))
    return CheckedClaim(asked, file, claim, answer.score, outcome, why, shown, seeds)


def _outcome(claim: Claim, comparison: RowComparison | None, *, lower_is_better: bool) -> tuple[Outcome, str]:
    """Return the outcome of a claim from a comparison of rows, and its reason; UNDECIDED without a comparison."""
    if comparison is None:
        return Outcome.UNDECIDED, "the two rows are not compared"
    return outcome_of(claim, comparison.judgement, comparison.judgement.seeds, lower_is_better=lower_is_better)


def claims_table(checked: Sequence[CheckedClaim]) -> Listing:
    """Return the table of checked claims, a row each: claim, verdict (with the reason of a withdrawn one), setting."""
    rows = []
    for item in checked:
        source = f"{item.paper.cite}, Table {item.claim.table}: {item.claim.says}"
        effect = item.difference
        interval = f": {effect.value:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}]" if effect else ""
        reason = f": {item.why}" if item.outcome is Outcome.WITHDRAWN else ""
        setting = f"{item.asked.sweep}: {item.asked.reduction}"
        rows.append((source, f"{item.outcome}{interval}{reason}", setting))
    return Listing(("claim", "here", "sweep and reduction"), rows)
