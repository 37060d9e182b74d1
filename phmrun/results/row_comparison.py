"""Comparison of one row with its baseline, and the scores that it counts."""

from dataclasses import dataclass
from pathlib import Path

from phmrun.statistics.verdict import Judgement, Question, Verdict

Place = tuple[int, int]  # row and column


@dataclass(frozen=True)
class RowComparison:
    """Comparison of a cell's score with its baseline, by default the dense cell.

    Attributes:
        judgement: Verdict with its interval.
        question: Margin, direction and level.
        rows: Number of rows that share the level.
        floor: Name and value of the score's best floor; ``None`` if the runs have none.
        dropped: Seeds that chose the settings and are not counted.
        choices: Number of values among which each seed chose itself; 0 if the settings are fixed.
    """

    judgement: Judgement
    question: Question
    rows: int
    floor: tuple[str, float] | None = None
    dropped: int = 0
    choices: int = 0

    @property
    def verdict(self) -> Verdict:
        """Verdict of the judgement."""
        return self.judgement.verdict

    @property
    def settings(self) -> str:
        """Settings for which the verdict holds, in words.

        They were chosen within seeds, or are "at these settings".
        """
        if self.choices:
            return f"after choosing among {self.choices} values by validation within each seed"
        return "at these settings" + ("; seeds that chose them are not counted" if self.dropped else "")


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
