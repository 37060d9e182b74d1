"""The times that papers' tables print, measured on finished runs one after the other, and kept in each one's directory.

They are of this machine, and comparable with each other only where it had nothing else to do.
"""

import time
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

import torch

from phmrun.bench.machine import facts, waiter
from phmrun.bench.run import Amount, opened, sampled_lines, training_phase
from phmrun.bench.systems import Answering, answering
from phmrun.bench.timing import Timing, interleave
from phmrun.engine.lightning import move_data_to_device
from phmrun.engine.trained_model import choose_device
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.listing import BATCH, EPOCH, LINE, STEP, TEST, TIMES

BATCH_SIZE = 64  # items answered at a time where a task's configuration does not say
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def measure_times(
    run: Run, wanted: Collection[str], amount: Amount, device: str = "auto", clock: str = "wall"
) -> dict[str, Any]:
    """Measures some of :data:`TIMES` on a trained run, in seconds, and writes them with signatures into its directory.

    The amount is of rounds, training batches (validation batches too) and test items of a measurement; the clock is
    "wall", or "cpu": what this process computes, over all threads, whatever else the machine does.

    Raises:
        PhmrunError: The run cannot be used, its data are missing, or there is no such time.
    """
    for name in wanted:
        if name not in TIMES:
            raise PhmrunError(f"there is no time {name!r}", valid=tuple(TIMES))
    place = choose_device(device)
    trained, data = opened(run)
    system = Answering(trained, place)
    machine = {**facts(), "device": place}
    found: dict[str, tuple[float, str, Timing]] = {}

    def timed(call: Callable[[], object]) -> Timing:
        return interleave({"run": call}, rounds=amount.rounds, settle=waiter(place), clock=CLOCKS[clock])["run"]

    if {LINE, TEST} & {*wanted}:
        lines, count, total = sampled_lines(data, amount.sentences)
        batch = trained.config.model_dump().get("decoding", {}).get("batch", BATCH_SIZE)
        timing = timed(answering(system, lines, batch))
        for name, items in ((LINE, 1), (TEST, total)):
            found[name] = (timing.median * items / count, f"items:{count} of {total}", timing)
    if BATCH in wanted:
        batches = list(islice(data.validation_batches(), amount.batches))

        def score() -> None:  # as validation does
            system.module.eval()
            with torch.inference_mode():
                for batch in batches:
                    system.loss(move_data_to_device(batch, torch.device(place)))

        timing = timed(score)
        found[BATCH] = (timing.median / len(batches), f"batches:{len(batches)}", timing)
    if {STEP, EPOCH} & {*wanted}:
        phase, prepare = training_phase(trained, data, amount, place)
        timing = timed(prepare(system))
        for name, each in ((STEP, 1), (EPOCH, int(run.parameters().get("steps_per_epoch", 0)))):
            found[name] = (timing.median * each / phase.steps, f"steps:{phase.steps}", timing)
    where = f"{machine['gpu'] if place.startswith('cuda') else machine['processor']}|threads:{machine['threads']}"
    times = {
        name: {
            "value": value,
            "signature": f"{said}|rounds:{amount.rounds}|clock:{clock}|{where}|torch:{machine['torch']}",
            "seconds": timing.seconds,
            "machine": machine,
        }
        for name, (value, said, timing) in found.items()
        if name in wanted
    }
    run.add_bench(times)
    return times
