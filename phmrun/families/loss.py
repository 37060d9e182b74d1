"""Loss on the items of a test set, a metric of all tasks with references but language modeling. Imports no torch."""

from phmrun.metric import Deferred, Metric

LOSS = Metric(
    "loss",
    unit="nats",
    lower_is_better=True,
    measure=Deferred("phmrun.metrics.items:mean_loss"),
    rounding=1e-3,
    read_items=Deferred("phmrun.metrics.items:read_losses"),
    tasks=("nmt", "style", "sva", "nli", "parse"),
)
"""Cross-entropy of the references, labels or trees, a unit: a target token, an item or a word."""
