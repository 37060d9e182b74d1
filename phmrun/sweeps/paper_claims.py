"""Claims of the papers, ``configs/papers/<paper>/claims.yaml``, and their outcomes.

A claim compares two cells of a table. Imports no torch.
"""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from phmrun.config import Section, packaged_names
from phmrun.errors import PhmrunError, unknown
from phmrun.results.printed import Printed
from phmrun.statistics.verdict import Judgement, Verdict
from phmrun.sweeps.paper_table import FOLDER, PaperTable, load_table, paper_names, validated

CLAIMS = "claims.yaml"
DEFAULT_MARGIN = 0.5


class Claim(Section):
    """Claim that a table supports."""

    name: str = Field(min_length=1)
    """Short name, unique in the paper."""
    says: str = Field(min_length=1)
    """The claim, in our words."""
    table: str
    """Number of the table."""
    row: str
    """Row that the claim is about."""
    against: str | None = None
    """Row to compare with; the same row by default."""
    column: str
    """Column of the score."""
    against_column: str | None = None
    """Column of the other cell; the same by default."""
    claim: Literal["better", "worse", "close", "size"]
    """better, worse: different in that direction; close: not worse by more than margin; size: no more than share of the
    other's parameters.
    """
    margin: float = Field(DEFAULT_MARGIN, gt=0)
    """close: δ, in units of the score."""
    share: float | None = Field(None, gt=0)
    """size: upper limit of parameters / the other's parameters."""

    @model_validator(mode="after")
    def _two_cells(self) -> Self:
        """Check that a claim has two cells, and a share for sizes.

        Raises:
            ValueError: Neither ``against`` nor ``against_column`` is set. Or a share is set for another claim than one
                on size, or missing.
        """
        if self.against is None and self.against_column is None:
            raise ValueError(f"the claim {self.name} names one cell: give against or against_column")
        if (self.claim == "size") != (self.share is not None):
            raise ValueError(f"the claim {self.name}: share belongs to size, and size needs it")
        return self

    @property
    def cells(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Row and column of its cell, and of the cell to compare with.

        Row or column of the second are those of the first if not named.
        """
        return (self.row, self.column), (self.against or self.row, self.against_column or self.column)


class ClaimsFile(Section):
    """Claims of one paper."""

    paper: str
    """Short name of the paper."""
    cite: str = Field(min_length=1)
    """Authors and year, as readers cite it."""
    claims: list[Claim] = Field(min_length=1)
    """Claims, in the order of the tables."""


class Outcome(StrEnum):
    """Outcome of a claim's check."""

    HOLDS = "holds"
    FAILS = "fails"
    UNDECIDED = "undecided"
    UNTRAINED = "untrained"  # a network that the claim compares does not beat the best trivial system
    WITHDRAWN = "withdrawn"  # the results' page withdraws the verdict
    NOT_RUN = "not run"
    UNTESTABLE = "not testable here"


def load_claims(paper: str = "all") -> list[ClaimsFile]:
    """Load the claims of one paper, or of all papers.

    The list is empty for a known paper without claims.

    Raises:
        PhmrunError: (exit 2) The paper is unknown, a file is malformed, or a claim names a cell that its table lacks.
    """
    if paper != "all" and paper not in paper_names():
        raise unknown("paper", paper, [*paper_names(), "all"], where="PAPER")
    files = []
    for name in packaged_names():
        if not name.startswith(FOLDER) or not name.endswith(f"/{CLAIMS}"):
            continue
        if paper not in ("all", name.removeprefix(FOLDER).split("/")[0]):
            continue
        files.append(validated(ClaimsFile, name))
        for claim in files[-1].claims:
            file = f"{FOLDER}{files[-1].paper}/table{claim.table}.yaml"
            table = load_table(file)
            for row, column in claim.cells:
                if row not in [row_of_table.name for row_of_table in table.rows] or column not in table.columns:
                    what = f"the claim {claim.name} names no cell of the table: {row} / {column}"
                    raise PhmrunError(what, where=file)
    return files


def outcome_of(
    claim: Claim, judgement: Judgement | None, seeds: tuple[int, int], *, lower_is_better: bool
) -> tuple[Outcome, str]:
    """Return the outcome of a claim from the judgement of its cells, and its reason.

    Undecided if a cell has no run, either has a single seed, the judgement names a reason such as collapsed seeds, or
    the interval does not decide; untrained if the judgement is. "close" holds if the interval excludes a loss of
    ``margin``; "better" and "worse" if it excludes 0 on their side, and fail on the other.

    Args:
        claim: The claim, not one on size.
        judgement: Judgement of the claim's cell beside the other; ``None`` if they cannot be compared.
        seeds: Seeds of both cells.
        lower_is_better: True if lower scores are better.
    """
    if not all(seeds):
        return Outcome.UNDECIDED, "one of the two cells has no run"
    if judgement is None:
        return Outcome.UNDECIDED, "the two cells were scored on different items"
    if judgement.verdict is Verdict.UNTRAINED:
        return Outcome.UNTRAINED, judgement.reason or "a network does not beat the best trivial system"
    if (comparison := judgement.difference) is None or judgement.reason:
        return Outcome.UNDECIDED, judgement.reason or "a single seed has no spread over training"
    # Negated if lower is better, so that more is better; this swaps the ends.
    low, high = sorted((-end if lower_is_better else end) for end in (comparison.low, comparison.high))
    if claim.claim == "close":
        if low > -claim.margin:
            return Outcome.HOLDS, f"not worse by more than {claim.margin:g}"
        if high < -claim.margin:
            return Outcome.FAILS, f"worse by more than {claim.margin:g}"
        return Outcome.UNDECIDED, f"may be worse by more than {claim.margin:g}, or not"
    if low <= 0 <= high:
        return Outcome.UNDECIDED, f"not significantly different (p = {comparison.p:.2g})"
    if (claim.claim == "better") == (low > 0):
        return Outcome.HOLDS, f"{claim.claim} (p = {comparison.p:.2g})"
    return Outcome.FAILS, f"the opposite holds (p = {comparison.p:.2g})"


def printed_difference(table: PaperTable, claim: Claim) -> float | None:
    """Return the printed difference of the two cells, the claim's minus the other.

    It is rounded to 6 decimals. For a size, it is their ratio. Of cells with several numbers, the first counts.
    ``None`` if either cell is not printed.
    """
    try:
        unit = table.columns[claim.column].unit
        ours, theirs = (
            float(Printed.parse(table.row(row).published[column].partition("/")[0].strip(), unit).amount)
            for row, column in claim.cells
        )
    except (KeyError, StopIteration, PhmrunError):
        return None
    return ours / theirs if claim.claim == "size" else round(ours - theirs, 6)
