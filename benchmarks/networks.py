"""Whole Transformers with each structure in their blocks against the dense one: an optimizer step, and decoding.

Weights and sentences are random. All decode as many tokens as the sentences have: every network makes the same steps.
Ratios are to the dense network's time: below 1 is faster. Multiplications are those of weight matrices, for one token.

``python -m benchmarks.networks --preset small --preset base --threads 1``
``python -m benchmarks.networks --layer "phm n=4" --layer "monarch budget=1/8" --length 40``
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from benchmarks.arguments import parser, run, start, structure_of
from benchmarks.systems import Ours, Sources, decoding
from phmrun.bench.timing import interleave
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.engine.counting import count_parameters
from phmrun.errors import PhmrunError
from phmrun.experiments import resolve_request
from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.data import ParallelBatch
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule, build_sequence_to_sequence
from phmrun.progress import progress
from phmrun.registry import STRUCTURES, load_plugins
from phmrun.text.vocabulary import BOS, EOS

BEAM = 5
TRAINING = "training"


@dataclass(frozen=True)
class Measured:
    """A measured network."""

    preset: str  # its sizes
    layer: str  # structure and options of the blocks' matrices
    parameters: int  # of the whole network
    multiplications: int  # of its weight matrices, for one token
    seconds: dict[str, float]  # median time of a training step and of decoding, by what is done
    ratios: dict[str, float]  # these in parts of the dense network's, measured in the same rounds


@dataclass(frozen=True)
class Amount:
    """Extent of the measurement."""

    vocabulary: int = 8000  # tokens that there are
    length: int = 24  # tokens of every sentence, of both sides
    tokens: int = 2048  # target tokens of a training step, in whole sentences
    sentences: tuple[int, ...] = (1, 64)  # numbers of sentences that are decoded at a time
    rounds: int = 5  # measurements of each network; results are medians over them


def measure(
    preset: str, configs: Mapping[str, SequenceToSequenceExperiment], amount: Amount, *, device: str = "cpu"
) -> list[Measured]:
    """Measures networks of some sizes in the same rounds, by structure and options, the first the dense one."""
    sizes = (amount.vocabulary, amount.vocabulary)
    systems = {
        label: Ours(build_sequence_to_sequence(config, *sizes), config.decoding, device)
        for label, config in configs.items()
    }
    phases: dict[str, Callable[[Ours], Callable[[], None]]] = {}
    for size in amount.sentences:
        batch = Sources(_sentences(size, amount).to(device), [amount.length] * size, True)
        phases[f"batch {size}"] = partial(decoding, batches=[batch], beam=BEAM)
    phases[TRAINING] = optimizer_steps(amount, device)
    timings = {}
    with progress("measuring", len(phases), "phases") as advance:
        for name, prepare in phases.items():
            calls = {label: prepare(system) for label, system in systems.items()}
            timings[name] = interleave(calls, rounds=amount.rounds, device=device)
            advance(1)
    reference = next(iter(configs))
    measured = []
    for label, config in configs.items():
        counts = count_parameters(config, sizes)
        seconds = {name: timing[label].median for name, timing in timings.items()}
        shares = {name: timing[label].ratio(timing[reference]) for name, timing in timings.items()}
        measured.append(Measured(preset, label, counts["total"], counts["multiplications"], seconds, shares))
    return measured


def optimizer_steps(amount: Amount, device: str) -> Callable[[Ours], Callable[[], None]]:
    """Return a function that prepares a system's optimizer steps on one batch of random sentences."""
    sentences = max(1, amount.tokens // amount.length)
    source, wanted = (_sentences(sentences, amount, seed).to(device) for seed in (1, 2))
    target = torch.cat([torch.full_like(wanted[:, :1], BOS), wanted[:, :-1]], dim=1)
    units = wanted.numel()
    positions = torch.arange(units, device=device)
    batch = ParallelBatch(source, None, target, positions, wanted.flatten(), units, units)

    def prepare(system: Ours) -> Callable[[], None]:
        module: SequenceToSequenceModule = system.module.train()
        optimizer = module.make_optimizer(module.network)
        # Training leaves this to a scheduler; without one the rate would be 1, by which the schedule is multiplied.
        for group in optimizer.param_groups:
            group["lr"] = module.schedule(1)

        def step() -> None:
            (module.loss(batch).total / units).backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    return prepare


def _sentences(count: int, amount: Amount, seed: int = 0) -> torch.Tensor:
    """Random ones that all end in the end token, ``[count, length]``."""
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.randint(EOS + 1, amount.vocabulary, (count, amount.length), generator=drawn)
    tokens[:, -1] = EOS
    return tokens


def configurations(
    preset: str,
    wanted: list[tuple[str, dict[str, Any]]],
    vocabulary: int,
    further: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Configs of all networks that can be built, by structure and options, the dense one first.

    ``further`` are settings of all by dotted key, above those of the preset.
    """
    configs: dict[str, Any] = {}
    left_out = []
    for name, options in [("dense", {}), *wanted]:
        label = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
        settings = [("model.preset", preset, "--preset"), ("layer.structure", name, "--layer")]
        settings += [(f"layer.{key}", value, "--layer") for key, value in options.items()]
        settings += [(key, value, "--width") for key, value in (further or {}).items()]
        config = resolve_request("nmt", settings).resolved.config
        try:
            count_parameters(config, (vocabulary, vocabulary))
            configs[label] = config
        except PhmrunError as error:
            left_out.append(f"{preset}, {label}: {error.what}")
    for reason in left_out:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    # dense itself always fits, so these are all that were asked for
    if wanted and len(left_out) == len(wanted):
        raise PhmrunError(f"no layer fits: {left_out[-1]}", where="--layer")
    return configs


def print_preset(rows: list[Measured], tokens: int) -> None:
    """Print a line per network: the dense one's times, the others' ratios to them."""
    dense, lines = rows[0], []
    for row in rows:
        multiplications = f"{row.multiplications / 1e6:,.1f} M"
        times = [
            measuring.duration(row.seconds[name]) if row is dense else f"{row.ratios[name]:.2f}" for name in row.seconds
        ]
        lines.append((row.layer, f"{row.parameters:,}", multiplications, *times))
    heads = [name if name.startswith("train") else f"beam 5, {name}" for name in dense.seconds]
    columns = ("layer", "parameters", "multiplications", *heads)
    console.print_table(columns, lines, title=f"\n{dense.preset}: a step of {tokens:,} tokens, and decoding")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure an optimizer step and beam search with a beam of 5."""
    options = parser(__doc__, repeats=5)
    options.add_argument("--preset", action="append", metavar="NAME", help="sizes of the task nmt (default: small)")
    options.add_argument("--layer", action="append", metavar="NAME", help="structure with options (default: all)")
    options.add_argument("--vocabulary", type=int, default=8000, help="tokens of the vocabulary")
    options.add_argument("--length", type=int, default=24, help="tokens of every sentence, on both sides")
    options.add_argument("--tokens", type=int, default=2048, help="target tokens of a training step")
    options.add_argument("--batch-size", action="append", metavar="N,…", help="sentences decoded at a time (1,64)")
    options.add_argument("--plugin", action="append", default=[], help="file of your own layers")
    args = options.parse_args(arguments)
    load_plugins(args.plugin)
    wanted = [structure_of(text) for text in args.layer or STRUCTURES.names()]
    sizes = tuple(measuring.numbers(args.batch_size, "--batch-size")) or Amount.sentences
    amount = Amount(args.vocabulary, args.length, args.tokens, sizes, args.repeats)
    presets = measuring.listed(*args.preset or ()) or ["small"]
    # All configurations are resolved before the first measurement, which takes long.
    plans = [(name, configurations(name, wanted, args.vocabulary)) for name in presets]
    facts = start(args)
    groups = [measure(name, configs, amount, device=facts["device"]) for name, configs in plans]
    if args.json:
        console.print_json({"machine": facts, "rows": [asdict(row) for rows in groups for row in rows]})
        return
    measuring.print_machine(facts)
    for rows in groups:
        print_preset(rows, args.tokens)


if __name__ == "__main__":
    run(main)
