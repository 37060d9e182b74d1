"""``nn.MultiheadAttention`` whose joint map of Q, K and V, or whose three maps, have a structure."""

import functools
from typing import cast

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Structure, build_weight

MAPS = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
"""Matrices of ``nn.MultiheadAttention`` beside ``out_proj``: the joint map, or three maps for inputs of other sizes."""


class StructuredAttention(nn.MultiheadAttention):
    """``nn.MultiheadAttention`` over structures; built from an existing one by :func:`structured`.

    torch's code reads the dense matrices as attributes; here they are built from ``maps`` at each access.
    """

    maps: nn.ModuleDict

    def _weight(self, name: str) -> Tensor | None:
        """Return W of the structure called ``name`` in ``maps``.

        None if there is none.
        """
        maps = self._modules.get("maps")
        if not isinstance(maps, nn.ModuleDict) or name not in maps:
            return None
        return build_weight(cast(Structure, maps[name]))

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """Return the equivalent ``nn.MultiheadAttention`` with copies of the dense matrices.

        The copies get no gradient. Its output map and biases are shared with this module; the training mode stays.
        """
        weights = {name: getattr(self, name) for name in self.maps}
        plain: nn.Module = nn.MultiheadAttention.__new__(nn.MultiheadAttention)
        plain.__dict__ = {**self.__dict__}
        plain._modules = {name: child for name, child in self._modules.items() if name != "maps"}
        plain._parameters = dict(self._parameters)
        for name in MAPS:
            weight = weights.get(name)
            value = None if weight is None else nn.Parameter(weight.detach().clone(), requires_grad=False)
            plain.register_parameter(name, value)
        return plain


for _name in MAPS:  # None if the map is joint, or if there are three
    setattr(StructuredAttention, _name, property(functools.partial(StructuredAttention._weight, name=_name)))


def structured(attention: nn.MultiheadAttention, maps: dict[str, Structure]) -> StructuredAttention:
    """Turn an ``nn.MultiheadAttention`` into a :class:`StructuredAttention`, in place.

    Its dense matrices of Q, K and V are removed. Returns the same object.

    Args:
        attention: Module to change; its ``out_proj`` and biases stay.
        maps: Structure of each matrix, by its name in :data:`MAPS`.
    """
    for name in MAPS:
        attention._parameters.pop(name)
    attention.__class__ = StructuredAttention
    changed = cast(StructuredAttention, attention)
    changed.maps = nn.ModuleDict(maps)
    return changed
