"""Speed of spanning-tree search: sentences per second on random and on peaked scores, beside supar's if installed.

Random scores almost never make a tree by themselves, so that every sentence must be searched. A trained parser is sure
of most heads: its *peaked* scores are drawn around a tree, from which a few words' best heads stray.

``python -m benchmarks.trees --length 10,20,40 --threads 1``
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from benchmarks.arguments import parser, start
from phmrun.bench.timing import interleave
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.decoding.spanning_tree import spanning_trees

Kind = Literal["random", "peaked"]
KINDS: tuple[Kind, ...] = ("random", "peaked")
LENGTHS = (10, 20, 40)
SURE = 8.0  # what a peaked score adds to noise of unit variance
STRAYING = 0.05  # share of words whose peak is at a random head: a parser's errors
OURS = "phmrun"
SUPAR = "supar"


@dataclass(frozen=True)
class Trees:
    """Row of the result."""

    scores: Kind  # their kind
    words: int  # words of each sentence
    sentences: int  # sentences per call
    searched: float  # share of sentences whose best heads are no tree with one root
    rates: dict[str, float]  # sentences per second, by who finds the trees
    ratios: dict[str, float]  # ours in parts of another's


def measure(
    lengths: Sequence[int] = LENGTHS, *, sentences: int = 64, rounds: int = 5, at_least: float = 0.01
) -> Iterator[Trees]:
    """Measures trees with one root over sentences of some lengths, beside those of supar where that is installed.

    Results are medians over the rounds, in each of which a measurement lasts at least so many seconds.
    """
    for words in lengths:
        for kind in KINDS:
            scores = drawn(kind, words, sentences)
            counts = torch.full((sentences,), words + 1)
            actual: dict[str, Callable[[], object]] = {OURS: partial(spanning_trees, scores, counts)}
            if has_supar():
                actual[SUPAR] = _supar(scores)
            timings = interleave(actual, rounds=rounds, at_least=at_least)
            rates = {name: sentences / timing.median for name, timing in timings.items()}
            # Ratios of rates, and so the reciprocals of those of the times.
            ratios = {name: 1 / timings[OURS].ratio(timings[name]) for name in timings if name != OURS}
            yield Trees(kind, words, sentences, _searched(scores, counts), rates, ratios)


def drawn(kind: Kind, words: int, sentences: int, seed: int = 0) -> Tensor:
    """Scores ``[sentences, words + 1, words + 1]``."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sentences, words + 1, words + 1, generator=generator)
    if kind == "random":
        return scores
    # In a random order of the words each hangs on an earlier one, the first on the root.
    order = torch.rand(sentences, words, generator=generator).argsort(1) + 1
    earlier = (torch.rand(sentences, words, generator=generator) * torch.arange(words)).long()
    above = order.gather(1, (earlier - 1).clamp_min(0)).where(torch.arange(words) > 0, 0)
    heads = torch.zeros(sentences, words + 1, dtype=torch.long).scatter(1, order, above)
    stray = torch.rand(sentences, words + 1, generator=generator) < STRAYING
    heads = torch.where(stray, torch.randint(words + 1, heads.shape, generator=generator), heads)
    return scores.scatter_add(2, heads.unsqueeze(-1), torch.full((*heads.shape, 1), SURE))


def has_supar() -> bool:
    """True if supar and its requirements are installed."""
    try:
        import supar.structs.fn  # noqa: F401
    except ImportError:
        return False
    return True


def _supar(scores: Tensor) -> Callable[[], object]:
    """Call in the way of supar's parsers."""
    from supar.structs.fn import mst

    scores = scores.clone()
    mask = torch.ones(scores.shape[:2], dtype=torch.bool)
    mask[:, 0] = False
    return partial(mst, scores, mask)


def _searched(scores: Tensor, counts: Tensor) -> float:
    """The share of sentences whose best heads differ from the best tree's."""
    ours = torch.eye(scores.shape[1], dtype=torch.bool)
    best = scores.masked_fill(ours, -math.inf).argmax(2)
    best[:, 0] = 0
    return float((best != spanning_trees(scores, counts)).any(1).float().mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure trees with one root, on the CPU, and print a line for each kind of scores and length."""
    options = parser(__doc__, repeats=5)
    options.add_argument("--length", action="append", metavar="WORDS,…", help="words of a sentence (default: 10,20,40)")
    options.add_argument("--sentences", type=int, default=64, help="sentences per call")
    args = options.parse_args(arguments)
    args.device = "cpu"
    lengths = measuring.numbers(args.length, "--length") or LENGTHS
    facts = start(args)
    if not has_supar():
        console.stderr().print("left out: supar's spanning trees: not installed", markup=False)
    rows = list(measure(lengths, sentences=args.sentences, rounds=args.repeats))
    if args.json:
        console.print_json({"machine": facts, "rows": [asdict(row) for row in rows]})
        return
    measuring.print_machine(facts)
    others = list(rows[0].ratios)
    lines = []
    for row in rows:
        beside = [cell for name in others for cell in (round(row.rates[name]), f"{row.ratios[name]:.1f}×")]
        lines.append((row.scores, row.words, row.sentences, f"{row.searched:.0%}", round(row.rates[OURS]), *beside))
    heads = [cell for name in others for cell in (name, "ratio")]
    console.print_table(("scores", "words", "batch", "searched", OURS, *heads), lines, title="\nSentences per second")


if __name__ == "__main__":
    main()
