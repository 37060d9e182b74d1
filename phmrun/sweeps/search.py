"""Values sought around a cell by Optuna: learning rates and the like. Every trial is a run like any other.

What was tried, and what came of it, stands in a journal on disk, so that the same call goes on where it stopped: a
trial that was cut off is run to its end first. Trials are compared by their validations, never by a test.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError
from phmrun.ledger.history import BEST
from phmrun.metric import metric_of
from phmrun.sweeps.cell_status import CellState, CellStatus
from phmrun.sweeps.plan import Cell, Make

DIGITS = 3  # significant digits of a tried number: more would tell runs apart that are the same to any reader
_INTERVAL = re.compile(r"\s*([^\s.]\S*?)\.\.(\S+)\s*")
_WHOLE = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Interval:
    """Numbers between two; on a logarithmic scale where the upper one is at least ten times the lower one."""

    key: str  # dotted key of the configuration
    low: float  # least value
    high: float  # greatest value

    def suggest(self, trial: Any) -> float:
        """The value that an Optuna trial takes."""
        logarithmic = 0 < self.low * 10 <= self.high
        if isinstance(self.low, int):
            return int(trial.suggest_int(self.key, self.low, self.high, log=logarithmic))
        return float(trial.suggest_float(self.key, self.low, self.high, log=logarithmic))

    def rounded(self, value: Any) -> float:
        """A tried value as it is written in the configuration."""
        if isinstance(self.low, int):
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """A few values."""

    key: str  # dotted key of the configuration
    values: tuple[Any, ...]  # numbers, texts, truth values

    def suggest(self, trial: Any) -> Any:
        """The value that an Optuna trial takes."""
        return trial.suggest_categorical(self.key, list(self.values))

    def rounded(self, value: Any) -> Any:
        """The value itself."""
        return value


Variation = Interval | Choice


def read_variation(text: str) -> Variation:
    """``KEY=LOW..HIGH`` or ``KEY=A,B,C``; refuses what is neither, and an empty interval."""
    key, equals, values = (part.strip() for part in text.partition("="))
    if not (equals and key and values):
        raise PhmrunError(
            f"{text!r} is not of the form KEY=LOW..HIGH or KEY=A,B,C",
            where="--vary",
            hint="As in --vary training.optimizer.lr=1e-4..1e-2 --vary model.dropout=0.1,0.2,0.3.",
        )
    found = _INTERVAL.fullmatch(values)
    if not found:
        return Choice(key, tuple(parse_yaml(value, f"--vary {text}") for value in values.split(",")))
    try:
        low, high = (int(end) if _WHOLE.fullmatch(end) else float(end) for end in found.groups())
    except ValueError:
        raise PhmrunError(f"the ends of {values!r} are not numbers", where=f"--vary {key}") from None
    if not low < high:
        raise PhmrunError(f"the interval {values!r} is empty", where=f"--vary {key}")
    # Interval tells whole numbers from others by its lower end, so both ends are of one type.
    if isinstance(low, float) or isinstance(high, float):
        low, high = float(low), float(high)
    return Interval(key, low, high)


class Trial(NamedTuple):
    """One try."""

    number: int  # of the trial in its search, from 0 on
    values: Mapping[str, Any]  # what was tried, by dotted key
    cell: Cell


class Result(NamedTuple):
    """What came of a trial."""

    number: int  # of the trial
    values: Mapping[str, Any]  # what was tried, by dotted key
    score: float | None  # the best validation; ``None`` where the run failed


class Search:
    """The trials around one cell that can be run, kept in the file ``journal``; refuses to do without Optuna."""

    def __init__(self, cell: Cell, variations: Sequence[Variation], journal: Path, make: Make) -> None:
        try:
            import optuna
            from optuna.storages.journal import JournalFileBackend
        except ImportError as error:
            raise PhmrunError("Optuna is not installed", hint="Run: pip install 'phmrun[search]'") from error
        if cell.config is None:
            raise ValueError(f"the cell {cell.label} cannot be run")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        journal.parent.mkdir(parents=True, exist_ok=True)
        self.cell = cell
        self.monitor = f"val/{cell.config.training.monitor}"
        self._variations = {variation.key: variation for variation in variations}
        self._make = make
        self._states = optuna.trial.TrialState
        storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
        about = "; ".join(str(variation) for variation in variations)
        self._study = optuna.create_study(
            storage=storage,
            study_name=f"{cell.run_id}: {about}",
            direction="minimize" if metric_of(self.monitor).lower_is_better else "maximize",
            load_if_exists=True,
        )
        begun = len(self._study.get_trials(deepcopy=False))
        # With the same seed, a search that goes on would draw its first trials again. constant_liar keeps trials that
        # run at the same time apart.
        self._study.sampler = optuna.samplers.TPESampler(seed=cell.config.seed + begun, constant_liar=True)

    def next(self, count: int, trials: int) -> list[Trial]:
        """At most so many trials to run now, of all those of the search: those cut off before, and new ones."""
        known = self._study.get_trials(deepcopy=False)
        open_ = [self._trial(one.number, one.params) for one in known if one.state == self._states.RUNNING]
        wanted = max(0, min(count - len(open_), trials - len(known)))
        for _ in range(wanted):
            asked = self._study.ask()
            values = {key: variation.suggest(asked) for key, variation in self._variations.items()}
            open_.append(self._trial(asked.number, values))
        return open_[:count]

    def settle(self, trial: Trial, status: CellStatus) -> bool:
        """Keeps what came of a trial; whether it has come to its end."""
        if status.state not in (CellState.DONE, CellState.FAILED, CellState.INVALID, CellState.BLOCKED):
            return False
        score = status.run.score(BEST) if status.run and status.state is CellState.DONE else None
        state = self._states.FAIL if score is None else None
        self._study.tell(trial.number, score, state=state, skip_if_finished=True)
        return True

    def results(self) -> list[Result]:
        """What came of the trials that are over, the best first."""
        over = [one for one in self._study.get_trials(deepcopy=False) if one.state.is_finished()]
        found = [Result(one.number, self._rounded(one.params), one.value) for one in over]
        sign = 1 if metric_of(self.monitor).lower_is_better else -1
        return sorted(found, key=lambda one: (one.score is None, sign * (one.score or 0.0), one.number))

    def run_of(self, result: Result) -> Cell:
        """The experiment of a trial that is over."""
        return self._make(self.cell, result.values)

    def _trial(self, number: int, values: Mapping[str, Any]) -> Trial:
        rounded = self._rounded(values)
        return Trial(number, rounded, self._make(self.cell, rounded))

    def _rounded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._variations[key].rounded(value) for key, value in values.items()}
