"""A structured linear map against ``nn.Linear``: inference on few and many tokens, and training.

Inference is measured with what inference uses: ``for_inference`` with either application. Weights are *hot* when the
same layer is called again and again, and *cold* when each call takes another copy of it, out of so many that together
they exceed the last-level cache: then the call waits for memory, as it does inside a large model. That holds for every
candidate alike, however small its copies are.
"""

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn

from phmrun.bench.machine import last_level_cache, waiter
from phmrun.bench.timing import interleave
from phmrun.errors import PhmrunError, unknown
from phmrun.layers import Linear, folded, for_inference, options_of
from phmrun.layers.inference import resolve_application
from phmrun.layers.linear import Application
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

REFERENCE = "nn.Linear"
APPLICATIONS: tuple[Application, ...] = ("dense", "factored")
ORDERS = (2, 4, 8, 16)
SHAPES = ((512, 512), (512, 2048), (2048, 512))
TOKENS = (1, 8, 64, 4096)
TRAINING_TOKENS = 4096
MEASUREMENT = 0.01
"""Seconds that a measurement lasts at least."""
BEYOND_CACHE = 1.25
"""Cold copies take so many times the last-level cache …"""
MOST_COPIES = 8192
"""… but are no more than this: layers of a few kilobytes are never cold for long."""


class Case(NamedTuple):
    """A structure with its options, at one size.

    Attributes:
        structure: Its registered name.
        options: Its options.
        in_features: Size of an input vector.
        out_features: Size of an output vector.
    """

    structure: str
    options: Mapping[str, Any]
    in_features: int
    out_features: int

    @property
    def label(self) -> str:
        """Name and options: ``phm n=8``."""
        return " ".join([self.structure, *(f"{name}={value}" for name, value in self.options.items())])

    def build(self) -> Linear:
        """A newly drawn layer."""
        return Linear(self.in_features, self.out_features, structure=self.structure, **self.options)


@dataclass(frozen=True)
class Measured:
    """One line of the result.

    Attributes:
        layer: Structure and options.
        in_features: Size of an input vector.
        out_features: Size of an output vector.
        mode: Forward only, or forward and backward with the gradients of inputs, weights and bias.
        weights: Whether the weights were in the cache.
        tokens: Input vectors per call.
        seconds: Median time per call: of ``nn.Linear``, and of the layer under each application that it has.
        ratios: That of the layer in parts of ``nn.Linear``'s, by application.
        auto: The application that ``auto`` chooses for so many tokens.
    """

    layer: str
    in_features: int
    out_features: int
    mode: Literal["inference", "training"]
    weights: Literal["hot", "cold"]
    tokens: int
    seconds: dict[str, float]
    ratios: dict[str, float]
    auto: str

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self)


def cases(
    structures: Sequence[tuple[str, Mapping[str, Any]]], orders: Sequence[int], shapes: Sequence[tuple[int, int]]
) -> tuple[list[Case], list[str]]:
    """What to measure, and why some of it is left out.

    A structure that has an option ``n`` is measured for each of ``orders`` unless n is given; any other once.

    Args:
        structures: Names with options.
        orders: Values of ``n``.
        shapes: (in_features, out_features).

    Raises:
        PhmrunError: There is no such structure or option.
    """
    found, left_out = [], []
    for shape in shapes:
        for name, options in structures:
            checked = checked_options(name, options)
            ordered = any(option.name == "n" for option in options_of(name)) and "n" not in checked
            for extra in [{"n": n} for n in orders] if ordered else [{}]:
                case = Case(name, {**extra, **checked}, *shape)
                reason = STRUCTURES.get(name).check(case.out_features, case.in_features, **case.options)
                if reason:
                    left_out.append(f"{case.label}, {case.in_features} → {case.out_features}: {reason}")
                else:
                    found.append(case)
    return found, left_out


def checked_options(structure: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a structure, each of the type that it takes.

    Raises:
        PhmrunError: There is no such structure or option, or the value is none of its.
    """
    known = {option.name: option for option in options_of(structure)}
    checked = {}
    for name, value in options.items():
        if name not in known:
            raise unknown(f"option of layer {structure!r}", name, known)
        try:
            checked[name] = TypeAdapter(known[name].annotation).validate_python(value)
        except ValidationError as error:
            raise PhmrunError(f"{value!r}: {error.errors()[0]['msg']}", where=f"{structure}.{name}") from error
    return checked


def measure(
    chosen: Sequence[Case],
    *,
    tokens: Sequence[int] = TOKENS,
    training_tokens: Sequence[int] = (TRAINING_TOKENS,),
    rounds: int = 15,
    device: torch.device | str = "cpu",
    cache: int | None = None,
    at_least: float = MEASUREMENT,
) -> Iterator[Measured]:
    """Measures each case against an ``nn.Linear`` of its size, in the same rounds.

    Args:
        chosen: From :func:`cases`.
        tokens: Input vectors per call of inference.
        training_tokens: The same of training.
        rounds: Measurements of each candidate; results are medians over them.
        device: Where to compute.
        cache: Bytes of the last-level cache; the machine's own unless given.
        at_least: Seconds that one measurement lasts at least.
    """
    beyond = math.ceil((last_level_cache() if cache is None else cache) * BEYOND_CACHE)
    total = len(chosen) * (2 * len(tokens) + len(training_tokens))
    with progress("measuring", total, "settings") as advance:
        for case in chosen:
            linear, layer = nn.Linear(case.in_features, case.out_features).to(device), case.build().to(device)
            for count in training_tokens:
                yield _training(case, linear, layer, count, rounds, at_least)
                advance(1)
            forms = inference_forms(linear, layer)
            for bytes_of_copies in (0, beyond):
                copies = {name: copies_of(form, bytes_of_copies) for name, form in forms.items()}
                for count in tokens:
                    yield _inference(case, copies, count, rounds, at_least)
                    advance(1)


def inference_forms(linear: nn.Linear, layer: Linear) -> dict[str, nn.Module]:
    """The candidates: ``nn.Linear``, and the layer under each application that differs."""
    forms = {REFERENCE: for_inference(linear), "dense": folded(layer)}
    factored: nn.Module = for_inference(layer, "factored")
    if not isinstance(factored, nn.Linear):
        forms["factored"] = factored
    return forms


def copies_of(layer: nn.Module, size: int) -> list[nn.Module]:
    """As many copies as take ``size`` bytes together, at least one and at most ``MOST_COPIES``."""
    each = sum(parameter.numel() * parameter.element_size() for parameter in layer.parameters())
    return [copy.deepcopy(layer) for _ in range(min(max(1, math.ceil(size / each)), MOST_COPIES))]


def _inference(
    case: Case, copies: Mapping[str, Sequence[nn.Module]], tokens: int, rounds: int, at_least: float
) -> Measured:
    """Forward only."""
    device = next(copies[REFERENCE][0].parameters()).device
    inputs = torch.randn(tokens, case.in_features, device=device)
    with torch.inference_mode():
        candidates = {name: _in_turn(layers, inputs) for name, layers in copies.items()}
        timings = interleave(candidates, rounds=rounds, at_least=at_least, settle=waiter(device))
    linear = timings.pop(REFERENCE)
    preferred = STRUCTURES.get(case.structure).application
    auto = "factored" if preferred == "factored" else resolve_application("auto", tokens)
    return Measured(
        case.label,
        case.in_features,
        case.out_features,
        "inference",
        "hot" if len(copies[REFERENCE]) == 1 else "cold",
        tokens,
        {REFERENCE: linear.median, **{name: timing.median for name, timing in timings.items()}},
        {name: timing.ratio(linear) for name, timing in timings.items()},
        auto if auto in timings else "dense",
    )


def _in_turn(layers: Sequence[nn.Module], inputs: Tensor) -> Callable[[], Tensor]:
    """Calls the next of the layers."""
    endless = itertools.cycle(layers)
    return lambda: next(endless)(inputs)


def _training(case: Case, linear: nn.Module, layer: Linear, tokens: int, rounds: int, at_least: float) -> Measured:
    """Forward and backward, under the application that training uses."""
    device = next(linear.parameters()).device
    inputs = torch.randn(tokens, case.in_features, device=device, requires_grad=True)
    gradient = torch.randn(tokens, case.out_features, device=device)
    candidates = {REFERENCE: _step(linear, inputs, gradient), layer.application: _step(layer, inputs, gradient)}
    timings = interleave(candidates, rounds=rounds, at_least=at_least, settle=waiter(device))
    return Measured(
        case.label,
        case.in_features,
        case.out_features,
        "training",
        "hot",
        tokens,
        {name: timing.median for name, timing in timings.items()},
        {layer.application: timings[layer.application].ratio(timings[REFERENCE])},
        layer.application,
    )


def _step(layer: nn.Module, inputs: Tensor, gradient: Tensor) -> Callable[[], None]:
    """One forward and one backward, the gradients thrown away as an optimizer step does."""

    def step() -> None:
        layer(inputs).backward(gradient)
        layer.zero_grad(set_to_none=True)
        inputs.grad = None

    return step
