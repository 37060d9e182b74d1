"""Structured modules against torch's dense ones: inference on few and many tokens, and training.

Inference is measured in every form that a module has for it. Weights are *hot* when the same module is called again and
again, and *cold* when each call takes another copy of it, out of so many that together they exceed the last-level
cache: then the call waits for memory, as it does inside a large model. That holds for every candidate alike, however
small its copies are.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from phmrun.bench.lookup_memory import large_tables
from phmrun.bench.machine import last_level_cache, waiter
from phmrun.bench.modules import MODULE_KINDS, ORDERS, Batch, Case, Form, Inputs, ModuleKind, Shape, cases, frozen
from phmrun.bench.timing import MEASUREMENT, Result, Timing, interleave, ratios
from phmrun.errors import PhmrunError
from phmrun.progress import progress

BEYOND_CACHE = 1.25  # cold copies take so many times the last-level cache …
MOST_COPIES = 8192  # … but are no more than this: layers of a few kilobytes are never cold for long
Mode = Literal["inference", "training"]
Precision = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Measured(Result):
    """One line of the result."""

    module: str  # the kind of module
    layer: str  # structure and options
    in_features: int  # size of an input vector; of an embedding, the number of its rows
    out_features: int  # size of an output vector; of a biaffine form, the number of its labels
    mode: Mode  # forward only, or forward and backward with the gradients of inputs and parameters
    weights: Literal["hot", "cold"]  # whether the weights were in the cache
    batch: Batch  # input vectors per call: tokens, or sequences and their length
    reference: str  # the torch module in the place of ours
    seconds: dict[str, float]  # median time per call: of the reference, and of ours in each form that it has
    ratios: dict[str, float]  # that of ours in parts of the reference's, by form
    auto: Form  # the form that training has, or that inference takes for such a batch


class Survey(NamedTuple):
    """The plan of a benchmark of layers."""

    candidates: list[Case]
    tables: list[Case]  # large ones, whose lookups' memory is measured
    left_out: list[str]


def survey(
    modules: Sequence[str],
    structures: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    orders: Sequence[int] = (),
    shapes: Sequence[Shape] = (),
    dtype: torch.dtype = torch.float32,
    rows: int = 0,
) -> Survey:
    """Plans a benchmark of kinds of modules, with structures named with their options; refuses one in which none fits.

    ``orders`` are the values of n where a structure has it and none is given, ``shapes`` those of each kind unless
    given, ``rows`` the vectors in the large tables, 0 for none.
    """
    orders = orders or ORDERS
    plan = Survey([], [], [])
    for kind in (MODULE_KINDS[name] for name in modules):
        found, reasons = cases(kind, structures, orders, shapes, dtype)
        plan.candidates.extend(found)
        plan.left_out.extend(reasons)
        if kind.name == "embedding" and rows:
            layers = {case.label: (case.structure, case.options) for case in found if case.structure != "dense"}
            large, reasons = large_tables(list(layers.values()), sorted({case.shape[1] for case in found}), rows)
            plan.tables.extend(large)
            plan.left_out.extend(reasons)
    if not plan.candidates:
        raise PhmrunError(f"no layer fits: {plan.left_out[-1]}", where="--shape")
    return plan


def check_batches(modules: Sequence[str], batches: Sequence[Batch], where: str) -> None:
    """Refuses batches that have not the dimensions that the modules read."""
    for name in modules:
        example = MODULE_KINDS[name].sizes.batches[0]
        for batch in batches:
            if len(batch) != len(example):
                form, text = ("x".join(map(str, each)) for each in (example, batch))
                raise PhmrunError(f"{text!r} is no batch of {name}", where=where, hint=f"Write it like {form}.")


def measure(
    candidates: Sequence[Case],
    *,
    batches: Sequence[Batch] = (),
    training: Sequence[Batch] = (),
    rounds: int = 15,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    cache: int | None = None,
    at_least: float = MEASUREMENT,
) -> Iterator[Measured]:
    """Measures each candidate against the reference of its size, in the same rounds; results are medians over them.

    Batches of inference and training are the kind's own unless given, and so are the bytes of the machine's last-level
    cache. Below single precision, training is under autocast and inference has such weights.
    """
    beyond = math.ceil((last_level_cache() if cache is None else cache) * BEYOND_CACHE)
    plans = [list(_settings(each.kind, batches, training, beyond)) for each in candidates]
    place = torch.device(device)

    def precision() -> AbstractContextManager[Any]:
        return torch.autocast(place.type, dtype) if dtype.itemsize < 4 else nullcontext()

    def times(calls: Mapping[str, Callable[[], object]]) -> dict[str, Timing]:
        return interleave(calls, rounds=rounds, at_least=at_least, settle=waiter(place))

    with progress("measuring", sum(map(len, plans)), "settings") as advance:
        for candidate, settings in zip(candidates, plans, strict=True):
            kind = candidate.kind
            plain, module = (made.to(device) for made in (kind.plain(candidate.shape), candidate.build()))
            for (mode, size), group in itertools.groupby(settings, key=lambda setting: setting[:2]):
                forms: dict[str, list[nn.Module]] = {}
                if mode == "inference":
                    held = {kind.reference: frozen(plain), **candidate.forms(module)}
                    forms = {name: copies_of(form.to(dtype), size) for name, form in held.items()}
                for _, _, batch in group:
                    drawn = kind.draw(candidate.shape, batch, dtype)
                    # Detached before they move: otherwise a copy on a GPU would be no leaf, and keep no gradient.
                    inputs = tuple(one.detach().to(place).requires_grad_(one.requires_grad) for one in drawn)
                    if mode == "training":
                        auto = candidate.auto(module)
                        steps = {kind.reference: plain, auto: module}
                        timings = times({name: _step(kind, one, inputs, precision) for name, one in steps.items()})
                    else:
                        auto = candidate.auto(module, math.prod(batch))
                        with torch.inference_mode():
                            timings = times({name: _in_turn(kind, made, inputs) for name, made in forms.items()})
                    yield Measured(
                        kind.name,
                        candidate.label,
                        *candidate.shape,
                        mode,
                        "cold" if size else "hot",
                        batch,
                        kind.reference,
                        {name: timing.median for name, timing in timings.items()},
                        ratios(timings, kind.reference),
                        auto if auto in timings else "dense",
                    )
                    advance(1)


def _settings(
    kind: ModuleKind, batches: Sequence[Batch], training: Sequence[Batch], beyond: int
) -> Iterator[tuple[Mode, int, Batch]]:
    """Mode, bytes of copies and batch."""
    yield from (("training", 0, batch) for batch in training or kind.sizes.training)
    for size in (0, beyond) if kind.cold else (0,):
        yield from (("inference", size, batch) for batch in batches or kind.sizes.batches)


def copies_of(module: nn.Module, size: int) -> list[nn.Module]:
    """As many copies as take ``size`` bytes together, at least one and at most ``MOST_COPIES``."""
    each = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    return [copy.deepcopy(module) for _ in range(min(max(1, math.ceil(size / each)), MOST_COPIES))]


def _in_turn(kind: ModuleKind, modules: Sequence[nn.Module], inputs: Inputs) -> Callable[[], Tensor]:
    """Calls the next of the modules."""
    endless = itertools.cycle(modules)
    return lambda: kind.call(next(endless), inputs)


def _step(
    kind: ModuleKind, module: nn.Module, inputs: Inputs, precision: Precision = nullcontext
) -> Callable[[], None]:
    """One forward and one backward, the gradients thrown away as an optimizer step does."""
    with torch.no_grad(), precision():
        gradient = torch.randn_like(kind.call(module, inputs))

    def step() -> None:
        with precision():
            outputs = kind.call(module, inputs)
        outputs.backward(gradient)
        module.zero_grad(set_to_none=True)
        for one in inputs:
            one.grad = None

    return step
