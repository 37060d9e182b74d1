"""What a call of ``phmrun bench layers`` measures, and what it leaves out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from phmrun.bench.layers import ORDERS, Candidate, Case, cases
from phmrun.bench.lookup_memory import large_tables
from phmrun.bench.modules import MODULE_KINDS, Batch, Shape
from phmrun.bench.third_party import missing, other_layers
from phmrun.errors import PhmrunError


class Survey(NamedTuple):
    """The plan of a benchmark of layers."""

    candidates: list[Candidate]
    tables: list[Case]  # large ones, whose lookups' memory is measured
    left_out: list[str]


def survey(
    modules: Sequence[str],
    structures: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    orders: Sequence[int] = (),
    shapes: Sequence[Shape] = (),
    dtype: torch.dtype = torch.float32,
    third_party: bool = True,
    rows: int = 0,
) -> Survey:
    """Plans a benchmark.

    Args:
        modules: Names of kinds.
        structures: Names with options.
        orders: Values of n where a structure has it and none is given.
        shapes: Sizes; each kind's own unless given.
        dtype: What is computed in.
        third_party: Whether layers of other packages stand beside ours.
        rows: Vectors in the large tables; 0: none.

    Raises:
        PhmrunError: There is no such structure or option, or none fits.
    """
    orders = orders or ORDERS
    candidates: list[Candidate] = []
    tables: list[Case] = []
    left_out = [f"layers of {name}: not installed; pip install 'phmrun[bench]'" for name in missing() if third_party]
    fitting = 0
    for kind in (MODULE_KINDS[name] for name in modules):
        found, reasons = cases(kind, structures, orders, shapes, dtype)
        fitting += len(found)
        candidates += found
        left_out += reasons
        if third_party:
            candidates += other_layers(kind, orders, shapes)
        if kind.name == "embedding" and rows:
            layers = {case.label: (case.structure, case.options) for case in found if case.structure != "dense"}
            widths = sorted({case.shape[1] for case in found})
            large, reasons = large_tables(list(layers.values()), widths, rows)
            tables += large
            left_out += reasons
    if not fitting:
        raise PhmrunError(f"no layer fits: {left_out[-1]}", where="--shape")
    return Survey(candidates, tables, left_out)


def check_batches(modules: Sequence[str], batches: Sequence[Batch], where: str) -> None:
    """That every batch has the dimensions that the modules read.

    Raises:
        PhmrunError: One has not.
    """
    for name in modules:
        example = MODULE_KINDS[name].sizes.batches[0]
        for batch in batches:
            if len(batch) != len(example):
                form = "x".join(map(str, example))
                text = "x".join(map(str, batch))
                raise PhmrunError(f"{text!r} is no batch of {name}", where=where, hint=f"Write it like {form}.")
