"""Looking words up in an embedding: how long it takes at inference, and how much memory in a very large table.

What a deep embedding makes of a word depends on that word alone, so that all vectors can be kept in a table once
training is over (Mehta et al. 2020, section 3.4): as the module keeps it in evaluation ("kept"), or as ``folded`` makes
it a plain module, which is what scoring and prediction use. "computed" are the vectors made anew at each call.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.bench.machine import memory_in_use, peak_memory, waiter
from phmrun.bench.modules import Case, EmbeddingKind
from phmrun.bench.timing import MEASUREMENT, Result, interleave, ratios
from phmrun.layers import DeFINE, build_embedding, folded
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

REFERENCE = "nn.Embedding"
ROWS = 10_000_000
TOKENS = 640
MOST = 2 * 2**30  # bytes of parameters up to which a large table is drawn
BYTES = 4


@dataclass(frozen=True)
class Lookup(Result):
    """What a lookup takes of time."""

    embedding: str  # its name and options
    words: int  # entries of the vocabulary
    width: int  # numbers of a vector
    tokens: int  # words looked up per call
    parameters: int  # of the module as it is trained
    seconds: dict[str, float]  # median time per call, by form
    ratios: dict[str, float]  # that in parts of ``nn.Embedding``'s in the same rounds
    difference: float  # the largest difference of a looked-up number to the computed one


@dataclass(frozen=True)
class LookupMemory(Result):
    """What a table of a structure takes, in bytes of single precision."""

    layer: str  # structure and options
    rows: int  # vectors in the table
    width: int  # numbers in a vector
    tokens: int  # vectors looked up at once
    table: int  # bytes of the dense table
    parameters: int  # bytes of the structure's own numbers
    lookup: int  # bytes that the lookup took at its peak, beyond what the process held before, its result included


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
    """Measures each embedding, named with its options, in medians over the rounds; refuses what does not fit."""
    with progress("measuring", len(embeddings), "embeddings") as advance:
        for name, options in embeddings:
            with torch.no_grad():
                module = build_embedding(words, width, structure=name, **options).to(device).eval()
                text = torch.randint(words, (tokens,), device=device)
                forms: dict[str, Callable[[], Tensor]] = {
                    REFERENCE: partial(nn.Embedding(words, width, device=device), text),
                    "folded": partial(folded(module), text),
                    "kept": partial(module, text),
                    "computed": partial(module.embed if isinstance(module, DeFINE) else module, text),
                }
                computed = forms["computed"]()
                difference = max(float((forms[form]() - computed).abs().max()) for form in ("folded", "kept"))
                timings = interleave(forms, rounds=rounds, at_least=at_least, settle=waiter(device))
            label = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
            parameters = sum(parameter.numel() for parameter in module.parameters())
            seconds = {form: timing.median for form, timing in timings.items()}
            shares = ratios(timings, REFERENCE)
            # Outside of no_grad: it would go on holding in the caller while this generator waits.
            yield Lookup(label, words, width, tokens, parameters, seconds, shares, difference)
            advance(1)


def large_tables(
    layers: Sequence[tuple[str, Mapping[str, Any]]], widths: Sequence[int], rows: int = ROWS
) -> tuple[list[Case], list[str]]:
    """Tables of so many vectors whose parameters can be drawn, and why others cannot; ``layers`` with all options."""
    found, left_out = [], []
    for width in widths:
        for name, options in layers:
            case, structure = Case(EmbeddingKind(), name, options, (rows, width)), STRUCTURES.get(name)
            reason = structure.misfit(rows, width, **options)
            if not reason and (size := BYTES * structure.count(rows, width, **options)) > MOST:
                reason = f"its parameters take {size / 2**30:,.1f} GiB"
            if reason:
                left_out.append(f"a table of {rows:,} × {width}, {case.label}: {reason}")
            else:
                found.append(case)
    return found, left_out


def lookup_memory(
    tables: Sequence[Case], *, tokens: int = TOKENS, device: torch.device | str = "cpu"
) -> Iterator[LookupMemory]:
    """Looks random tokens up in each of the :func:`large_tables`, with the memory at its peak."""
    with progress("looking up", len(tables), "tables") as advance:
        for case in tables:
            rows, width = case.shape
            with torch.device(device):
                module = case.build().eval()
            (index,) = case.kind.draw(case.shape, (tokens,), torch.float32)
            index = index.to(device)
            before = memory_in_use(device)
            with torch.inference_mode(), peak_memory(device) as peak:
                module(index)
                most = peak()
            parameters = sum(parameter.numel() for parameter in module.parameters())
            sizes = (BYTES * rows * width, BYTES * parameters, max(0, most - before))
            yield LookupMemory(case.label, rows, width, tokens, *sizes)
            # Otherwise the next table would be drawn while this one is still there: two large ones at a time.
            del module
            advance(1)
