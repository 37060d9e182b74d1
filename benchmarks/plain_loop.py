"""CPU time and memory of ``phmrun train --model hf`` beside a plain loop of torch and transformers.

All train the same network from the same weights on the same batches with Adam, each in a process of its own, by turns,
one thread. The plain loop gets its batches as tensors that were prepared before, so that reading text costs it nothing.
phmrun trains twice: with torch's own matrix products, as the loop does, and with those that it chooses itself.

``python -m benchmarks.plain_loop`` trains a Llama of 3 million parameters in its blocks on WikiText-2;
``python -m benchmarks.plain_loop --path DIR`` fine-tunes the network of a folder on SciTail.
"""

import os
import re
import statistics
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.versions import ROOT, Training, take_turns

LLAMA = {
    "model.network": "hf",
    "model.preset": "llama-3m",
    "data.name": "wikitext-2",
    "data.vocabulary.kind": "bpe",
    "batch.size": 8,
    "batch.length": 128,
}
FINE_TUNING = {"model.network": "hf", "data.name": "scitail", "batch.size": 16, "training.optimizer.lr": 5e-5}
CLIP = 1.0  # norm of the gradients
START, BATCHES = "model", "batches.pt"


def plain_loop(writing: int, steps: int, folder: Path) -> None:
    """Train the network of a folder on its batches, by turns. Imports nothing of phmrun."""
    import torch
    import transformers

    batches, rates, adam, state = torch.load(folder / BATCHES)
    config = transformers.AutoConfig.from_pretrained(folder / START)
    kind = getattr(transformers, config.architectures[0])
    model = kind.from_pretrained(folder / START, dtype=torch.float32).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, fused=True, **adam)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rates[min(step, len(rates) - 1)])
    take_turns(writing, steps)
    torch.set_rng_state(state)
    for inputs, labels in batches:
        logits = model(**inputs).logits.flatten(0, -2)
        torch.nn.functional.cross_entropy(logits, labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()


def prepare(task: str, settings: dict[str, Any], count: int, folder: Path) -> None:
    """Write the first weights, batches and rates of a run, and the random state of its first step, for the loop."""
    import torch

    from phmrun.engine.data import build_data
    from phmrun.engine.module import build_module, seed_everything
    from phmrun.experiments import resolve_request

    config = resolve_request(task, [(key, value, "--set") for key, value in settings.items()]).resolved.config
    data = build_data(config)
    data.prepare()
    seed_everything(config.seed)
    module: Any = build_module(config, *data.vocabulary.sizes)
    module.begin(data)
    network = module.network
    network.unstructured().model.save_pretrained(folder / START)
    state, batches = torch.get_rng_state(), []
    for batch in islice(data.train_dataloader(), count):
        if task == "lm":
            batches.append(({"input_ids": batch.tokens, "use_cache": False}, batch.targets.reshape(-1)))
            continue
        tokens, lengths, second = network.joined(batch.sentences)
        place = torch.arange(tokens.shape[1])
        inside = place < lengths[:, None]
        inputs = {"input_ids": tokens, "attention_mask": inside.long()}
        inputs["token_type_ids"] = network.kind * (inside & (place >= second[:, None])).long()
        batches.append((inputs, batch.labels))
    rates, adam = [module.schedule(step + 1) for step in range(count)], config.training.optimizer
    torch.save((batches, rates, {"betas": adam.betas, "eps": adam.eps}, state), folder / BATCHES)


def peak(training: Training) -> float:
    """Return the greatest resident memory of a training's process so far, in MB."""
    status = Path(f"/proc/{training.process.pid}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmHWM:\s*(\d+) kB", status)[0]) / 1024


def measure(trainings: dict[str, Training], steps: int, rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of a step, one for each round, by name; each round begins with another training."""
    seconds: dict[str, list[float]] = {name: [] for name in trainings}
    names = list(trainings)
    for turn in range(rounds):
        first = turn % len(names)
        for name in (*names[first:], *names[:first]):
            seconds[name].append(trainings[name].turn() / steps)
    return seconds


def compare(
    args: Any, words: list[str], folder: Path, script: str = __file__, checkout: Path = ROOT, more: Sequence[str] = ()
) -> None:
    """Print for each program the time of a step, its memory, and both in parts of the plain loop's.

    Args:
        args: Options of a measurement, with the optimizer steps of a turn.
        words: Arguments of ``phmrun train``.
        folder: Folder with the batches, and what else the loop reads.
        script: File of the loop.
        checkout: Folder whose environment runs the loop.
        more: Further arguments of the loop.
    """
    from benchmarks.arguments import start
    from phmrun.cli import bench as measuring
    from phmrun.cli import console

    facts = start(args)
    plain = "plain loop"
    trainings = {plain: Training(checkout, args.steps, [str(folder), *more], folder, script)}
    for program, kernels in (("phmrun", "torch"), ("phmrun, kernels: auto", "auto")):
        place = folder / kernels
        place.mkdir()
        options = [*words, "--threads", "1", f"--set=hardware.kernels={kernels}"]
        trainings[program] = Training(ROOT, args.steps, options, place)
    seconds = measure(trainings, args.steps, args.repeats)
    memory = {program: peak(training) for program, training in trainings.items()}
    for training in trainings.values():
        training.end()
    measuring.print_machine(facts)
    print(f"load average {os.getloadavg()[0]:.1f}")
    lines = []
    for program, values in seconds.items():
        shares = [mine / its for mine, its in zip(values, seconds[plain], strict=True)]
        difference = trainings[program].norm / trainings[plain].norm - 1
        lines.append(
            (
                program,
                f"{1000 * statistics.median(values):.1f} ms",
                f"{statistics.median(shares):.3f} ({min(shares):.3f}–{max(shares):.3f})",
                f"{memory[program]:.0f} MB",
                f"{memory[program] / memory[plain]:.3f}",
                f"{difference:+.0e}",
            )
        )
    heads = ("program", "a step", "of the loop", "memory", "of the loop", "norm of the weights")
    console.print_table(heads, lines, title=f"\n{words[0]}, {args.repeats} rounds of {args.steps} steps")


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare both on the network that the options name."""
    import transformers

    from benchmarks.arguments import parser

    options = parser(__doc__, repeats=7)
    options.add_argument("--path", help="folder of a network to fine-tune on SciTail")
    options.add_argument("--steps", type=int, default=2, help="optimizer steps of a turn")
    args = options.parse_args(arguments)
    task, settings = ("nli", {**FINE_TUNING, "model.path": args.path}) if args.path else ("lm", LLAMA)
    print(f"transformers {transformers.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(task, settings, args.steps * (args.repeats + 1), folder)
        compare(args, [task, *(f"--set={key}={value}" for key, value in settings.items())], folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        plain_loop(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
