"""A metric as one object: its name, words, unit, direction, margin, and how it adds up over test items.

The object is all that a metric is announced with: tables, verdicts, plots, listings, cards and the history read it.
A task lists its metrics in ``TASK.metrics``; one that several tasks share is announced in the entry-point group
``phmrun.metrics``, or by ``METRICS.add(name, metric)`` in a plug-in file. Imports neither torch nor NumPy.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phmrun.registry import METRICS, TASKS, load

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Measure = Callable[[NDArray[float64]], NDArray[float64]]

Reader = Callable[[Any, str, str], Any]
"""``read_items(run, split, part)`` of a :class:`phmrun.ledger.Run`; see :class:`Metric`."""

OF = "-of-"
"""Separator of a metric's name and a baseline's in the name of a score: "bleu-of-copy"."""


@dataclass(frozen=True)
class Deferred:
    """A function by ``module:name``, imported when it is first called."""

    place: str

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Import the function and call it."""
        return load(self.place)(*arguments, **options)


@dataclass(frozen=True)
class Metric:
    """One metric.

    A run's scores are named ``<split>/<metric>[-of-<baseline>][-<part>]``: "test/accuracy-of-majority-matched".

    Args:
        name: Name in the scores of a run: "bleu".
        title: Name in text: "BLEU"; the name itself unless given.
        unit: Unit of its values: "%", "nats"; empty: none.
        lower_is_better: Direction.
        margin: Largest difference that a reader would call none, in units of the metric; ``None``: none is usual.
        hub_name: Name in the results of a model card; the title unless given, and no result at all if empty.
        is_share: True if validations record it as a share of 1, and tests in percent.
        measure: Score of a test set from its summed item counts, ``[sets, counts] -> [sets]``; ``None``: the metric
            does not add up over items, and runs are compared over seeds alone.
        read_items: ``read_items(run, split, part)``, which returns the counts of every item of a run
            (:class:`phmrun.metrics.items.Items`), or ``None`` if it has none.
        floors: Baselines that a trained model must beat. An upper bound, or a mere reference, is none.
        version: Raise it when the metric's mathematics change: runs of its tasks then get other ids.
        tasks: Tasks whose runs are scored with it, beside those that list it. A score that the task's predictor does
            not compute is measured from the counts of the items.
    """

    name: str
    title: str = ""
    unit: str = ""
    lower_is_better: bool = False
    margin: float | None = None
    hub_name: str | None = None
    is_share: bool = False
    measure: "Measure | None" = None
    read_items: Reader | None = None
    floors: tuple[str, ...] = ()
    version: int = 1
    tasks: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Name in text."""
        return self.title or self.name.replace("_", " ")

    @property
    def result_name(self) -> str:
        """Name in the results of a model card; empty: it is not among them."""
        text = self.words if self.hub_name is None else self.hub_name
        return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Baseline:
    """A system without a trained network that is scored beside it, as "bleu-of-copy".

    Args:
        name: Name at the end of a score.
        meaning: Its rule in words, as in "copy: the source, copied".
    """

    name: str
    meaning: str


LOSS = Metric("loss", unit="nats", lower_is_better=True, hub_name="")
UNITS_PER_SECOND = Metric("units_per_second", "tokens or items per second", hub_name="")
SENTENCES_PER_SECOND = Metric("sentences_per_second", hub_name="")
TIME = Metric("time", unit="s", lower_is_better=True, hub_name="")
"""Any of the times that ``phmrun bench`` measures, "time/step"."""


def find_metric(score: str, task: str | None = None) -> Metric | None:
    """Metric of a score by its name, with or without split and part; ``None`` if no metric of that name is known.

    Args:
        score: Such as "bleu", "test/accuracy-matched", "test/accuracy-of-majority".
        task: Name of the task that the run is of, whose own metrics come first.
    """
    if score.startswith("time/"):
        return TIME
    plain = score.rpartition("/")[2].partition(OF)[0]
    own_metrics = {metric.name: metric for metric in (TASKS.get(task).metrics if task in TASKS else ())} if task else {}
    for name in _prefixes(plain):
        if name in own_metrics:
            return own_metrics[name]
        if name in METRICS:
            metric: Metric = METRICS.get(name)
            return metric
    others = {metric.name: metric for entry in _tasks() for metric in entry.metrics}
    return next((others[name] for name in _prefixes(plain) if name in others), None)


def metric_of(score: str, task: str | None = None) -> Metric:
    """As :func:`find_metric`; a metric that nobody has announced is taken as better when higher, with no unit."""
    return find_metric(score, task) or Metric(score.rpartition("/")[2].partition(OF)[0], hub_name="")


def metrics_of(task: str) -> list[Metric]:
    """Metrics of a task: its own, then those that name it."""
    metrics = list(TASKS.get(task).metrics)
    others = (METRICS.get(name) for name in METRICS.names())
    return metrics + [metric for metric in others if task in metric.tasks and metric not in metrics]


def part_of(score: str, metric: Metric) -> str:
    """Part of the test set that a score is of: "matched" of "test/accuracy-matched"; empty: all of it."""
    return score.rpartition("/")[2].partition(OF)[0].removeprefix(metric.name).removeprefix("-")


def floors_of(score: str, task: str | None = None) -> list[str]:
    """Names of the scores that a trained model's score must beat: "test/bleu-of-copy" of "test/bleu"."""
    metric = metric_of(score, task)
    if OF in score:
        return []
    part = part_of(score, metric)
    whole = score.removesuffix(f"-{part}") if part else score
    return [f"{whole}{OF}{floor}-{part}" if part else f"{whole}{OF}{floor}" for floor in metric.floors]


def find_baseline(name: str, task: str | None = None) -> Baseline | None:
    """Baseline by the end of a score's name; the baselines of ``task`` come first."""
    tasks = sorted(_tasks(), key=lambda entry: entry.name != task)
    return next((baseline for entry in tasks for baseline in entry.baselines if baseline.name == name), None)


def _prefixes(name: str) -> Iterator[str]:
    """A name without its last parts, the longest first: "label-accuracy-2", "label-accuracy", "label"."""
    while name:
        yield name
        name = name.rpartition("-")[0]


def _tasks() -> Iterator[Any]:
    """All tasks that can be imported."""
    for name in TASKS.names():
        try:
            yield TASKS.get(name)
        except ImportError:
            continue
