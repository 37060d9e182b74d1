"""From a summary of a text to a score for each class, over any structure."""

import itertools
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import Linear
from phmrun.registry import STRUCTURES


class ClassScores(nn.Module):
    """W · relu(W_m · … relu(W_1 x + b_1) … + b_m) + b: hidden layers, if any, then a map to the classes.

    A structure that cannot build a matrix with as many rows as there are classes gets the next number of rows that it
    can; the further rows have no part in the output.

    Args:
        in_features: Size of an input vector.
        classes: Classes to tell apart.
        hidden: Sizes of the hidden layers.
        dropout: Share of each map's inputs dropped in training.
        structure: Name of the structure of all maps.
        **options: Its options.

    Raises:
        PhmrunError: Sizes and structure that do not go together.
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
        *,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        self.classes = classes
        self.dropout = dropout
        sizes = [in_features, *hidden]
        pairs = [*itertools.pairwise(sizes), (sizes[-1], buildable_rows(classes, sizes[-1], structure, **options))]
        self.maps = nn.ModuleList(Linear(wide, narrow, structure=structure, **options) for wide, narrow in pairs)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[batch, in_features] -> [batch, classes]``."""
        hidden = inputs
        for number, linear in enumerate(self.maps):
            if number:
                hidden = F.relu(hidden)
            hidden = linear(F.dropout(hidden, self.dropout, self.training))
        return hidden[:, : self.classes]


def buildable_rows(rows: int, columns: int, structure: str, **options: Any) -> int:
    """The least number of rows, ``rows`` or more, with which a structure can build a matrix; ``rows`` if none is."""
    misfit = STRUCTURES.get(structure).misfit
    for more in range(rows, max(rows, columns) + 1):
        if misfit(more, columns, **options) is None:
            return more
    return rows
