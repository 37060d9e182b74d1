"""How much memory a lookup in a very large table takes: where the table is never built, a few vectors' worth."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from phmrun.bench.layers import Case
from phmrun.bench.machine import memory_in_use, peak_memory
from phmrun.bench.modules import EmbeddingKind
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

ROWS = 10_000_000
TOKENS = 640
MOST = 2 * 2**30
"""Bytes of parameters up to which a table is drawn."""
BYTES = 4


@dataclass(frozen=True)
class LookupMemory:
    """What a table of a structure takes, in bytes of single precision."""

    layer: str  # structure and options
    rows: int  # vectors in the table
    width: int  # numbers in a vector
    tokens: int  # vectors looked up at once
    table: int  # bytes of the dense table
    parameters: int  # bytes of the structure's own numbers
    lookup: int  # bytes that the lookup took at its peak, beyond what the process held before, its result included

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self)


def large_tables(
    layers: Sequence[tuple[str, Mapping[str, Any]]], widths: Sequence[int], rows: int = ROWS
) -> tuple[list[Case], list[str]]:
    """Tables whose parameters can be drawn, and why others cannot.

    Args:
        layers: Structures with all their options.
        widths: Numbers in a vector.
        rows: Vectors in a table.
    """
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
    """Looks random tokens up in each table, with the memory at its peak.

    Args:
        tables: From :func:`large_tables`.
        tokens: Vectors per lookup.
        device: Where the tables are.
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
            del module
            advance(1)
