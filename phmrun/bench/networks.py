"""Whole Transformers with each structure in their blocks against the dense one: an optimizer step, and decoding.

Weights and sentences are random. All decode as many tokens as the sentences have: everybody makes the same steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch

from phmrun.bench.machine import waiter
from phmrun.bench.systems import Ours, Sources, decoding
from phmrun.bench.timing import Result, interleave
from phmrun.engine.counting import count_parameters
from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.data import ParallelBatch
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule, build_sequence_to_sequence
from phmrun.families.sequence_to_sequence.predictor import search_from
from phmrun.progress import progress
from phmrun.text.vocabulary import BOS, EOS

BEAM = 5
TRAINING = "training"


@dataclass(frozen=True)
class Measured(Result):
    """One network."""

    preset: str  # its sizes
    layer: str  # structure and options of the blocks' matrices
    parameters: int  # of the whole network
    multiplications: int  # of its weight matrices, for one token
    seconds: dict[str, float]  # median time of a training step and of decoding, by what is done
    ratios: dict[str, float]  # these in parts of the dense network's, measured in the same rounds


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

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
        label: Ours(build_sequence_to_sequence(config, *sizes), search_from(config.decoding), device)
        for label, config in configs.items()
    }
    phases: dict[str, Callable[[Ours], Callable[[], None]]] = {}
    for size in amount.sentences:
        batch = Sources(_sentences(size, amount).to(device), [amount.length] * size, True)
        phases[f"batch {size}"] = partial(decoding, batches=[batch], beam=BEAM)
    phases[TRAINING] = _training(amount, device)
    timings = {}
    with progress("measuring", len(phases), "phases") as advance:
        for name, prepare in phases.items():
            calls = {label: prepare(system) for label, system in systems.items()}
            timings[name] = interleave(calls, rounds=amount.rounds, settle=waiter(device))
            advance(1)
    reference = next(iter(configs))
    measured = []
    for label, config in configs.items():
        counts = count_parameters(config, sizes)
        seconds = {name: timing[label].median for name, timing in timings.items()}
        shares = {name: timing[label].ratio(timing[reference]) for name, timing in timings.items()}
        measured.append(Measured(preset, label, counts["total"], counts["multiplications"], seconds, shares))
    return measured


def _training(amount: Amount, device: str) -> Callable[[Ours], Callable[[], None]]:
    """Optimizer steps on one batch."""
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
