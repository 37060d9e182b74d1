"""Memory of a lookup in a very large table of each structure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from phmrun.bench.machine import memory_in_use, peak_memory
from phmrun.bench.modules import Case, EmbeddingKind
from phmrun.bench.timing import Result
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

ROWS = 10_000_000
TOKENS = 640
MOST = 2 * 2**30  # bytes of parameters up to which a large table is drawn
BYTES = 4


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
