"""Speed and memory of a run: training, validation and prediction.

The times that papers' tables print (:data:`phmrun.ledger.scores.TIMES`) are of the same measurements.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import nn

from phmrun.bench.machine import facts, peak_memory, warn_if_busy
from phmrun.bench.timing import Timing, counts_cpu_time, interleave
from phmrun.engine.checkpoints import LAST
from phmrun.engine.data import DataModule
from phmrun.engine.lightning import move_data_to_device
from phmrun.engine.trained_model import Predictor, TrainedModel, choose_device, open_run
from phmrun.files import cache_dir
from phmrun.ledger import Run
from phmrun.ledger.directory import network_label
from phmrun.ledger.environment import now
from phmrun.ledger.scores import BATCH, EPOCH, LINE, STEP, TEST
from phmrun.progress import progress
from phmrun.registry import TASKS

LOG = logging.getLogger("phmrun.bench")

BATCH_SIZE = 64  # items predicted at a time if a task's configuration has no batch size
SINGLE = 10  # a measurement with batches of one item has this part of the items
Call = Callable[[], object]


@dataclass(frozen=True)
class Amount:
    """Amount of measurements."""

    rounds: int = 5  # measurements of each model, whose median is reported
    batches: int = 8  # training or validation batches in a measurement
    items: int = 256  # test items in a measurement of prediction


@dataclass(frozen=True)
class Phase:
    """Phase of a benchmark."""

    name: str  # "training", "prediction, batch 64" …
    unit: str  # unit of a rate, per second
    amount: int  # units in one measurement
    prepare: Callable[[TrainedModel], Call]  # returns the function to time
    content: str  # amount, for the signature of times: "steps:4"
    times: Mapping[str, float] = field(default_factory=dict)  # times by name, in parts of one measurement
    steps: int = 0  # optimizer steps in one measurement of training

    def to_json(self, timing: Timing, peak_memory: int) -> dict[str, Any]:
        """Return measurements of it for JSON; "rate" is in units per second, ``peak_memory`` in bytes."""
        return {
            "phase": self.name,
            "unit": f"{self.unit}/s",
            "amount": self.amount,
            "steps": self.steps,
            "rate": self.amount / timing.median,
            "seconds": list(timing.seconds),
            "median_seconds": timing.median,
            "peak_memory_bytes": peak_memory,
        }


def bench_run(
    run: Run, *, amount: Amount | None = None, only: str | None = None, device: str = "auto"
) -> dict[str, Any]:
    """Measure a run's model, and record the measurements in its ``bench.json``.

    Return a report for JSON: "run_id", "run_dir", "layer" (structure and options), "machine", and "phases". The run may
    be unfinished; its last checkpoint is used if there is one. It computes with the run's kernels
    (``hardware.kernels`` and ``tf32``).

    Args:
        run: The run.
        amount: Amount of measurements.
        only: Part to measure: "prediction", "validation" or "training"; None for all.
        device: Device, or "auto".

    Raises:
        PhmrunError: The run cannot be used, or its data are missing.
    """
    amount, place = amount or Amount(), choose_device(device)
    warn_if_busy(place)
    trained, data = opened(run)
    trained.module.to(place)
    phases = [phase for phase in _phases(trained, data, amount, place) if only in (None, phase.name.split(",")[0])]
    measured: list[dict[str, Any]] = []
    kernels = trained.kernels(run.environment())
    with kernels.applied(), progress("measuring", len(phases), "phases") as advance:
        machine = facts(place)
        for phase in phases:
            with peak_memory(place) as peak:
                phase.prepare(trained)()
                most = peak()
            timings = interleave({phase.name: phase.prepare(trained)}, rounds=amount.rounds, device=place)
            measured.append(phase.to_json(timings[phase.name], most))
            run.add_bench(_records(phase, measured[-1], machine, f"rounds:{amount.rounds}", kernels.library))
            advance(1)
    about = {"run_id": run.id, "run_dir": str(run.path), "layer": network_label(trained.config.model_dump(mode="json"))}
    return {**about, "machine": machine, "phases": measured}


def _records(
    phase: Phase, measured: Mapping[str, Any], machine: Mapping[str, Any], rounds: str, library: str
) -> dict[str, dict[str, Any]]:
    """Return the entries of ``bench.json`` of a measured phase, by name: the phase, and its times."""
    device = machine["device"]
    shared = {"machine": dict(machine), "measured": now()}
    signature = [
        phase.content,
        rounds,
        f"clock:{'cpu' if counts_cpu_time(device) else 'wall'}",
        machine["gpu"] if device.startswith("cuda") else machine["processor"],
        f"threads:{machine['threads']}",
        *([] if library == "torch" else [f"kernels:{library}"]),
        f"torch:{machine['torch']}",
    ]
    entry = {"signature": "|".join(signature), "seconds": measured["seconds"], **shared}
    times = {name: {"value": measured["median_seconds"] * part, **entry} for name, part in phase.times.items()}
    return {phase.name: {**measured, **shared}, **times}


def opened(run: Run) -> tuple[TrainedModel, Any]:
    """Load a run with its last weights, and its prepared data.

    Data are loaded without worker processes. Without a checkpoint, weights are the initial ones, with a warning.

    Raises:
        PhmrunError: The run cannot be used, or its data are missing.
    """
    trained = open_run(run)
    alone = trained.config.hardware.model_copy(update={"workers": 0})
    config = trained.config.model_copy(update={"hardware": alone})
    data = TASKS.get(config.task).load("data")(config, cache_dir())
    data.prepare()
    if (run.checkpoints / LAST).is_file():
        trained.load("last")
    else:  # speed does not depend on the weights
        LOG.warning("the run has no checkpoint yet: its weights are those that training starts with")
    return trained, data


def _phases(trained: TrainedModel, data: DataModule, amount: Amount, device: str) -> Iterator[Phase]:
    """Yield all phases: prediction by one item and in the run's batches, validation, training, which changes weights.

    Micro-batches of training are rounded down to whole accumulations, at least one.
    """
    usual = trained.config.model_dump().get("decoding", {}).get("batch", BATCH_SIZE)
    for size in sorted({1, usual}):
        lines, count, total = sampled_lines(data, amount.items if size == usual else max(1, amount.items // SINGLE))
        call = partial(prediction, lines=lines, batch=size, device=device)
        times = {LINE: 1 / count, TEST: total / count} if size == usual else {}
        yield Phase(f"prediction, batch {size}", "items", count, call, f"items:{count} of {total}", times)
    batches = list(islice(data.validation_batches(), amount.batches))
    units = sum(batch.units for batch in batches)
    call = partial(validation, batches=batches, device=device)
    yield Phase("validation", data.unit, units, call, f"batches:{len(batches)}", {BATCH: 1 / len(batches)})
    accumulate = trained.config.training.accumulate
    steps = max(1, amount.batches // accumulate)
    units = sum(batch.units for batch in islice(data.train_dataloader(), steps * accumulate))
    call = partial(training, data=data, batches=steps * accumulate, device=device)
    epoch = int(trained.run.parameters().get("steps_per_epoch", 0))
    times = {STEP: 1 / steps, **({EPOCH: epoch / steps} if epoch else {})}
    yield Phase("training", data.unit, units, call, f"steps:{steps}", times, steps)


def sampled_lines(data: DataModule, count: int) -> tuple[list[str], int, int]:
    """Return input lines of evenly spaced test items, with two counts.

    Uses the validation split if there is no test split. An item may have several lines.

    Returns:
        Lines of at most ``count`` items, number of these items, number of all items.
    """
    items = list(data.inputs("test" if "test" in data.files else "dev"))
    chosen = [items[number] for number in evenly(len(items), count)]
    return [line for item in chosen for line in item.split("\n")], len(chosen), len(items)


def evenly(total: int, count: int) -> list[int]:
    """Return ``count`` distinct, evenly spaced numbers, 0 and ``total`` − 1 included.

    Returns all numbers if ``total`` is smaller, none if it is 0. A ``count`` of 1 or less gives 0 only.
    """
    return [round(number) for number in np.linspace(0, total - 1, max(1, min(count, total)))] if total else []


def prediction(model: TrainedModel, *, lines: Sequence[str], batch: int, device: str) -> Call:
    """Return a function that predicts all lines as ``phmrun predict``, with a copy of the present weights."""
    predictor = replace(model, module=deepcopy(model.module)).loaded("bench", batch_size=batch, device=device)
    return answering(predictor, lines)


def answering(predictor: Predictor, lines: Sequence[str]) -> Call:
    """Return a function that predicts all lines and drops the answers."""
    return lambda: deque(predictor.predict(lines), maxlen=0)


def validation(model: TrainedModel, *, batches: Sequence[Any], device: str) -> Call:
    """Return a function that computes the losses of all batches, as in validation."""

    def score() -> None:
        """Compute the losses of all batches."""
        model.module.eval()
        with torch.inference_mode():
            for batch in batches:
                model.module.loss(move_data_to_device(batch, torch.device(device)))

    return score


def training(model: TrainedModel, *, data: DataModule, batches: int, device: str) -> Call:
    """Return a function that makes optimizer steps over the first micro-batches, with a new optimizer.

    Each call reads the same batches and changes the weights. The learning rate is that of the first step. Gradients are
    clipped if the config says so. A mixed precision runs under autocast; "64" converts the network to double at once.
    """
    module, settings, place = model.module, model.config.training, torch.device(device)
    if settings.precision == "64":
        module.double()
    optimizer = module.make_optimizer(module.network)
    for group in optimizer.param_groups:
        group["lr"] = module.schedule(1)
    mixed = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(settings.precision)

    def steps() -> None:
        """Make the optimizer steps."""
        module.train()
        for number, batch in enumerate(islice(data.train_dataloader(), batches), start=1):
            with torch.autocast(place.type, mixed) if mixed else nullcontext():
                loss = module.loss(move_data_to_device(batch, place)).total
            (loss / batch.window_units).backward()
            if number % settings.accumulate == 0:
                if settings.clip:
                    nn.utils.clip_grad_norm_(module.parameters(), settings.clip)
                optimizer.step()
                optimizer.zero_grad()

    return steps
