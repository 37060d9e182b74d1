"""Group shuffle: a group linear transform whose outputs are dealt out to the groups of the next one.

Formula:        W = P diag(B_1, …, B_g), B_i [k/g, d/g]; P moves output j of group i to place j·g + i
Parameters:     k·d/g; k·d/g² with ``shared``
Initialisation: As for "group": the blocks have √g times the dense layer's standard deviation
Source:         Zhang et al., "ShuffleNet", CVPR 2018; in DeLighT and DeFINE's comparison (Li et al. 2018) for text

Two plain group transforms one after the other never mix their groups. With P between them, every group of the second
sees all groups of the first.
"""

from typing import ClassVar

from phmrun.layers.structure import register
from phmrun.layers.structures.group import Group


@register("group-shuffle")
class GroupShuffle(Group):
    """A block-diagonal matrix with its rows dealt out: each group of outputs comes from all groups of inputs."""

    formula = "W = P diag(B_1, …, B_g)"
    source = "Zhang et al. 2018; Li et al. 2018"
    examples = ({"groups": 4},)
    shuffle: ClassVar[bool] = True
