"""Speed of structured modules against torch's dense ones, in inference and training.

Inference is measured in every form that a module has for it. Weights are *hot* if all calls use the same module. They
are *cold* if each call uses another copy, and the copies exceed the last-level cache together. A cold call waits for
memory, as inside a large model, for every candidate alike.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from phmrun.bench.machine import last_level_cache
from phmrun.bench.modules import Batch, Case, Form, ModuleKind, frozen
from phmrun.bench.timing import MEASUREMENT, Timing, interleave, ratios
from phmrun.errors import PhmrunError
from phmrun.kernels import Choice, choose, products_of
from phmrun.layers import Linear
from phmrun.progress import progress

BEYOND_CACHE = 1.25  # total size of cold copies / last-level cache
MOST_COPIES = 8192  # maximum number of cold copies; layers of a few kilobytes therefore stay warm
Mode = Literal["inference", "training"]
Precision = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Measured:
    """Times of one candidate in one setting."""

    module: str  # kind of module
    layer: str  # structure and options
    in_features: int  # size of an input vector
    out_features: int  # size of an output vector
    mode: Mode  # forward only, or forward and backward with the gradients of inputs and parameters
    weights: Literal["hot", "cold"]  # "hot": the weights were in the cache
    batch: Batch  # input vectors per call: tokens, or sequences and their length
    reference: str  # torch module that ours replaces
    seconds: dict[str, float]  # median seconds per call: of the reference, and of each form of ours
    ratios: dict[str, float]  # our time / the reference's, by form
    auto: Form  # form used in training, or in inference for this batch
    gflops: dict[str, float]  # 10⁹ floating-point operations per second by form, in training of linear maps; else empty


def kernels(candidates: Sequence[Case]) -> Choice:
    """Choose the library of float32 products for candidates and references alike, as training does with ``auto``.

    So dense matrices have the library that they are trained with. On a GPU, products are in float32, without TF32.
    """
    kinds = {case.shape: case.kind for case in candidates}
    return choose("auto", lambda: products_of(nn.ModuleList(kind.plain(shape) for shape, kind in kinds.items())))


def check_batches(kind: ModuleKind, batches: Sequence[Batch], where: str) -> None:
    """Check that batches of the user have the number of dimensions that a kind of module reads.

    Raises:
        PhmrunError: A batch has another number of dimensions; ``where`` names the option.
    """
    for batch in batches:
        if len(batch) != len(kind.batches[0]):
            form, text = ("x".join(map(str, size)) for size in (kind.batches[0], batch))
            raise PhmrunError(f"{text!r} is no batch of {kind.name}", where=where, hint=f"Write it like {form}.")


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
    """Yield the times of each candidate and of its reference.

    Each setting gives one result: training on each batch, inference with hot weights, and, for kinds that have it,
    inference with cold weights. Times are medians over rounds. Candidates and reference alternate within a round.
    Inference measures each form of a candidate, training only the form that it uses. ``auto`` is "dense" if the
    automatic form is not among those measured. Below single precision, training runs under autocast and inference uses
    weights of that type.

    Args:
        candidates: Cases to measure.
        batches: Batches of inference; the kind's own if empty.
        training: Batches of training; the kind's own if empty.
        rounds: Measurements of each.
        device: Device of the measurement.
        dtype: Data type.
        cache: Bytes of the last-level cache; detected if None.
        at_least: Minimum seconds of a measurement.
    """
    beyond = math.ceil((last_level_cache() if cache is None else cache) * BEYOND_CACHE)
    plans = [list(_settings(planned.kind, batches, training, beyond)) for planned in candidates]
    place = torch.device(device)

    def precision() -> AbstractContextManager[Any]:
        """Return autocast below single precision, else a context without effect."""
        return torch.autocast(place.type, dtype) if dtype.itemsize < 4 else nullcontext()

    def times(calls: Mapping[str, Callable[[], object]]) -> dict[str, Timing]:
        """Time the calls in turn; return the timings by name."""
        return interleave(calls, rounds=rounds, at_least=at_least, device=place)

    with progress("measuring", sum(map(len, plans)), "settings") as advance:
        for candidate, settings in zip(candidates, plans, strict=True):
            kind = candidate.kind
            plain, module = (built.to(device) for built in (kind.plain(candidate.shape), candidate.build()))
            for (mode, size), group in itertools.groupby(settings, key=lambda setting: setting[:2]):
                forms: dict[str, list[nn.Module]] = {}
                if mode == "inference":
                    held = {kind.reference: frozen(plain), **candidate.forms(module)}
                    forms = {name: copies_of(form.to(dtype), size) for name, form in held.items()}
                for _, _, batch in group:
                    drawn = kind.draw(candidate.shape, batch, dtype)
                    # Detached before it moves, since a copy on a GPU would be no leaf and keep no gradient.
                    inputs = drawn.detach().to(place).requires_grad_(drawn.requires_grad)
                    if mode == "training":
                        auto = candidate.auto(module)
                        steps = {kind.reference: plain, auto: module}
                        timings = times({name: _step(kind, timed, inputs, precision) for name, timed in steps.items()})
                    else:
                        auto = candidate.auto(module, math.prod(batch))
                        with torch.inference_mode():
                            timings = times({name: _in_turn(kind, built, inputs) for name, built in forms.items()})
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
                        _gflops(module, math.prod(batch), timings, kind.reference) if mode == "training" else {},
                    )
                    advance(1)


def _gflops(module: nn.Module, tokens: int, timings: Mapping[str, Timing], reference: str) -> dict[str, float]:
    """Return 10⁹ floating-point operations per second of a training step, by name.

    Multiplications of a ``Linear``'s structure and of the dense map, with additions, forward and for both gradients.
    Empty for other modules.
    """
    if not isinstance(module, Linear):
        return {}
    dense = tokens * module.out_features * module.in_features
    ours = module.structure.multiplications(tokens, module.application)
    counts = {name: dense if name == reference else ours for name in timings}
    return {name: 6 * count / timings[name].median / 1e9 for name, count in counts.items()}


def best_gflops(device: torch.device | str, dtype: torch.dtype) -> float:
    """Return 10⁹ floating-point operations per second of a product of two 2048 × 2048 matrices.

    The best of three, by the clock of :func:`interleave`.
    """
    matrix = torch.randn(2048, 2048, device=device, dtype=dtype)
    timing = interleave({"product": lambda: matrix @ matrix}, rounds=3, device=device)["product"]
    return float(2 * 2048**3 / min(timing.seconds) / 1e9)


def _settings(
    kind: ModuleKind, batches: Sequence[Batch], training: Sequence[Batch], beyond: int
) -> Iterator[tuple[Mode, int, Batch]]:
    """Yield (mode, bytes of copies, batch) of each setting, training first.

    The bytes are 0 for hot weights and ``beyond`` for cold ones. Kinds without cold weights get only hot ones.
    """
    yield from (("training", 0, batch) for batch in training or kind.training)
    for size in (0, beyond) if kind.cold else (0,):
        yield from (("inference", size, batch) for batch in batches or kind.batches)


def copies_of(module: nn.Module, size: int) -> list[nn.Module]:
    """Return deep copies of a module that take at least ``size`` bytes together.

    There is at least one copy and at most ``MOST_COPIES``, even if these take less.
    """
    module_bytes = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    return [copy.deepcopy(module) for _ in range(min(max(1, math.ceil(size / module_bytes)), MOST_COPIES))]


def _in_turn(kind: ModuleKind, modules: Sequence[nn.Module], inputs: Tensor) -> Callable[[], Tensor]:
    """Return a function that calls the next module each time, after the last one the first."""
    endless = itertools.cycle(modules)
    return lambda: kind.call(next(endless), inputs)


def _step(
    kind: ModuleKind, module: nn.Module, inputs: Tensor, precision: Precision = nullcontext
) -> Callable[[], None]:
    """Return a function that runs forward and backward, then discards the gradients.

    The outputs' gradient is drawn once. Gradients of parameters and of ``inputs`` are set to None.
    """
    with torch.no_grad(), precision():
        gradient = torch.randn_like(kind.call(module, inputs))

    def step() -> None:
        with precision():
            outputs = kind.call(module, inputs)
        outputs.backward(gradient)
        module.zero_grad(set_to_none=True)
        inputs.grad = None

    return step
