"""Speed of structured linear maps against ``nn.Linear``, in inference and training.

Inference is measured in each form: "dense" builds W once, in a torch module; "factored" never builds W. Weights are
*hot* if all calls use the same module. They are *cold* if each call uses another copy, and the copies exceed the
last-level cache together. A cold call waits for memory, as inside a large model, for every candidate alike.
"""

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from phmrun.bench.machine import last_level_cache
from phmrun.bench.timing import MEASUREMENT, Timing, interleave, ratios
from phmrun.config.options import checked_options, options_of
from phmrun.kernels.choice import Choice, choose, products_of
from phmrun.layers import Linear, folded, for_inference
from phmrun.layers.inference import factors_pay, resolve_application
from phmrun.layers.linear import Application
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

BEYOND_CACHE = 1.25  # total size of cold copies / last-level cache
MOST_COPIES = 8192  # maximum number of cold copies; layers of a few kilobytes therefore stay warm
ORDERS = (2, 4, 8, 16)
SHAPES = ((512, 512), (512, 2048), (2048, 512))
BATCHES = (1, 8, 64, 4096)
TRAINING = (4096,)
REFERENCE = "nn.Linear"
Precision = Callable[[], AbstractContextManager[Any]]
Shape = tuple[int, int]  # (in_features, out_features)


@dataclass(frozen=True)
class Case:
    """Structure with options at one shape."""

    structure: str
    options: Mapping[str, Any]
    shape: Shape

    @property
    def label(self) -> str:
        """Name and options: ``phm n=8``."""
        return " ".join([self.structure, *(f"{name}={value}" for name, value in self.options.items())])


@dataclass(frozen=True)
class Measured:
    """Times of one candidate in one setting."""

    layer: str  # structure and options
    in_features: int  # size of an input vector
    out_features: int  # size of an output vector
    mode: Literal["inference", "training"]  # forward only, or forward and backward
    weights: Literal["hot", "cold"]  # "hot": the weights were in the cache
    tokens: int  # input vectors per call
    seconds: dict[str, float]  # median seconds per call: of nn.Linear, and of each form of ours
    ratios: dict[str, float]  # our time / that of nn.Linear, by form
    auto: Application  # form used in training, or in inference for this number of vectors


def cases(
    structures: Sequence[tuple[str, Mapping[str, Any]]],
    orders: Sequence[int] = (),
    shapes: Sequence[Shape] = (),
    dtype: torch.dtype = torch.float32,
) -> tuple[list[Case], list[str]]:
    """Return the cases to measure, and a reason for each other one.

    Left out are structures that do not fit a shape, and those without half precision if ``dtype`` is below single.

    Args:
        structures: Names of structures with options.
        orders: Values of n, for structures that have it and are given without; :data:`ORDERS` if empty.
        shapes: Shapes; :data:`SHAPES` if empty.
        dtype: Data type of the measurement.

    Raises:
        PhmrunError: A structure or an option is unknown.
    """
    fitting, left_out = [], []
    for shape, (name, options) in itertools.product(shapes or SHAPES, structures):
        checked = checked_options(f"layer {name!r}", options_of(name), options)
        ordered = "n" in options_of(name).model_fields and "n" not in checked
        for extra in [{"n": n} for n in orders or ORDERS] if ordered else [{}]:
            case, structure = Case(name, {**extra, **checked}, shape), STRUCTURES.get(name)
            reason = structure.misfit(shape[1], shape[0], **case.options)
            if dtype.itemsize < 4 and not structure.half_precision:
                reason = "no lower precision than single"
            if reason:
                left_out.append(f"{case.label}, {shape[0]} → {shape[1]}: {reason}")
            else:
                fitting.append(case)
    return fitting, left_out


def kernels(candidates: Sequence[Case]) -> Choice:
    """Choose the library of float32 products for candidates and ``nn.Linear`` alike, as training does with ``auto``.

    So dense matrices have the library that they are trained with. On a GPU, products are in float32, without TF32.
    """
    shapes = {case.shape for case in candidates}
    return choose("auto", lambda: products_of(nn.ModuleList(nn.Linear(*shape) for shape in shapes)))


def measure(
    candidates: Sequence[Case],
    *,
    batches: Sequence[int] = (),
    training: Sequence[int] = (),
    rounds: int = 15,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    at_least: float = MEASUREMENT,
) -> Iterator[Measured]:
    """Yield the times of each candidate and of ``nn.Linear``.

    Each setting gives one result: training, inference with hot weights, and with cold weights, on each number of
    vectors. Times are medians over rounds. Candidates and reference alternate within a round. Inference measures each
    form of a candidate, training only the form that it uses. Below single precision, training runs under autocast and
    inference uses weights of that type.

    Args:
        candidates: Cases to measure.
        batches: Input vectors per call of inference; :data:`BATCHES` if empty.
        training: Input vectors per training step; :data:`TRAINING` if empty.
        rounds: Measurements of each.
        device: Device of the measurement.
        dtype: Data type.
        at_least: Minimum seconds of a measurement.
    """
    batches, training, place = batches or BATCHES, training or TRAINING, torch.device(device)
    beyond = math.ceil(last_level_cache() * BEYOND_CACHE)

    def precision() -> AbstractContextManager[Any]:
        """Return autocast below single precision, else a context without effect."""
        return torch.autocast(place.type, dtype) if dtype.itemsize < 4 else nullcontext()

    times = functools.partial(interleave, rounds=rounds, at_least=at_least, device=place)
    total = len(candidates) * (len(training) + 2 * len(batches))
    with progress("measuring", total, "settings") as advance:
        for case in candidates:
            plain = nn.Linear(*case.shape).to(place)
            module = Linear(*case.shape, structure=case.structure, **case.options).to(place)
            for tokens in training:
                inputs = torch.randn(tokens, case.shape[0], dtype=dtype, device=place, requires_grad=True)
                steps = {REFERENCE: plain, module.application: module}
                timings = times({name: _step(timed, inputs, precision) for name, timed in steps.items()})
                yield _measured(case, "training", "hot", tokens, timings, module.application)
                advance(1)
            for size in (0, beyond):
                held = {name: copies_of(form.to(dtype), size) for name, form in forms(plain, module).items()}
                for tokens in batches:
                    inputs = torch.randn(tokens, case.shape[0], dtype=dtype, device=place)
                    with torch.inference_mode():
                        timings = times({name: _in_turn(copies, inputs) for name, copies in held.items()})
                    auto = module.application
                    if resolve_application("auto", tokens) == "by-size":
                        auto = "factored" if factors_pay(module.structure) else "dense"
                    auto = auto if auto in timings else "dense"
                    yield _measured(case, "inference", "cold" if size else "hot", tokens, timings, auto)
                    advance(1)


def _measured(
    case: Case, mode: Any, weights: Any, tokens: int, timings: Mapping[str, Timing], auto: Application
) -> Measured:
    """Return the result of a setting."""
    seconds = {name: timing.median for name, timing in timings.items()}
    return Measured(case.label, *case.shape, mode, weights, tokens, seconds, ratios(timings, REFERENCE), auto)


def forms(plain: nn.Module, module: nn.Module) -> dict[str, nn.Module]:
    """Return copies for inference: of ``nn.Linear``, the dense form, and packed factors if the structure has them."""
    packed = for_inference(module, "factored")
    factored = {} if isinstance(packed, nn.Linear) else {"factored": packed}
    reference = copy.deepcopy(plain).eval().requires_grad_(False)
    return {REFERENCE: reference, "dense": folded(module), **factored}


def copies_of(module: nn.Module, size: int) -> list[nn.Module]:
    """Return deep copies of a module that take at least ``size`` bytes together.

    There is at least one copy and at most ``MOST_COPIES``, even if these take less.
    """
    module_bytes = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    return [copy.deepcopy(module) for _ in range(min(max(1, math.ceil(size / module_bytes)), MOST_COPIES))]


def _in_turn(modules: Sequence[nn.Module], inputs: Tensor) -> Callable[[], Tensor]:
    """Return a function that calls the next module each time, after the last one the first."""
    endless = itertools.cycle(modules)
    return lambda: next(endless)(inputs)


def _step(module: nn.Module, inputs: Tensor, precision: Precision) -> Callable[[], None]:
    """Return a function that runs forward and backward, then discards the gradients.

    The outputs' gradient is drawn once. Gradients of parameters and of ``inputs`` are set to None.
    """
    with torch.no_grad(), precision():
        gradient = torch.randn_like(module(inputs))

    def step() -> None:
        with precision():
            outputs = module(inputs)
        outputs.backward(gradient)
        module.zero_grad(set_to_none=True)
        inputs.grad = None

    return step
