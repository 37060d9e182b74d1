"""Looking words up in an embedding at inference, against ``nn.Embedding``.

What a deep embedding makes of a word depends on that word alone, so that all vectors can be kept in a table once
training is over (Mehta et al. 2020, section 3.4). Measured are that table as the module keeps it in evaluation
("kept"), as ``folded`` makes it a plain module, which is what scoring and prediction use ("folded"), and, for
comparison, the vectors computed anew at each call ("computed").
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.bench.machine import waiter
from phmrun.bench.timing import interleave
from phmrun.layers import DeFINE, build_embedding, folded
from phmrun.progress import progress

REFERENCE = "nn.Embedding"
MEASUREMENT = 0.01
"""Seconds that a measurement lasts at least."""


@dataclass(frozen=True)
class Lookup:
    """One line of the result."""

    embedding: str  # its name and options
    words: int  # entries of the vocabulary
    width: int  # numbers of a vector
    tokens: int  # words looked up per call
    parameters: int  # of the module as it is trained
    seconds: dict[str, float]  # median time per call, by form
    ratios: dict[str, float]  # that in parts of ``nn.Embedding``'s in the same rounds
    difference: float  # the largest difference of a looked-up number to the computed one

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self)


def measure(
    embeddings: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    words: int,
    width: int,
    tokens: int,
    rounds: int = 15,
    device: torch.device | str = "cpu",
    at_least: float = MEASUREMENT,
) -> Iterator[Lookup]:
    """Measures each embedding.

    Args:
        embeddings: Names with options.
        words: Entries of the vocabulary.
        width: Numbers of a vector.
        tokens: Words looked up per call.
        rounds: Measurements of each form; results are medians over them.
        device: Where to compute.
        at_least: Seconds that one measurement lasts at least.

    Raises:
        PhmrunError: There is no such embedding or option, or sizes do not fit.
    """
    with progress("measuring", len(embeddings), "embeddings") as advance:
        for name, options in embeddings:
            yield _measured(name, options, words, width, tokens, rounds, torch.device(device), at_least)
            advance(1)


@torch.no_grad()
def _measured(
    name: str,
    options: Mapping[str, Any],
    words: int,
    width: int,
    tokens: int,
    rounds: int,
    device: torch.device,
    at_least: float,
) -> Lookup:
    module = build_embedding(words, width, structure=name, **options).to(device).eval()
    plain = folded(module)
    text = torch.randint(words, (tokens,), device=device)
    forms: dict[str, Callable[[], Tensor]] = {
        REFERENCE: _lookup(nn.Embedding(words, width, device=device), text),
        "folded": _lookup(plain, text),
        "kept": _lookup(module, text),
        "computed": _lookup(module.embed if isinstance(module, DeFINE) else module, text),
    }
    difference = max(float((forms[form]() - forms["computed"]()).abs().max()) for form in ("folded", "kept"))
    timings = interleave(forms, rounds=rounds, at_least=at_least, settle=waiter(device))
    return Lookup(
        " ".join([name, *(f"{key}={value}" for key, value in options.items())]),
        words,
        width,
        tokens,
        sum(parameter.numel() for parameter in module.parameters()),
        {form: timing.median for form, timing in timings.items()},
        {form: timing.ratio(timings[REFERENCE]) for form, timing in timings.items() if form != REFERENCE},
        difference,
    )


def _lookup(module: Callable[[Tensor], Tensor], text: Tensor) -> Callable[[], Tensor]:
    return lambda: module(text)
