"""What a call of ``phmrun bench layers`` measures, and what it leaves out."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from phmrun.bench.embeddings import large_tables
from phmrun.bench.layers import ORDERS, Candidate, Case, cases
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
    """Plans a benchmark of kinds of modules, with structures named with their options.

    ``orders`` are the values of n where a structure has it and none is given, ``shapes`` those of each kind unless
    given, ``rows`` the vectors in the large tables, 0 for none. ``third_party`` sets other packages' layers beside
    ours.

    Raises:
        PhmrunError: There is no such structure or option, or none fits.
    """
    orders = orders or ORDERS
    absent = missing() if third_party else []
    plan = Survey([], [], [f"layers of {name}: not installed; pip install 'phmrun[bench]'" for name in absent])
    fitting = 0
    for kind in (MODULE_KINDS[name] for name in modules):
        found, reasons = cases(kind, structures, orders, shapes, dtype)
        fitting += len(found)
        plan.candidates.extend(found)
        plan.left_out.extend(reasons)
        if third_party:
            plan.candidates.extend(other_layers(kind, orders, shapes))
        if kind.name == "embedding" and rows:
            layers = {case.label: (case.structure, case.options) for case in found if case.structure != "dense"}
            large, reasons = large_tables(list(layers.values()), sorted({case.shape[1] for case in found}), rows)
            plan.tables.extend(large)
            plan.left_out.extend(reasons)
    if not fitting:
        raise PhmrunError(f"no layer fits: {plan.left_out[-1]}", where="--shape")
    return plan


def check_batches(modules: Sequence[str], batches: Sequence[Batch], where: str) -> None:
    """That every batch has the dimensions that the modules read.

    Raises:
        PhmrunError: One has not.
    """
    for name in modules:
        example = MODULE_KINDS[name].sizes.batches[0]
        for batch in batches:
            if len(batch) != len(example):
                form, text = ("x".join(map(str, each)) for each in (example, batch))
                raise PhmrunError(f"{text!r} is no batch of {name}", where=where, hint=f"Write it like {form}.")
