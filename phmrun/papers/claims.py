"""The papers' claims as files, ``configs/papers/<paper>/claims.yaml``, and what our runs say of each.

A claim compares two cells of a table. It is decided by runs in the table's settings alone; runs in reduced settings
decide it "in this reduced setting", and never the paper's.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from phmrun.config import config_source, packaged_names
from phmrun.config.sections import Section
from phmrun.errors import PhmrunError
from phmrun.ledger.listing import PREFIX as TIME
from phmrun.papers.published import FOLDER, PaperTable, load_table, paper_names
from phmrun.papers.verdict import Printed
from phmrun.statistics.decision import LEVEL, p_not_worse
from phmrun.statistics.hierarchical import Comparison

CLAIMS = "claims.yaml"
DEFAULT_MARGIN = 0.5


class Claim(Section):
    """One claim that a table supports."""

    name: str = Field(min_length=1, description="Short and unique in the paper.")
    says: str = Field(min_length=1, description="What is claimed, in our words.")
    table: str = Field(description="Number of the table.")
    row: str = Field(description="The row that it is about.")
    against: str | None = Field(None, description="The row that it is compared with; the same row unless given.")
    column: str = Field(description="The column.")
    against_column: str | None = Field(None, description="The column of the other cell; the same unless given.")
    claim: Literal["better", "worse", "close", "size"] = Field(
        description="better, worse: different in that direction; close: not worse by more than margin; size: no more "
        "than share of the other's parameters."
    )
    margin: float = Field(DEFAULT_MARGIN, gt=0, description="close: δ, in units of the score.")
    share: float | None = Field(None, gt=0, description="size: of the other's parameters.")

    @model_validator(mode="after")
    def _two_cells(self) -> Self:
        if self.against is None and self.against_column is None:
            raise ValueError(f"the claim {self.name} names one cell: give against or against_column")
        if (self.claim == "size") != (self.share is not None):
            raise ValueError(f"the claim {self.name}: share belongs to size, and size needs it")
        return self

    @property
    def other(self) -> tuple[str, str]:
        """Row and column of the cell that it is compared with."""
        return self.against or self.row, self.against_column or self.column


class ClaimsFile(Section):
    """The claims of one paper."""

    paper: str = Field(description="Short name of the paper.")
    claims: list[Claim] = Field(min_length=1, description="In the order of its tables.")


class Outcome(StrEnum):
    """What is known of a claim."""

    HOLDS = "holds"
    FAILS = "does not"
    UNDECIDED = "undecided"
    UNTESTABLE = "not testable here"


@dataclass(frozen=True)
class Finding:
    """What our runs say of a claim."""

    paper: str  # short name of the paper
    claim: Claim
    printed: float | None  # the difference that the paper prints; ``None`` where it prints none
    outcome: Outcome  # what is known
    why: str  # why it is not known, or what it rests on
    effect: float | None = None  # our difference (share of the parameters, of a size)
    interval: tuple[float, float] | None = None  # where it lies (95 %)
    seeds: tuple[int, int] = (0, 0)  # of both cells
    reduced: str = ""  # in what the settings fall short of the paper's; empty: in nothing
    command: str = ""  # what decides it

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        claim = self.claim
        return {
            "paper": self.paper,
            "name": claim.name,
            "says": claim.says,
            "table": claim.table,
            "row": claim.row,
            "against": " / ".join(claim.other),
            "column": claim.column,
            "claim": claim.claim,
            "margin": claim.margin if claim.claim == "close" else None,
            "printed": self.printed,
            "outcome": str(self.outcome),
            "why": self.why,
            "effect": self.effect,
            "interval": list(self.interval) if self.interval else None,
            "seeds": list(self.seeds),
            "reduced": self.reduced or None,
            "command": self.command or None,
        }


Measured = Callable[[str, Claim], tuple[Comparison | None, tuple[int, int]]]
"""From a sweep's file and a claim to our comparison, and how many seeds each cell has."""


def load_claims(paper: str = "all") -> list[ClaimsFile]:
    """The claims of one paper, or of all.

    Raises:
        PhmrunError: There is no such paper, or a file is malformed.
    """
    from phmrun.errors import unknown

    if paper != "all" and paper not in paper_names():
        raise unknown("paper", paper, [*paper_names(), "all"], where="PAPER")
    names = [name for name in packaged_names() if name.startswith(FOLDER) and name.endswith(f"/{CLAIMS}")]
    return [_load(name) for name in names if paper in ("all", name.removeprefix(FOLDER).split("/")[0])]


def examine(paper: str, claim: Claim, measured: Measured, share_of: Callable[[str, Claim], float]) -> Finding:
    """What is known of a claim.

    Args:
        paper: Short name of the paper.
        claim: The claim.
        measured: Our runs' comparison.
        share_of: The parameters of the row's network, as a share of the other's.
    """
    name = f"{FOLDER}{paper}/table{claim.table}.yaml"
    table = load_table(name)
    printed = printed_difference(table, claim)
    if claim.claim == "size":
        share = share_of(name, claim)
        outcome = Outcome.HOLDS if claim.share is not None and share <= claim.share else Outcome.FAILS
        return Finding(paper, claim, printed, outcome, "counted, not trained", share)
    score = table.columns[claim.column].score
    if not table.task or not score or str(score).startswith(TIME):  # seeds say nothing of a machine's times
        metric = table.columns[claim.column].metric
        return Finding(paper, claim, printed, Outcome.UNTESTABLE, f"no run of ours has this figure: {metric}")
    lower = "perplexity" in str(table.columns[claim.column].metric)
    for file, reduced in ((name, ""), (_small(name), "reduced settings")):
        if file is None or not _has(file, claim):
            continue
        comparison, seeds = measured(file, claim)
        if any(seeds):
            outcome, why = outcome_of(claim, comparison, seeds, lower_is_better=lower)
            text = _reduction(file) or reduced if reduced else ""
            found = Finding(
                paper, claim, printed, outcome, why, seeds=seeds, reduced=text, command=_command(file, claim)
            )
            if comparison is None:
                return found
            return Finding(**{**found.__dict__, "effect": comparison.value, "interval": comparison.interval()})
    return Finding(paper, claim, printed, Outcome.UNDECIDED, "no run is done", command=_command(name, claim))


def outcome_of(
    claim: Claim, comparison: Comparison | None, seeds: tuple[int, int], *, lower_is_better: bool
) -> tuple[Outcome, str]:
    """What a comparison says of a claim, and on what that rests."""
    if not all(seeds):
        return Outcome.UNDECIDED, "one of the two cells has no run"
    if comparison is None or min(seeds) < 2:
        return Outcome.UNDECIDED, "one seed says nothing of training again"
    low, high = sorted((-end if lower_is_better else end) for end in comparison.interval())
    if claim.claim == "close":
        if p_not_worse(comparison, claim.margin, lower_is_better=lower_is_better) <= LEVEL:
            return Outcome.HOLDS, f"not worse by more than {claim.margin:g}"
        return (Outcome.FAILS, f"worse by more than {claim.margin:g}") if high < -claim.margin else (
            Outcome.UNDECIDED, f"may be worse by more than {claim.margin:g}, or not"
        )  # fmt: skip
    wanted = low > 0 if claim.claim == "better" else high < 0
    opposite = high < 0 if claim.claim == "better" else low > 0
    if wanted:
        return Outcome.HOLDS, f"{claim.claim} (p = {comparison.p:.2g})"
    if opposite:
        return Outcome.FAILS, f"the other way round (p = {comparison.p:.2g})"
    return Outcome.UNDECIDED, f"not told apart (p = {comparison.p:.2g})"


def printed_difference(table: PaperTable, claim: Claim) -> float | None:
    """What the paper prints: the row's figure minus the other's, or for a size their ratio."""
    row, column = claim.other
    try:
        unit = table.columns[claim.column].unit
        ours, theirs = (
            float(Printed.parse(table.row(one).published[heading].partition("/")[0].strip(), unit).amount)
            for one, heading in ((claim.row, claim.column), (row, column))
        )
    except (KeyError, StopIteration, PhmrunError):
        return None
    return ours / theirs if claim.claim == "size" else round(ours - theirs, 6)


def _has(file: str, claim: Claim) -> bool:
    """Whether a sweep's file has both cells of a claim."""
    values: Mapping[str, Any] = config_source(file).values
    if "table" not in values or "paper" in values:
        return True
    rows, columns = values.get("rows") or [], values.get("columns") or []
    cells = ((claim.row, claim.column), claim.other)
    return all((not rows or row in rows) and (not columns or column in columns) for row, column in cells)


def _small(name: str) -> str | None:
    small = name.replace(".yaml", "-small.yaml")
    return small if small in packaged_names() else None


def _reduction(file: str) -> str:
    return str(config_source(file).values.get("reduced", ""))


def _command(file: str, claim: Claim) -> str:
    row, column = claim.other
    only = [f"--only 'row={one}'" for one in dict.fromkeys((claim.row, row))]
    values = config_source(file).values
    table = load_table(file if "paper" in values else str(values["table"]))
    if len({str(each.set) for each in table.columns.values() if each.score}) > 1:
        only += [f"--only 'column={one}'" for one in dict.fromkeys((claim.column, column))]
    return f"phmrun sweep {file} {' '.join(only)} --seeds 5"


def _load(name: str) -> ClaimsFile:
    try:
        file = ClaimsFile.model_validate(config_source(name).values)
        for claim in file.claims:
            _check(file.paper, claim)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise PhmrunError(f"{place}: {first['msg'].removeprefix('Value error, ')}", where=name) from None
    return file


def _check(paper: str, claim: Claim) -> None:
    """Refuses a claim on cells that the table does not have."""
    name = f"{FOLDER}{paper}/table{claim.table}.yaml"
    table = load_table(name)
    for row, column in ((claim.row, claim.column), claim.other):
        if row not in [one.name for one in table.rows] or column not in table.columns:
            raise PhmrunError(f"the claim {claim.name} names no cell of the table: {row} / {column}", where=name)
