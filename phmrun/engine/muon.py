"""Muon for the matrices of a network, AdamW for its other parameters (Jordan et al. 2024; Liu et al. 2025).

Muon replaces the mean gradient of a matrix by its nearest orthogonal matrix. The update is scaled by
0.2·√max(d_out, d_in), the usual size of AdamW's (Liu et al., "Muon is scalable for LLM training", section 2.2), so that
one learning rate and one weight decay serve both. Both steps are torch's own.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from phmrun.errors import PhmrunError
from phmrun.grouping import grouped_by
from phmrun.layers.counterparts import is_conv1d
from phmrun.layers.network import section_of
from phmrun.layers.structure import Structure

SCALE = "match_rms_adamw"
"""Torch's name of the scale of an update."""


class MuonWithAdamW(Optimizer):
    """torch.optim.Muon for groups with ``muon=True``, torch.optim.AdamW for the others.

    Args:
        params: Groups of parameters with the key ``muon``, as :func:`muon_groups`.
        lr: Learning rate of both.
        betas: Decay of AdamW's running means; Muon's momentum is 0.95, after Nesterov.
        eps: Added to the denominator of AdamW's update.
        weight_decay: Decoupled weight decay of both.
        fused: Update AdamW's parameters by one kernel.

    Raises:
        PhmrunError: This torch has no Muon (before 2.9).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        fused: bool = False,
    ) -> None:
        if not hasattr(torch.optim, "Muon"):
            what, hint = f"torch {torch.__version__} has no Muon", "Muon needs torch 2.9 or later; or use adamw."
            raise PhmrunError(what, where="training.optimizer.name", hint=hint)
        groups = list(params)
        matrices, others = ([{"params": g["params"]} for g in groups if g["muon"] is muon] for muon in (True, False))
        self._parts: list[Optimizer] = []
        if matrices:
            self._parts.append(torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, adjust_lr_fn=SCALE))
        if others:
            self._parts.append(AdamW(others, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused))
        super().__init__([group for part in self._parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, in place.

        Returns the loss of ``closure``, None without one.
        """
        losses: list[Any] = []
        first = 0
        for part in self._parts:  # a restored state has other groups than those that the parts were built with
            count = len(part.param_groups)
            part.param_groups, part.state = self.param_groups[first : first + count], self.state
            first += count
            losses.append(part.step(None if losses else closure))  # the first computes all gradients
        return losses[0]


def muon_groups(network: nn.Module) -> list[dict[str, Any]]:
    """Return a network's trainable parameters in up to two groups.

    Weight matrices of ``layer`` have ``muon=True``, all other parameters ``muon=False``. An empty group is left out.
    """
    matrices = {
        id(parameter)
        for name, module in network.named_modules()
        if isinstance(module, Structure | nn.Linear) or is_conv1d(module)
        for parameter in module.parameters(recurse=False)
        if parameter.ndim == 2 and section_of(name, network) == "layer"
    }
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    parts = grouped_by(trained, lambda parameter: id(parameter) in matrices)
    return [{"params": parameters, "muon": muon} for muon, parameters in parts.items()]


def muon_numbers(network: nn.Module) -> int:
    """Return the size of Muon's state, in numbers.

    Each weight of a map has one; all others, updated by AdamW, have two.
    """
    groups = muon_groups(network)
    return sum((1 if group["muon"] else 2) * weight.numel() for group in groups for weight in group["params"])
