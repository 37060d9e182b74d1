"""Times of a run as papers' tables print them: of a step, an epoch, a batch, a line, the test set."""

import time
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

import torch

from phmrun.bench.machine import facts, waiter
from phmrun.bench.run import opened, sampled_lines, training_phase
from phmrun.bench.run_report import Amount
from phmrun.bench.systems import Answering, answering
from phmrun.bench.timing import Timing, interleave
from phmrun.engine.lightning import move_data_to_device
from phmrun.engine.trained_model import choose_device
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.recorded_run import BATCH, EPOCH, LINE, STEP, TEST, TIMES
from phmrun.ledger.segment import read_segments

BATCH_SIZE = 64  # items answered at a time if a task's configuration has no batch size
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def measure_times(
    run: Run, wanted: Collection[str], amount: Amount, device: str = "auto", clock: str = "wall"
) -> dict[str, Any]:
    """Measure some of :data:`TIMES` on a run, and record them there.

    Times are in seconds, as papers' tables print them. They depend on the machine, and compare only if it was otherwise
    idle. The time of a line is the mean over sampled test items, and that of the test set is the same × all items. An
    epoch is the time of a step × the run's steps per epoch, 0 if these are not recorded.

    Args:
        run: The run.
        wanted: Names of times.
        amount: Rounds, training (and validation) batches, and test items of a measurement.
        device: Device, or "auto".
        clock: "wall", or "cpu": CPU time of this process over all threads.

    Returns:
        Value, signature, seconds and machine of each time.

    Raises:
        PhmrunError: A time is unknown, or the run cannot be used or its data are missing.
    """
    for name in wanted:
        if name not in TIMES:
            raise PhmrunError(f"there is no time {name!r}", valid=tuple(TIMES))
    place = choose_device(device)
    trained, data = opened(run)
    system = Answering(trained, place)
    kernels = trained.kernels(read_segments(run))
    with kernels.applied():
        machine = {**facts(), "device": place}
    measured: dict[str, tuple[float, str, Timing]] = {}

    def timed(call: Callable[[], object]) -> Timing:
        """Return the timing of a call over all rounds, with the run's kernels."""
        with kernels.applied():
            return interleave({"run": call}, rounds=amount.rounds, settle=waiter(place), clock=CLOCKS[clock])["run"]

    if {LINE, TEST} & {*wanted}:
        lines, count, total = sampled_lines(data, amount.sentences)
        batch = trained.config.model_dump().get("decoding", {}).get("batch", BATCH_SIZE)
        timing = timed(answering(system, lines, batch))
        for name, items in ((LINE, 1), (TEST, total)):
            measured[name] = (timing.median * items / count, f"items:{count} of {total}", timing)
    if BATCH in wanted:
        batches = list(islice(data.validation_batches(), amount.batches))

        def score() -> None:  # as in validation
            """Compute the losses of all batches, as in validation."""
            system.module.eval()
            with torch.inference_mode():
                for batch in batches:
                    system.loss(move_data_to_device(batch, torch.device(place)))

        timing = timed(score)
        measured[BATCH] = (timing.median / len(batches), f"batches:{len(batches)}", timing)
    if {STEP, EPOCH} & {*wanted}:
        phase, prepare = training_phase(trained, data, amount, place)
        timing = timed(prepare(system))
        for name, steps in ((STEP, 1), (EPOCH, int(run.parameters().get("steps_per_epoch", 0)))):
            measured[name] = (timing.median * steps / phase.steps, f"steps:{phase.steps}", timing)
    where = f"{machine['gpu'] if place.startswith('cuda') else machine['processor']}|threads:{machine['threads']}"
    where += "" if kernels.library == "torch" else f"|kernels:{kernels.library}"
    times = {
        name: {
            "value": value,
            "signature": f"{content}|rounds:{amount.rounds}|clock:{clock}|{where}|torch:{machine['torch']}",
            "seconds": timing.seconds,
            "machine": machine,
        }
        for name, (value, content, timing) in measured.items()
        if name in wanted
    }
    run.add_bench(times)
    return times
