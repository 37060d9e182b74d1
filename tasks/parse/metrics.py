"""Attachment scores as metrics, and the parsing baseline."""

from phmrun.metric import PERCENT, Baseline, Deferred, Metric

_ITEMS = Deferred("phmrun.tasks.parse.predictor:read_items")
_FLOORS = ("neighbour",)


def _metric(name: str, title: str, margin: float | None = None) -> Metric:
    """Return an attachment score in percent, with its function in `phmrun.metrics.parsing`."""
    measure = Deferred(f"phmrun.metrics.parsing:{name.replace('-', '_')}_of")
    shown = {"margin": margin, "is_share": margin is not None, "bounds": PERCENT}
    return Metric(name, title, "%", measure=measure, read_items=_ITEMS, floors=_FLOORS, **shown)  # type: ignore[arg-type]


UAS, LAS = _metric("uas", "UAS", 0.5), _metric("las", "LAS", 0.5)
CLAS, LABEL_ACCURACY = _metric("clas", "CLAS"), _metric("label-accuracy", "label accuracy")
NEIGHBOUR = Baseline("neighbour", "each word has the arc that is most frequent for its tag in training")
