"""Group shuffle: a group linear transform with permuted outputs.

Formula:        W = P diag(B_1, …, B_g), B_i [k/g, d/g]; P moves output j of group i to place j·g + i
Parameters:     k·d/g; k·d/g² with ``shared``
Initialization: same as "group": the blocks have √g times the dense layer's standard deviation
Source:         Zhang et al., "ShuffleNet", CVPR 2018; in DeLighT and DeFINE's comparison (Li et al. 2018) for text

Two plain group transforms in sequence never mix their groups. With P between them, each group of the second transform
reads from all groups of the first.
"""

from typing import ClassVar

from phmrun.layers.structure import register
from phmrun.layers.structures.group import Group


@register("group-shuffle")
class GroupShuffle(Group):
    """Block-diagonal matrix with permuted rows: adjacent outputs depend on different groups of inputs."""

    formula = "W = P diag(B_1, …, B_g)"
    source = "Zhang et al. 2018; Li et al. 2018"
    examples = ({"groups": 4},)
    shuffle: ClassVar[bool] = True
