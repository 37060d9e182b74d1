"""Hyperparameter search around a cell with Optuna.

Each trial is a normal run.

A journal on disk keeps all trials, so the same call resumes the search. Interrupted trials are finished first. Trials
are compared by validation score, never by test score.
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
from phmrun.sweeps.cell import Cell, Make
from phmrun.sweeps.cell_status import CellState, CellStatus

DIGITS = 3  # significant digits of a tried number, so that run ids do not depend on noise
_INTERVAL = re.compile(r"\s*([^\s.]\S*?)\.\.(\S+)\s*")
_WHOLE = re.compile(r"[+-]?\d+")


@dataclass(frozen=True)
class Interval:
    """Range of a number: integers if both ends are, else floats.

    It is logarithmic if the upper end is at least ten times a positive lower end.
    """

    key: str  # dotted key of the configuration
    low: float  # least value
    high: float  # greatest value

    def suggest(self, trial: Any) -> float:
        """Return the value that an Optuna trial suggests within the range.

        It is an integer if the bounds are, else a float that is not rounded yet. The scale is logarithmic if the upper
        bound is at least ten times the lower, positive one.
        """
        logarithmic = 0 < self.low * 10 <= self.high
        if isinstance(self.low, int):
            return int(trial.suggest_int(self.key, self.low, self.high, log=logarithmic))
        return float(trial.suggest_float(self.key, self.low, self.high, log=logarithmic))

    def rounded(self, value: Any) -> float:
        """Return a value with three significant digits, within the range.

        For a range of integers, its fraction is cut off instead.
        """
        if isinstance(self.low, int):
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


@dataclass(frozen=True)
class Choice:
    """List of values."""

    key: str  # dotted key of the configuration
    values: tuple[Any, ...]  # numbers, texts, booleans

    def suggest(self, trial: Any) -> Any:
        """Return the value of the list that an Optuna trial suggests."""
        return trial.suggest_categorical(self.key, list(self.values))

    def rounded(self, value: Any) -> Any:
        """Return the value unchanged."""
        return value


Variation = Interval | Choice


def read_variation(text: str) -> Variation:
    """Parse ``KEY=LOW..HIGH`` or ``KEY=A,B,C``.

    The first is an interval, of integers if both ends are; the second a choice of YAML values, one or more.

    Raises:
        PhmrunError: (exit 2) The text has another form, an end is no number, ``LOW`` is not below ``HIGH``, or a value
            is not YAML.
    """
    key, equals, values = (part.strip() for part in text.partition("="))
    if not (equals and key and values):
        raise PhmrunError(
            f"{text!r} is not of the form KEY=LOW..HIGH or KEY=A,B,C",
            where="--vary",
            hint="As in --vary training.optimizer.lr=1e-4..1e-2 --vary model.dropout=0.1,0.2,0.3.",
        )
    match = _INTERVAL.fullmatch(values)
    if not match:
        return Choice(key, tuple(parse_yaml(value, f"--vary {text}") for value in values.split(",")))
    try:
        low, high = (int(end) if _WHOLE.fullmatch(end) else float(end) for end in match.groups())
    except ValueError:
        raise PhmrunError(f"the ends of {values!r} are not numbers", where=f"--vary {key}") from None
    if not low < high:
        raise PhmrunError(f"the interval {values!r} is empty", where=f"--vary {key}")
    # The type of the lower end decides between integers and floats, so both ends get the same type.
    if isinstance(low, float) or isinstance(high, float):
        low, high = float(low), float(high)
    return Interval(key, low, high)


class Trial(NamedTuple):
    """Trial of a search."""

    number: int  # number in its search, from 0
    values: Mapping[str, Any]  # tried values by dotted key
    cell: Cell


class Result(NamedTuple):
    """Score of a finished trial."""

    number: int  # of the trial
    values: Mapping[str, Any]  # tried values by dotted key
    score: float | None  # best validation score; ``None`` if the run failed


class Search:
    """Trials around one cell, kept in a journal file.

    The same cell, variations and file continue an earlier search. The file's directory is created.

    Args:
        cell: A cell that can be run.
        variations: Keys to vary.
        journal: The file.
        make: Function that builds a cell with other values.

    Raises:
        PhmrunError: (exit 2) Optuna is not installed.
        ValueError: The cell cannot be run.
    """

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
        """Return at most ``count`` trials to run now, unsettled ones first.

        Unsettled are those on record without an end, such as interrupted ones. New trials are recorded in the journal.
        None are added once ``trials`` have been started.

        Args:
            count: Trials to run now.
            trials: Trials of the whole search.
        """
        earlier = self._study.get_trials(deepcopy=False)
        open_ = [self._trial(item.number, item.params) for item in earlier if item.state == self._states.RUNNING]
        wanted = max(0, min(count - len(open_), trials - len(earlier)))
        for _ in range(wanted):
            asked = self._study.ask()
            values = {key: variation.suggest(asked) for key, variation in self._variations.items()}
            open_.append(self._trial(asked.number, values))
        return open_[:count]

    def settle(self, trial: Trial, status: CellStatus) -> bool:
        """Record the score of a trial.

        Return ``False``, and record nothing, if its run has not ended; else ``True``. A failed, invalid or blocked
        trial, or one without a validation score, is recorded as failed. An end that is on record stays unchanged.
        """
        if status.state not in (CellState.DONE, CellState.FAILED, CellState.INVALID, CellState.BLOCKED):
            return False
        score = status.run.score(BEST) if status.run and status.state is CellState.DONE else None
        state = self._states.FAIL if score is None else None
        self._study.tell(trial.number, score, state=state, skip_if_finished=True)
        return True

    def results(self) -> list[Result]:
        """Return the finished trials, best first, those without a score last.

        Values are rounded; ties are in the order of the trials.
        """
        over = [trial for trial in self._study.get_trials(deepcopy=False) if trial.state.is_finished()]
        results = [Result(trial.number, self._rounded(trial.params), trial.value) for trial in over]
        sign = 1 if metric_of(self.monitor).lower_is_better else -1
        return sorted(results, key=lambda trial: (trial.score is None, sign * (trial.score or 0.0), trial.number))

    def run_of(self, result: Result) -> Cell:
        """Return the cell of a finished trial, built from its values."""
        return self._make(self.cell, result.values)

    def _trial(self, number: int, values: Mapping[str, Any]) -> Trial:
        """Return a trial with its values rounded and its cell."""
        rounded = self._rounded(values)
        return Trial(number, rounded, self._make(self.cell, rounded))

    def _rounded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by key, each rounded by its variation."""
        return {key: self._variations[key].rounded(value) for key, value in values.items()}
