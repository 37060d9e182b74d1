"""Attachment scores as metrics, and the parsing baseline."""

from phmrun.metric import Baseline, Deferred, Metric

_ITEMS = Deferred("phmrun.tasks.parse.items:read_items")
_UAS, _LAS = (Deferred(f"phmrun.metrics.parsing:{name}_of") for name in ("uas", "las"))
_FLOORS = ("neighbour",)

UAS = Metric("uas", "UAS", "%", margin=0.5, is_share=True, measure=_UAS, read_items=_ITEMS, floors=_FLOORS)
LAS = Metric("las", "LAS", "%", margin=0.5, is_share=True, measure=_LAS, read_items=_ITEMS, floors=_FLOORS)
CLAS = Metric("clas", "CLAS", "%", hub_name="", floors=_FLOORS)
LABEL_ACCURACY = Metric("label-accuracy", "label accuracy", "%", hub_name="", floors=_FLOORS)
NEIGHBOUR = Baseline("neighbour", "each word has the arc that is most frequent for its tag in training")
