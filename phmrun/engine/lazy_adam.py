"""Adam of Dozat's Parser-v2: lazy rows of tables, clipped updates instead of gradients.

Update of a weight: lr · m̂ / √(v̂ + ε), with the bias-corrected means m̂ and v̂ of the gradient and of its square.
Source: github.com/tdozat/Parser-v2, parser/neural/optimizers (Apache-2.0). There, rows that a batch reads with a
gradient of zero, those of words that are all dropped, are updated by their means (radam_optimizer.py:82); here they
wait.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from phmrun.layers import Embedding
from phmrun.layers.structures.dense import Dense


class LazyAdam(Optimizer):
    """Adam with ε inside the root, lazy rows and clipped updates.

    Args:
        params: Parameters or parameter groups. In a group with ``lazy=True``, rows whose gradient is zero are not
            updated, keep their means and do not count the step.
        lr: Learning rate.
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the mean of the squares, inside the root.
        clip_update: Maximum norm of the update of all parameters together; 0: no limit.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.9),
        eps: float = 1e-12,
        clip_update: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "lazy": False})
        self.clip_update = clip_update

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, in place.

        Entries of gradients that are not finite count as 0. Returns the loss of ``closure``, None without one. With
        ``clip_update``, all updates are scaled down together if their joint norm exceeds it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        updates = [
            (parameter, self._update(parameter, group))
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        scale = 1.0
        if self.clip_update and updates:
            norm = float(torch.stack([update.norm() for _, update in updates]).norm())
            scale = min(1.0, self.clip_update / norm) if norm else 1.0
        for parameter, update in updates:
            parameter.sub_(update, alpha=scale)
        return loss

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Return the update of a parameter ``[…]``, and advance its state in place.

        The learning rate is included. Numbers of the gradient that are not finite count as 0. State is created at the
        first call. In lazy groups, rows whose gradient is zero get 0 and keep their state.
        """
        gradient = torch.nan_to_num(parameter.grad, 0.0, 0.0, 0.0)  # type: ignore[arg-type]
        state, (mean_decay, square_decay) = self.state[parameter], group["betas"]
        if not state:
            rows = (len(parameter), *[1] * (parameter.dim() - 1)) if group["lazy"] else ()
            state["step"] = torch.zeros(rows, dtype=parameter.dtype, device=parameter.device)
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        read = gradient.flatten(1).any(1).view_as(state["step"]) if group["lazy"] else None
        step = state["step"] + 1
        mean = state["mean"].lerp(gradient, 1 - mean_decay)
        square = state["square"].lerp(gradient.square(), 1 - square_decay)
        if read is not None:
            step = step.where(read, state["step"])
            mean, square = mean.where(read, state["mean"]), square.where(read, state["square"])
        state["step"], state["mean"], state["square"] = step, mean, square
        counted = step.clamp(min=1)  # a row that was never read has zero means
        root = (square / (1 - square_decay**counted) + group["eps"]).sqrt()
        update = group["lr"] * (mean / (1 - mean_decay**counted)) / root
        return update if read is None else update * read


def table_groups(network: nn.Module) -> list[dict[str, Any]]:
    """Return two groups of parameters, the second the dense embedding tables.

    Keys: "params", and "lazy", which is True for the tables. Frozen parameters are included.

    An empty group is left out.
    """
    tables = {
        id(module.structure.matrix)
        for module in network.modules()
        if isinstance(module, Embedding) and isinstance(module.structure, Dense)
    }
    parameters = list(network.parameters())
    groups = [{"params": [p for p in parameters if (id(p) in tables) == lazy], "lazy": lazy} for lazy in (False, True)]
    return [group for group in groups if group["params"]]
