"""Metrics: name, title, unit, direction, margin, and aggregation over test items.

Tables, verdicts, plots, lists, cards and the history read a metric's properties from this one object.
A task lists its metrics in ``TASK.metrics``. A metric that several tasks share is announced in the entry-point group
``phmrun.metrics``, or by ``METRICS.add(name, metric)`` in a plug-in file. Imports neither torch nor NumPy.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phmrun.errors import PhmrunError
from phmrun.registry import METRICS, TASKS, load

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Measure = Callable[[NDArray[float64]], NDArray[float64]]
    OfItems = Callable[[NDArray[float64]], float]

Reader = Callable[[Any, str, str], Any]
"""``read_items(run, split, part)`` of a :class:`phmrun.ledger.Run`; see :class:`Metric`."""

OF = "-of-"
"""Separator of metric and baseline in the name of a score: "bleu-of-copy"."""

PERCENT = (0.0, 100.0)
"""Bounds of shares in percent, and of BLEU and chrF."""

_UNSURE = re.compile(
    r"""
    ppl|xent|bpc|bpb|bpw|bpd|bits?|nats?|nll|b?ce|kld?|jsd|mmd|emd|n?r?mse|s?mae|s?mape|wape|mase|epe|[af]de|ate|rpe|
    rmsd|rel|abs|sq|silog|[em]ce|brier|crps|e?aurc|[cmpuw]er|[ht]?ter|[de]er|jer|her|aer|wil|dcf|mcd|f[aprdn]r|frr|fid|
    kid|lpips|dist|hd|err|std|stderr|variance|bias|times?|timing|secs?|mins?|hours?|minutes?|days?|s|ms|us|ns|lag|delay|
    ttft|tpot|itl|size|disk|v?ram|mem|memory|params|parameters|weights|macs|flops?|flos|energy|joules|watts|costs?|
    price|risk|regret|churn|drift|false|wrong|miss|missed|misses|lost|outliers?|failed|failures?|violations|collisions|
    toxicity|attack|refusal|repetition|duplicates|self|drop|decrease|increase|reduction|improvement|gain|degradation|
    delta|diff|change|gap|rank|aic|bic|neg|negative|minus|inverse|inv|grad|gnorm|iterations|iters|steps?|epochs?|trials|
    fkgl|davies|stereotype|
    .*(loss|perplex|error|second|byte|latency|runtime|walltime|duration|distance|entropy|diverge|devia|residual|
    distortion|halluc|forget|penalty|converge).*
    """,
    re.VERBOSE,
)
"""Words of names whose lower values may be better, or whose higher ones, as of a loss's drop."""
_RATE = re.compile(r"(_|\b)per_?second(s|_|\b)")


@dataclass(frozen=True)
class Deferred:
    """Function by ``module:name``, which is imported when it is called."""

    place: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Import the function and call it."""
        return load(self.place)(*arguments, **options)


@dataclass(frozen=True)
class Metric:
    """Metric of a task's predictions.

    A run's scores are named ``<split>/<metric>[-of-<baseline>][-<part>]``: "test/accuracy-of-majority-matched".

    Args:
        name: Name in the scores of a run: "bleu".
        title: Name in text: "BLEU"; empty: the name with spaces for underscores.
        unit: Unit of the values: "%", "nats"; empty: none.
        lower_is_better: True if lower values are better.
        margin: Usual equivalence margin, in units of the metric; ``None``: there is none.
        is_share: True if validations record it as a fraction of 1, and tests in percent.
        measure: Function from the sums of item counts to scores, ``[sets, counts] -> [sets]``; ``None``: the metric is
            no function of such sums, and runs are compared over seeds only.
        of_items: Function from the counts of all items to the score, ``[items, counts] -> score``, for a metric that is
            no function of their sums; `phmrun verify` computes stored scores again with it.
        rounding: Largest relative error of a score computed again, if the counts are rounded; 0: they are exact.
        read_items: ``read_items(run, split, part)``, which returns the counts of each test item of a run
            (:class:`phmrun.metrics.items.Items`), or ``None`` if there are none.
        floors: Baselines that a trained model must beat; not upper bounds or mere references.
        diverged_past: Floor past which a run has diverged: knowing nothing is better; empty: there is none.
        version: Version of the mathematics. Raise it when they change: runs of tasks that list it get other ids.
            Scores of runs that it names by ``tasks`` have it in their signature.
        tasks: Tasks whose runs are scored with it, besides those that list it. A score that the task's predictor does
            not compute is computed from the item counts.
        bounds: Least and greatest possible value.
    """

    name: str
    title: str = ""
    unit: str = ""
    lower_is_better: bool = False
    margin: float | None = None
    is_share: bool = False
    measure: "Measure | None" = None
    of_items: "OfItems | None" = None
    rounding: float = 0.0
    read_items: Reader | None = None
    floors: tuple[str, ...] = ()
    diverged_past: str = ""
    version: int = 1
    tasks: tuple[str, ...] = ()
    bounds: tuple[float, float] = (-math.inf, math.inf)

    def bounded(self, interval: tuple[float, float] | None) -> tuple[float, float] | None:
        """Return an interval of values, cut to the bounds; ``None`` without one."""
        low, high = self.bounds
        return interval and (min(max(interval[0], low), high), max(min(interval[1], high), low))

    def computed(self, counts: "NDArray[float64]") -> float:
        """Return the score of items with these counts ``[items, counts]``.

        Raises:
            ValueError: The metric is no function of counts.
        """
        if self.of_items is not None:
            return float(self.of_items(counts))
        if self.measure is None:
            raise ValueError(f"the metric {self.name} is no function of counts")
        return float(self.measure(counts.sum(axis=0, dtype=float)[None])[0])

    @property
    def words(self) -> str:
        """Name in text: the title, else the name with spaces for underscores."""
        return self.title or self.name.replace("_", " ")


@dataclass(frozen=True)
class Baseline:
    """System without a trained network that is scored next to it, as "bleu-of-copy".

    Args:
        name: Name at the end of a score.
        meaning: Rule in words: "the source, copied".
    """

    name: str
    meaning: str


UNITS_PER_SECOND = Metric("units_per_second", "tokens or items per second", bounds=(0.0, math.inf))
SENTENCES_PER_SECOND = Metric("sentences_per_second", bounds=(0.0, math.inf))
TIME = Metric("time", unit="s", lower_is_better=True, bounds=(0.0, math.inf))
"""Metric of all times that ``phmrun bench`` measures: "time/step"."""


def find_metric(score: str) -> Metric | None:
    """Return the metric of a score by the score's name, or None.

    Parts are dropped from the end of the name until a metric has it. Registered metrics are tried before those of
    tasks. All times ("time/…") have one metric.

    Args:
        score: Name, with or without split and part: "bleu", "test/accuracy-matched", "test/accuracy-of-majority".
    """
    if score.startswith("time/"):
        return TIME
    plain = score.rpartition("/")[2].partition(OF)[0]
    for name in _prefixes(plain):
        if name in METRICS:
            metric: Metric = METRICS.get(name)
            return metric
    others = {metric.name: metric for entry in _tasks() for metric in entry.metrics}
    return next((others[name] for name in _prefixes(plain) if name in others), None)


def metric_of(score: str) -> Metric:
    """Return the metric of a score.

    One that is not registered has no unit, higher values are better, and it is in no model card.
    """
    return find_metric(score) or Metric(score.rpartition("/")[2].partition(OF)[0])


def known_metric(score: str) -> Metric | None:
    """Return the metric of a score that another program may have named, or None.

    As :func:`find_metric`, but a part such as "loss" in "accuracy-loss" makes another metric.
    """
    metric = find_metric(score)
    return None if metric and metric is not TIME and _is_unsure(part_of(score, metric)) else metric


def find_direction(score: str) -> bool | None:
    """Return True if lower values of a score are better, False if higher ones are, None if that is not known.

    A registered metric has its direction. For others higher is better, unless a word of the name speaks against it:
    "eval_loss", "wer", "neg_log_loss", "seconds".
    """
    metric = known_metric(score)
    return metric.lower_is_better if metric else None if _is_unsure(score) else False


def _is_unsure(name: str) -> bool:
    """True if a word of a name leaves open which direction is better."""
    name = _RATE.sub("", name)
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return any(map(_UNSURE.fullmatch, [*words, name.lower()]))


def lacks_direction(score: str) -> bool:
    """Return True if a score is of no registered metric, and its name leaves its direction open."""
    return find_metric(score) is None and _is_unsure(score)


def require_direction(score: str, where: str | None = None) -> None:
    """Check that the better direction of a score is known.

    Raises:
        PhmrunError: (exit 2) It is not.
    """
    if lacks_direction(score):
        name = score.rpartition("/")[2]
        hint = f'Register it in the file of --plugin: METRICS.add("{name}", Metric("{name}", lower_is_better=True))'
        what = f"it is not known whether lower or higher values of {score!r} are better"
        raise PhmrunError(what, where=where, hint=hint)


def metrics_of(task: str) -> list[Metric]:
    """Return the metrics of a task: its own, then those that name it.

    Raises:
        PhmrunError: (exit 2) The task is unknown.
    """
    metrics = list(TASKS.get(task).metrics)
    others = (METRICS.get(name) for name in METRICS.names())
    return metrics + [metric for metric in others if task in metric.tasks and metric not in metrics]


def part_of(score: str, metric: Metric) -> str:
    """Return the part of the test set in a score's name.

    It is "matched" in "test/accuracy-matched". It is empty for the whole test set.
    """
    return score.rpartition("/")[2].partition(OF)[0].removeprefix(metric.name).removeprefix("-")


def floors_of(score: str) -> list[str]:
    """Return the names of the baseline scores that a score must beat.

    The result is empty for a baseline. For "test/bleu", this is "test/bleu-of-copy"; for a part, the floors of that
    part.
    """
    metric = metric_of(score)
    if OF in score:
        return []
    part = part_of(score, metric)
    whole = score.removesuffix(f"-{part}") if part else score
    return [f"{whole}{OF}{floor}-{part}" if part else f"{whole}{OF}{floor}" for floor in metric.floors]


def divergence_of(score: str) -> str | None:
    """Return the name of the baseline score that diverged runs miss.

    A run whose score is worse than this one has diverged: "test/perplexity-of-unigram" for "test/perplexity". The
    result is ``None`` if the metric has no such floor, and for a score of a baseline.
    """
    floor = metric_of(score).diverged_past
    return next((name for name in floors_of(score) if floor and f"{OF}{floor}" in name), None)


def find_baseline(name: str) -> Baseline | None:
    """Return the baseline of a name, or None.

    Baselines of ``task`` take precedence.
    """
    return next((baseline for entry in _tasks() for baseline in entry.baselines if baseline.name == name), None)


def baseline_of(score: str, scores: Iterable[str]) -> tuple[str, str] | None:
    """Return the score that a baseline's score is to be compared with, and the baseline's name.

    "test/accuracy-of-majority-0" is that of majority, for "test/accuracy-0". The result is ``None`` if the score is no
    registered baseline's, or the other is not among ``scores``.
    """
    prefix, _, rest = score.partition(OF)
    parts = {name.removeprefix(prefix) for name in scores if name.startswith(prefix) and OF not in name}
    for part in sorted(parts, key=len, reverse=True):
        if rest.endswith(part) and find_baseline(rest.removesuffix(part)):
            return f"{prefix}{part}", rest.removesuffix(part)
    return None


def _prefixes(name: str) -> Iterator[str]:
    """Yield a name, then without its last parts: "label-accuracy-2", "label-accuracy", "label"."""
    while name:
        yield name
        name = name.rpartition("-")[0]


def _tasks() -> Iterator[Any]:
    """Yield all tasks that can be imported.

    Others are skipped silently.
    """
    for name in TASKS.names():
        try:
            yield TASKS.get(name)
        except ImportError:
            continue
