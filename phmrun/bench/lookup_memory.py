"""Memory of a lookup in a very large table, by structure."""

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
MOST = 2 * 2**30  # limit of parameter bytes of a large table
BYTES = 4


@dataclass(frozen=True)
class LookupMemory(Result):
    """Memory of a table and of its lookup, in bytes of single precision."""

    layer: str  # structure and options
    rows: int  # vectors in the table
    width: int  # numbers in a vector
    tokens: int  # vectors looked up at once
    table: int  # bytes of the dense table
    parameters: int  # bytes of the structure's parameters
    lookup: int  # peak bytes of the lookup beyond the process's memory before, result included


def large_tables(
    layers: Sequence[tuple[str, Mapping[str, Any]]], widths: Sequence[int], rows: int = ROWS
) -> tuple[list[Case], list[str]]:
    """Return the tables that fit, and a reason for each other one.

    A table fits if its structure allows the shape and its parameters take at most :data:`MOST` bytes.

    Args:
        layers: Names of structures with all options.
        widths: Numbers in a vector.
        rows: Vectors in each table.
    """
    fitting, left_out = [], []
    for width in widths:
        for name, options in layers:
            case, structure = Case(EmbeddingKind(), name, options, (rows, width)), STRUCTURES.get(name)
            reason = structure.misfit(rows, width, **options)
            if not reason and (size := BYTES * structure.count(rows, width, **options)) > MOST:
                reason = f"its parameters take {size / 2**30:,.1f} GiB"
            if reason:
                left_out.append(f"a table of {rows:,} × {width}, {case.label}: {reason}")
            else:
                fitting.append(case)
    return fitting, left_out


def lookup_memory(
    tables: Sequence[Case], *, tokens: int = TOKENS, device: torch.device | str = "cpu"
) -> Iterator[LookupMemory]:
    """Yield the peak memory of looking up random tokens in each table.

    ``tables`` are those of :func:`large_tables`. Results come in their order; only one table is in memory at a time.
    """
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
            # Freed before the next table is drawn, so that only one is in memory.
            del module
            advance(1)
