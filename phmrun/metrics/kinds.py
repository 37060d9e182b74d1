"""What is known of a score by its name: its direction, how it adds up over items, which differences matter."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.parsing import ARCS, HEADS, WORDS, share
from phmrun.metrics.translation import bleu_of
from phmrun.registry import SCORES

Measure = Callable[[Counts], Counts]  # a corpus score from sums of counts, `[sets, kinds] -> [sets]`


@dataclass(frozen=True)
class Kind:
    """A kind of score."""

    lower_is_better: bool = False
    # δ: a difference below it is none to a reader, in units of the score; `None`: nothing is usual
    margin: float | None = None
    measure: Measure | None = None  # the score of summed counts; `None` where it does not add up over items
    # what each item adds to them: `module:name` of a `phmrun.results.items.Reader`; `None` where runs do not tell
    items: str | None = None


def kind_of(score: str) -> Kind:
    """The kind of a score by its name, with or without split and part, as "test/accuracy-matched".

    Somebody's own is announced as ``wer = "package:KIND"`` in the entry-point group ``phmrun.scores``, or by
    ``SCORES.add("wer", Kind(lower_is_better=True))`` in a plug-in. Where nothing is known, higher is better.
    """
    if score.startswith("time/"):
        return Kind(lower_is_better=True)
    name = score.rpartition("/")[2].partition("-of-")[0]
    names = (name, name.partition("-")[0])
    known = next((KINDS[one] for one in names if one in KINDS), None)
    return known or next((SCORES.get(one) for one in names if one in SCORES), Kind())


KINDS: Mapping[str, Kind] = {
    "bleu": Kind(margin=0.5, measure=bleu_of, items="phmrun.results.items:of_translations"),
    "accuracy": Kind(margin=0.5, measure=partial(share, of=0, among=1), items="phmrun.results.items:of_labels"),
    "uas": Kind(margin=0.5, measure=partial(share, of=HEADS, among=WORDS), items="phmrun.results.items:of_trees"),
    "las": Kind(margin=0.5, measure=partial(share, of=ARCS, among=WORDS), items="phmrun.results.items:of_trees"),
    "unchanged": Kind(lower_is_better=True),
    "loss": Kind(lower_is_better=True),
    "perplexity": Kind(lower_is_better=True),
    "bits_per_character": Kind(lower_is_better=True),
}
