"""Library of a run's matrix products: chosen at its beginning, recorded in ``environment.json``, kept on resume."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from phmrun.config import Experiment
from phmrun.kernels import Choice, choose, products_of
from phmrun.ledger.environment import FORMERLY

LOG = logging.getLogger("phmrun.engine")


def kernels_of(
    config: Experiment, network: Callable[[], nn.Module], segments: Sequence[Mapping[str, Any]] = ()
) -> Choice:
    """Choose the library of a run's float32 products, and say so unless it is torch's default.

    Args:
        config: The resolved config.
        network: Returns the network, whose weight shapes are probed; it needs no values.
        segments: Entries of the run's processes so far. Their library is kept unless the config names another.
    """
    requested = config.hardware.kernels
    if segments and requested == "auto":
        requested = segments[-1].get("kernels", FORMERLY["kernels"])
    if reason := _not_concerned(config):
        return Choice("torch", reason, requested == "onednn")
    choice = choose(requested, lambda: products_of(network()))
    if choice.refused:
        LOG.warning("hardware.kernels=onednn is not possible, so torch computes the products: %s", choice.reason)
    elif choice.library != "torch":
        LOG.info("matrix products by oneDNN: %s", choice.reason)
    return choice


def _not_concerned(config: Experiment) -> str:
    """Return the reason why a run has no float32 products on the CPU to choose for; empty if it has."""
    if config.training.precision != "32":
        return f"the precision is {config.training.precision}"
    if config.hardware.compile:
        return "torch.compile chooses its own kernels"
    accelerated = torch.cuda.is_available() or torch.backends.mps.is_available()
    if config.hardware.accelerator not in ("auto", "cpu") or (accelerated and config.hardware.accelerator == "auto"):
        return "an accelerator computes the products"
    return ""
