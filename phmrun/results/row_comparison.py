"""Comparison of one row with its baseline, and the scores that it counts."""

from dataclasses import dataclass
from pathlib import Path

from phmrun.results.late_gain import LateGain
from phmrun.results.validations import EqualTime
from phmrun.statistics.verdict import Judgement, Question, Verdict

Place = tuple[int, int]  # row and column


@dataclass(frozen=True)
class RowComparison:
    """Comparison of a cell's score with its baseline, by default the dense cell.

    Attributes:
        judgement: Verdict with its interval.
        question: Margin, direction, level and looks.
        rows: Number of rows that share the level.
        floor: Name and value of the score's best floor; ``None`` if the runs have none.
        dropped: Seeds that chose the settings and are not counted.
        open: True if a planned look is still to come.
        choices: Number of values among which each seed chose itself; 0 if the settings are fixed.
        equal_time: Validations of the row and of dense at the same time of training; ``None`` if unknown.
        late_gain: Gain of the dense cell's validation in the last third of training; ``None`` if unknown.
        turns: Lengths of training at which the difference has the other sign, if any of these is significant.
        budget: Equal training time of all rows, as in "600 s of training"; empty if there is none.
    """

    judgement: Judgement
    question: Question
    rows: int
    floor: tuple[str, float] | None = None
    dropped: int = 0
    open: bool = False
    choices: int = 0
    equal_time: EqualTime | None = None
    late_gain: LateGain | None = None
    turns: tuple[str, ...] = ()
    budget: str = ""

    @property
    def verdict(self) -> Verdict:
        """Verdict of the judgement."""
        return self.judgement.verdict

    @property
    def settings(self) -> str:
        """Settings for which the verdict holds, in words.

        They were chosen within seeds, or are "at these settings". A budget of time follows.
        """
        budget = f"; {self.budget} for every row" if self.budget else ""
        if self.choices:
            return f"after choosing among {self.choices} values by validation within each seed{budget}"
        return "at these settings" + ("; seeds that chose them are not counted" if self.dropped else "") + budget


@dataclass(frozen=True)
class Scored:
    """Scores of a cell's counted seeds.

    Attributes:
        values: Scores in the order of the seeds; NaN for a diverged run.
        runs: Directories of the runs that have the score.
        dropped: Number of runs whose seed chose the settings.
        choices: Number of values among which each seed chose itself.
    """

    values: tuple[float, ...]
    runs: tuple[Path, ...]
    dropped: int
    choices: int
