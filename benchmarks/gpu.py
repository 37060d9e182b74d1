"""Training steps of Transformers on a GPU, by structure and arithmetic, and each structure's agreement with a CPU.

A step is one of Adam on one batch of random sentences. Ratios are to the dense network's step in the same arithmetic
and rounds: below 1 is faster. "of peak" is the rate of a step's matrix products over that of one product of two
matrices of side 8,192 in the same arithmetic, measured on the same device. "busy" is the time of the GPU's kernels in
one step over the step's time: well below 1, the GPU waits for the processor to start them. "waits" counts how often a
step makes the processor wait for the GPU. A width W stands for W / 64 heads and feed-forward layers of 4 W.

``python -m benchmarks.gpu --preset base --tokens 8192``
``python -m benchmarks.gpu --preset small --layer "phm n=4" --arithmetic 32 --arithmetic "32 compiled"``
``python -m benchmarks.gpu --width 256,512,1024,2048 --layers 2 --arithmetic bf16 --arithmetic "bf16 compiled"``
``python -m benchmarks.gpu --agreement``
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.arguments import parser, run, start, structure_of
from benchmarks.networks import Amount, configurations, optimizer_steps
from benchmarks.systems import Ours
from phmrun.bench.machine import peak_memory
from phmrun.bench.timing import interleave
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.engine.counting import count_parameters
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.module import build_sequence_to_sequence
from phmrun.kernels.switch import gpu_products
from phmrun.layers import LSTM, Linear
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

ARITHMETIC = ("32", "tf32", "bf16", "32 compiled", "bf16 compiled")
LAYERS = ("phm n=4", "phm n=8", "phm n=16", "monarch", "low-rank budget=1/4")
WAIT = "synchronizing CUDA operation"
"""Part of torch's warning for each wait."""
SIDE = 8192  # of the matrices whose product is the peak; a quarter on a CPU
Step = Callable[[], None]


@dataclass(frozen=True)
class Measured:
    """A network's training step in one arithmetic."""

    preset: str
    layer: str
    arithmetic: str
    parameters: int
    seconds: float  # median of a step
    ratio: float  # to the dense network's in the same arithmetic
    of_peak: float  # rate of its matrix products over that of one large product
    busy: float | None  # share of the step in which the GPU computes; None on a CPU
    waits: int | None  # of the processor for the GPU in one step; None on a CPU
    memory: int  # peak bytes of a step


@dataclass(frozen=True)
class Agreement:
    """A module on the device in float32 beside the CPU in float64: ‖difference‖ / ‖reference‖."""

    module: str
    output: float
    gradient: float  # the largest over the parameters and the input


@contextmanager
def computed(arithmetic: str, device: str) -> Iterator[None]:
    """Compute in this arithmetic inside the block."""
    half = arithmetic.startswith("bf16")
    with gpu_products(arithmetic == "tf32"), torch.autocast(torch.device(device).type, torch.bfloat16, enabled=half):
        yield


def measure(
    preset: str, configs: Mapping[str, SequenceToSequenceExperiment], kind: str, amount: Amount, device: str
) -> list[Measured]:
    """Measure the networks of one preset, the first the dense one, in one arithmetic."""
    sizes, measured = (amount.vocabulary, amount.vocabulary), []
    steps = {label: _step(config, kind, amount, device) for label, config in configs.items()}
    timings = interleave(steps, rounds=amount.rounds, at_least=0.2, device=device)
    dense, peak_rate = timings[next(iter(configs))], peak_of(kind, device)
    for label, step in steps.items():
        seconds, counts = timings[label].median, count_parameters(configs[label], sizes)["total"]
        with peak_memory(device) as peak:
            step()
            memory = peak()
        rate = _operations(configs[label], kind, amount, device) / seconds
        busy, waits = _watched(step, seconds) if torch.device(device).type == "cuda" else (None, None)
        measured.append(
            Measured(
                preset, label, kind, counts, seconds, timings[label].ratio(dense), rate / peak_rate, busy, waits, memory
            )
        )
    return measured


def _step(config: SequenceToSequenceExperiment, kind: str, amount: Amount, device: str) -> Step:
    """Return a function that trains a new network for one step in this arithmetic."""
    sizes = (amount.vocabulary, amount.vocabulary)
    system = Ours(build_sequence_to_sequence(config, *sizes), config.decoding, device)
    if kind.endswith("compiled"):
        system.module.network.compile()
    step = optimizer_steps(amount, device)(system)

    def arithmetic_step() -> None:
        with computed(kind, device):
            step()

    return arithmetic_step


def peak_of(kind: str, device: str) -> float:
    """Return the rate of a product of two large square matrices in this arithmetic, in operations per second."""
    side = SIDE if torch.device(device).type == "cuda" else SIDE // 4
    first, second = torch.randn(2, side, side, device=device)

    def multiply() -> None:
        with computed(kind, device):
            first @ second

    if kind.startswith("bf16"):
        first, second = first.bfloat16(), second.bfloat16()
    timing = interleave({"product": multiply}, rounds=5, at_least=0.2, device=device)
    return 2 * side**3 / timing["product"].median


def _operations(config: SequenceToSequenceExperiment, kind: str, amount: Amount, device: str) -> int:
    """Return the operations of the matrix products in one step of a network that is not compiled."""
    step = _step(config, kind.removesuffix(" compiled"), amount, device)
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def _watched(step: Step, seconds: float) -> tuple[float, int]:
    """Return the share of a step of so many seconds in which the GPU computes, and the number of waits."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        step()
        torch.cuda.synchronize()
    # A kernel is listed by itself and within the operation that launched it; only the latter is counted.
    events = [event for event in recorded.key_averages() if event.device_type == DeviceType.CPU]
    kernels = sum(event.self_device_time_total for event in events) / 1e6
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            step()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return kernels / seconds, sum(WAIT in str(warning.message) for warning in caught)


def agreement(device: str, width: int = 240, tokens: int = 96) -> list[Agreement]:
    """Compare each structure that fits these sizes, and the LSTM, with float64 on the CPU."""
    modules: dict[str, nn.Module] = {}
    for name in STRUCTURES.names():
        for application in ("dense", "factored"):
            try:
                layer = Linear(width, width, structure=name, application=application)
            except PhmrunError:
                continue
            modules[f"{name}, {application}"] = layer
    modules |= {f"lstm, {name}": LSTM(width, width, batch_first=True, structure=name) for name in ("dense", "phm")}
    return [_agreement(name, module, torch.randn(4, tokens // 4, width), device) for name, module in modules.items()]


def _agreement(name: str, module: nn.Module, inputs: torch.Tensor, device: str) -> Agreement:
    """Compare a module's output and gradients."""
    exact = _results(deepcopy(module).double(), inputs.double())
    with computed("32", device):
        got = _results(deepcopy(module).to(device), inputs.to(device))
    errors = [
        float((mine.cpu().double() - its).norm() / its.norm().clamp_min(1e-300))
        for mine, its in zip(got, exact, strict=True)
    ]
    return Agreement(name, errors[0], max(errors[1:]))


def _results(module: nn.Module, inputs: torch.Tensor) -> list[torch.Tensor]:
    """Return the output, and the gradients of its sum of squares by the input and all parameters that learn."""
    inputs = inputs.requires_grad_()
    output = module(inputs)
    output = output[0] if isinstance(output, tuple) else output
    learned = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return [output.detach(), *torch.autograd.grad(output.square().sum(), [inputs, *learned])]


def of_width(width: int, layers: int) -> dict[str, Any]:
    """Return the settings of a Transformer of this width, by dotted key."""
    sizes = {"width": width, "feedforward": 4 * width, "heads": max(1, width // 64)}
    return {
        f"model.{key}": value for key, value in {**sizes, "encoder_layers": layers, "decoder_layers": layers}.items()
    }


def print_steps(rows: Sequence[Measured], tokens: int) -> None:
    """Print a line per network of one arithmetic."""
    lines = [
        (
            row.layer,
            f"{row.parameters:,}",
            measuring.duration(row.seconds),
            f"{row.ratio:.2f}",
            f"{row.of_peak:.0%}",
            "" if row.busy is None else f"{row.busy:.2f}",
            "" if row.waits is None else str(row.waits),
            f"{row.memory / 2**20:,.0f}",
        )
        for row in rows
    ]
    columns = ("layer", "parameters", "step", "/ dense", "of peak", "busy", "waits", "peak MiB")
    title = f"\n{rows[0].preset}, {rows[0].arithmetic}: a training step of {tokens:,} target tokens"
    console.print_table(columns, lines, title=title)


def print_agreement(rows: Sequence[Agreement]) -> None:
    """Print a line per module."""
    lines = [(row.module, f"{row.output:.1e}", f"{row.gradient:.1e}") for row in rows]
    title = "\nfloat32 on the device beside float64 on the CPU: ‖difference‖ / ‖reference‖"
    console.print_table(("module", "output", "gradients"), lines, title=title)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure training steps, or compare results with ``--agreement``."""
    options = parser(__doc__, repeats=5)
    options.add_argument("--preset", action="append", metavar="NAME", help="sizes of the task nmt (default: base)")
    options.add_argument("--width", metavar="W,…", help="widths of the blocks, instead of presets")
    options.add_argument("--layers", type=int, default=6, help="layers of encoder and decoder at a width")
    options.add_argument("--layer", action="append", metavar="NAME", help=f"structure (default: {', '.join(LAYERS)})")
    options.add_argument("--arithmetic", action="append", choices=ARITHMETIC, help="default: all")
    options.add_argument("--vocabulary", type=int, default=8000, help="tokens of the vocabulary")
    options.add_argument("--length", type=int, default=32, help="tokens of every sentence, on both sides")
    options.add_argument("--tokens", type=int, default=8192, help="target tokens of a training step")
    options.add_argument("--agreement", action="store_true", help="compare results with the CPU's instead")
    args = options.parse_args(arguments)
    facts = start(args)
    if args.agreement:
        compared = agreement(facts["device"])
        if args.json:
            console.print_json({"machine": facts, "rows": [asdict(row) for row in compared]})
            return
        measuring.print_machine(facts)
        print_agreement(compared)
        return
    wanted = [structure_of(text) for text in args.layer or LAYERS]
    amount = Amount(args.vocabulary, args.length, args.tokens, (), args.repeats)
    kinds = args.arithmetic or ARITHMETIC
    widths = [int(text) for text in measuring.listed(args.width)]
    plans: dict[str, dict[str, Any]] = {f"width {width}": of_width(width, args.layers) for width in widths}
    plans |= {name: {} for name in args.preset or ([] if widths else ["base"])}
    presets = {
        name: configurations("base" if settings else name, wanted, args.vocabulary, settings)
        for name, settings in plans.items()
    }
    if not args.json:
        measuring.print_machine(facts)
    measured = []
    with progress("measuring", len(presets) * len(kinds), "arithmetics") as advance:
        for name, kind in product(presets, kinds):
            rows = measure(name, presets[name], kind, amount, facts["device"])
            measured += rows
            advance(1)
            if not args.json:  # at once: compiling the next ones takes minutes
                print_steps(rows, args.tokens)
    if args.json:
        console.print_json({"machine": facts, "rows": [asdict(row) for row in measured]})


if __name__ == "__main__":
    run(main)
