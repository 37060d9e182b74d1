"""Records of a training run beside its checkpoints: data, environment, scores."""

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from phmrun.config import Experiment, TrainingConfig
from phmrun.cores import busy_cores, usable_cores
from phmrun.errors import counted
from phmrun.kernels.choice import Choice, choose, products_of
from phmrun.kernels.dropout import RANDOM_NUMBERS
from phmrun.kernels.switch import float32_precision
from phmrun.ledger import Run
from phmrun.ledger.history import BEST, best_validation, is_share, shown
from phmrun.ledger.segment import Segment, facts, segment_of

LOG = logging.getLogger("phmrun.engine")


def set_threads(threads: int = 0, segments: Sequence[Mapping[str, Any]] = ()) -> int:
    """Set torch's number of CPU threads, and return it.

    A number set by the user comes first, then torch's own if ``OMP_NUM_THREADS`` is set. Then come the number of the
    run's last process, and that of free cores (at most torch's own). Threads that wait for a busy core take up to four
    times as long as one alone.

    Args:
        threads: Number set by the user; 0: none.
        segments: Entries of the run's processes so far.
    """
    if not threads and "OMP_NUM_THREADS" not in os.environ:
        threads = int((segments[-1].get("threads") if segments else 0) or _free_threads())
    if threads:
        torch.set_num_threads(threads)
    return torch.get_num_threads()


def _free_threads() -> int:
    """Return the number of usable cores that are not busy.

    It is at least 1, and at most torch's number of threads; a smaller one than that is logged.
    """
    usual, busy = torch.get_num_threads(), busy_cores()
    free = max(1, min(usual, usable_cores() - busy))
    if free < usual:
        taken = f"{busy} of {counted(usable_cores(), 'core')} {'is' if busy == 1 else 'are'} busy"
        LOG.info(
            "%s: computing with %s instead of %s (hardware.threads sets it)", taken, counted(free, "thread"), usual
        )
    return free


def kernels_of(
    config: Experiment, network: Callable[[], nn.Module], segments: Sequence[Mapping[str, Any]] = ()
) -> Choice:
    """Return the library of a run's float32 matrix products.

    A run without float32 products on the CPU keeps torch's, and nothing is logged. For other runs oneDNN is logged if
    it is chosen; a refused request for oneDNN is a warning.

    Args:
        config: Resolved config.
        network: Returns the network, whose weight shapes are measured; it may be on the meta device. It is called only
            if the choice needs it.
        segments: Entries of the run's processes so far. If the config says "auto", the last one's library is kept;
            torch's if it names none.
    """
    requested = config.hardware.kernels
    if segments and requested == "auto":
        requested = segments[-1].get("kernels", "torch")
    if reason := _not_concerned(config):
        return Choice("torch", reason, requested == "onednn", config.hardware.tf32)
    choice = replace(choose(requested, lambda: products_of(network())), tf32=config.hardware.tf32)
    if choice.refused:
        LOG.warning("hardware.kernels=onednn is not possible, so torch computes the products: %s", choice.reason)
    elif choice.library != "torch":
        LOG.info("matrix products by oneDNN: %s", choice.reason)
    return choice


def _not_concerned(config: Experiment) -> str:
    """Return why a run has no float32 products on the CPU, or "".

    Reasons are another precision, torch.compile, and an accelerator (by name, or any present one with "auto").
    """
    if config.training.precision != "32":
        return f"the precision is {config.training.precision}"
    if config.hardware.compile:
        return "torch.compile chooses its own kernels"
    accelerated = torch.cuda.is_available() or torch.backends.mps.is_available()
    if config.hardware.accelerator not in ("auto", "cpu") or (accelerated and config.hardware.accelerator == "auto"):
        return "an accelerator computes the products"
    return ""


if TYPE_CHECKING:
    from phmrun.engine.fit import Fitted


def scores_of_training(run: Run, fitted: "Fitted", training: TrainingConfig) -> dict[str, dict[str, Any]]:
    """Return the scores of training, by name.

    "validation/best" is the best monitored score, "validation/loss" the loss at its step, "validation/loss-smoothed"
    the same with the label smoothing of training, "train/loss" the last row's. Those that the history lacks are
    missing. Shares are in percent, losses in nats per unit of the task.
    """
    scores: dict[str, dict[str, Any]] = {}
    if fitted.best is not None:
        scores[BEST] = best_validation(training.monitor, fitted.best, fitted.best_step or 0)
    for row in run.history.rows():
        for name, smoothing in (("loss", 0.0), ("loss-smoothed", training.label_smoothing)):
            if row["step"] == fitted.best_step and f"val/{name}" in row:
                scores[f"validation/{name}"] = {
                    "value": row[f"val/{name}"],
                    "step": row["step"],
                    "signature": f"unit:nats|label-smoothing:{smoothing:g}|dropout:off",
                }
        if "train/loss" in row:
            signature = "unit:nats|label-smoothing:0|dropout:on|mean-of-the-last-steps"  # the meter sums the plain loss
            scores["train/loss"] = {"value": row["train/loss"], "step": row["step"], "signature": signature}
    return scores


def tell_validation(row: Mapping[str, Any]) -> None:
    """Log the scores of a validation.

    Shares are in percent with 2 decimals, other figures have 4. Without "val/…" figures in the row, nothing is logged.
    """
    scores = {name: value for name, value in row.items() if name.startswith("val/")}
    if scores:
        figures = " · ".join(
            f"{name} {shown(name, value):.2f} %" if is_share(name) else f"{name} {value:.4f}"
            for name, value in scores.items()
        )
        LOG.info("validation at step %s: %s", row["step"], figures)


def torch_facts(config: Experiment, kernels: Choice) -> dict[str, Any]:
    """Return torch's facts of this process, for JSON.

    Keys: "threads", "accelerators", "arithmetic", "kernels", "kernels_reason", "random_numbers", "settings" (hardware
    section without kernels, and precision), "flags" (library versions and switches).
    """
    driver = Path("/sys/module/nvidia/version")
    gpus = {"cuda": torch.version.cuda, "driver": driver.read_text("ascii").strip() if driver.is_file() else None}
    devices = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return {
        "threads": torch.get_num_threads(),
        "accelerators": [{"name": device.name, "memory_bytes": device.total_memory, **gpus} for device in devices],
        "arithmetic": arithmetic(),
        "kernels": kernels.library,
        "kernels_reason": kernels.reason,
        "random_numbers": RANDOM_NUMBERS,
        "settings": {
            **config.hardware.model_dump(mode="json", exclude={"kernels"}),
            "precision": config.training.precision,
        },
        "flags": {
            "cudnn": torch.backends.cudnn.version(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "float32_matmul_precision": float32_precision(),
            "mkldnn": torch.backends.mkldnn.is_available(),
        },
    }


def arithmetic() -> dict[str, Any]:
    """Return torch's CPU instruction set, and the versions of its matrix libraries.

    Keys: "instruction_set", "blas" (MKL's version, or another library's name) and "onednn". Libraries that torch does
    not name are missing.
    """
    built = torch.__config__.show()
    matches = {
        "blas": re.search(r"Math Kernel Library Version (\S+)|BLAS_INFO=(\w+)", built),
        "onednn": re.search(r"MKL-DNN v(\S+)", built),
    }
    versions = {name: next(filter(None, match.groups())) for name, match in matches.items() if match}
    return {"instruction_set": torch.backends.cpu.get_cpu_capability(), **versions}


@contextmanager
def recording(run: Run, config: Experiment, kernels: Choice, leader: bool) -> Iterator[Segment | None]:
    """Record the block in ``environment.json``, and yield the entry.

    Processes other than the leader record nothing and yield None. The entry ends with the state of the run, and the
    peak memory of a GPU in bytes, if there is one. If the block raises, it ends with "interrupted" (by Ctrl-C, exit or
    the run's state) or "failed"; errors of writing are then ignored.
    """
    if not leader:
        yield None
        return
    with segment_of(run, {**facts(), **torch_facts(config, kernels)}) as segment:
        yield segment
        if torch.cuda.is_available():
            segment.entry["peak_accelerator_memory_bytes"] = torch.cuda.max_memory_allocated()
