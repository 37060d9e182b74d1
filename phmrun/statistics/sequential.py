"""A group-sequential permutation test: seeds are added until a row is decided, and every look at them is paid for.

Runs come in blocks, the same number of the row and of the baseline. If the two did not differ, the runs of a block
could be dealt out to them in any other way. So the path of the statistic

    T_k = Σ over the blocks so far ( Σ row - Σ baseline )

is one of equally likely paths, those of all deals in all blocks. A boundary b_k is drawn at every look such that the
share of paths that have crossed by then is at most level · n_k / N, with n_k of at most N seeds. The test is exact:
at N seeds no more than the level have crossed. Where there are too many paths, so many are drawn.

Several rows share the level by Holm's procedure, which counts a row that is decided no longer (Maurer and Bretz 2013).
"Not worse by more than δ" is the same test of the row's scores moved by δ, in one direction.

Sources: Mathieu et al. 2023, "AdaStop: adaptive statistical testing for sound comparisons of Deep RL agents"; Lan and
DeMets 1983 (spending a level); Maurer and Bretz 2013, "Multiple testing in group sequential trials using graphical
approaches". The package ``adastop`` (0.1.3) is not used: it compares |T| with a boundary of the one-sided maximum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from phmrun.statistics.decision import LEVEL, Verdict

Array = NDArray[np.float64]
FIRST = 5  # seeds of the first look: with fewer no deal is rare enough
MOST_PATHS = 200_000
SEED = 12345
_TIE = 1e-9


@dataclass(frozen=True)
class Design:
    """What is fixed before the first look."""

    max_seeds: int = 10  # N, the seeds of a row at most
    level: float = LEVEL  # the chance of any false alarm, over all rows and looks
    margin: float | None = None  # δ in units of the score; ``None``: only differences are sought
    lower_is_better: bool = False  # the direction of the score

    @property
    def looks(self) -> tuple[int, ...]:
        """Seeds at every look: :data:`FIRST`, then two more at a time, at last N."""
        first = min(FIRST, self.max_seeds)
        return (*range(first, self.max_seeds, 2), self.max_seeds)


@dataclass(frozen=True)
class Decision:
    """What is known of a row."""

    verdict: Verdict  # undecided rows are open until they have N seeds
    seeds: int  # at which look it was decided, or what it has now
    better: bool  # whether its mean is the better one


@dataclass(frozen=True)
class Looked:
    """What the looks at a row say of it, for a table."""

    decision: Decision  # what is known
    design: Design  # as it was fixed
    value: float | None  # the row's mean minus the baseline's, over the seeds looked at; ``None`` before the first look
    # about the smallest difference that so many seeds show with a power of 80 %, by their spread
    detectable: float | None
    open: bool  # whether further seeds are of use


def decisions(design: Design, rows: Sequence[Sequence[float]], baseline: Sequence[float]) -> list[Decision]:
    """What is known of some rows by the scores of their seeds, in the order of the seeds.

    Scores beyond a row's last whole look are not looked at; all rows are compared with one baseline.
    """
    sign = -1.0 if design.lower_is_better else 1.0
    gains = [sign * np.asarray(row, dtype=np.float64) for row in rows]
    base = sign * np.asarray(baseline, dtype=np.float64)
    different = _holm(gains, base, design, two_sided=True)
    not_worse: dict[int, int] = {}
    if design.margin:
        not_worse = _holm([gain + design.margin for gain in gains], base, design, two_sided=False)
    found = []
    for place, gain in enumerate(gains):
        seen = looked_at(design, len(gain), len(base))
        better = bool(seen and gain[:seen].mean() > base[:seen].mean())
        verdict, seeds = Verdict.UNDECIDED, seen
        for kind, decided in ((Verdict.DIFFERENT, different), (Verdict.NOT_WORSE, not_worse)):
            if place in decided and (verdict is Verdict.UNDECIDED or decided[place] < seeds):
                verdict, seeds = kind, decided[place]
        if better and place in different:  # which says more than that it is not worse, if at a later look
            verdict, seeds = Verdict.DIFFERENT, different[place]
        found.append(Decision(verdict, seeds, better))
    return found


def looked_at(design: Design, *counts: int) -> int:
    """The seeds at the last look for which there are enough runs; 0 before the first."""
    return max((look for look in design.looks if look <= min(counts)), default=0)


def crossing(row: Array, baseline: Array, design: Design, level: float, *, two_sided: bool) -> int | None:
    """The seeds at the look at which the path of a row's scores (more is better) crosses its boundary at a level.

    ``None``: it has not. If ``two_sided``, both directions count.
    """
    stream = np.random.default_rng(SEED)
    paths, weight, total = np.zeros(1), 1.0, 1.0
    spent, measured, before = 0.0, 0.0, 0
    for look in design.looks:
        if look > min(len(row), len(baseline)):
            return None
        runs, own = np.concatenate([row[before:look], baseline[before:look]]), look - before
        # the statistic of the block under every deal of its runs, and the measured one
        chosen = np.array(list(combinations(range(len(runs)), own)))
        deals = 2 * runs[chosen].sum(axis=1) - runs.sum()
        measured += float(row[before:look].sum() - baseline[before:look].sum())
        total, before = total * len(deals), look
        paths, factor = _extended(paths, deals, stream)
        weight *= factor
        size = np.abs(paths) if two_sided else paths
        # Rounded down, so that never more than the level is spent; _TIE keeps whole numbers that floats put just below.
        allowed = int((level * look / design.max_seeds - spent) * total / weight + _TIE)
        boundary = _boundary(size, allowed)
        spent += np.count_nonzero(size > boundary) * weight / total
        if (abs(measured) if two_sided else measured) > boundary:
            return look
        paths = paths[size <= boundary]
    return None


def _holm(rows: Sequence[Array], baseline: Array, design: Design, *, two_sided: bool) -> dict[int, int]:
    """The rows whose path has crossed, with the seeds at that look.

    Holm's procedure asks that what crosses at one level does so at every larger one. A path need not: a larger level
    spends more at the first look and may leave less for the next. So a row counts only if it crosses at all of them.
    """
    levels = [design.level / left for left in range(len(rows), 0, -1)]
    found: dict[int, int] = {}
    waiting = {
        place: [crossing(row, baseline, design, level, two_sided=two_sided) for level in levels]
        for place, row in enumerate(rows)
    }
    while new := {place: look for place, looks in waiting.items() if None not in looks and (look := looks[0])}:
        found |= new
        waiting = {place: looks[len(new) :] for place, looks in waiting.items() if place not in new}
    return found


def _extended(paths: Array, deals: Array, stream: np.random.Generator) -> tuple[Array, float]:
    """All paths with all deals of a further block, or so many of them; how many each stands for."""
    count = len(paths) * len(deals)
    if count <= MOST_PATHS:
        return (paths[:, None] + deals[None, :]).ravel(), 1.0
    drawn = paths[stream.integers(len(paths), size=MOST_PATHS)] + deals[stream.integers(len(deals), size=MOST_PATHS)]
    return drawn, count / MOST_PATHS


def _boundary(size: Array, allowed: int) -> float:
    """The smallest value that at most so many exceed; equal ones stay together."""
    if allowed <= 0 or not len(size):
        return float("inf") if not len(size) or allowed < 0 else float(size.max()) * (1 + _TIE) + _TIE
    if allowed >= len(size):
        return float("-inf")
    ordered = np.sort(size)
    value = float(ordered[-allowed - 1])
    return value + _TIE * (1 + abs(value))
