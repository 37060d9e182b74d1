"""CPU threads and matrix library of a run: chosen once, recorded, kept on resume."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from phmrun.config import Experiment
from phmrun.cores import busy_cores, usable_cores
from phmrun.errors import counted
from phmrun.kernels.choice import Choice, choose, products_of

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
