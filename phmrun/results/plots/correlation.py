"""Correlation maps of embeddings, as in Figures 4 and 7–11 of Mehta et al. (2020).

The map of a table E ``[words, m]`` is EᵀE ``[m, m]``, scaled to 0–1; the identity would mean independent dimensions. A
deep embedding has a map for each layer: the words' own vectors, every expansion, the reduction.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from torch import Tensor, nn

from phmrun.errors import PhmrunError
from phmrun.layers import AdaptiveInput, DeFINE, Embedding
from phmrun.layers.define import CHUNK, GroupTransform
from phmrun.results.plots.canvas import new_figure, words

PANEL = 3.0  # inches
ACROSS = 3  # panels side by side at most


class Panel(NamedTuple):
    """Correlation map of an embedding.

    ``map`` is EᵀE ``[m, m]``, scaled to 0–1. ``groups`` is the number of groups of its dimensions.
    """

    title: str
    map: NDArray[np.float64]
    groups: int


def correlation_map(tables: Iterator[Tensor]) -> NDArray[np.float64]:
    """Return EᵀE scaled to 0–1, or zeros if all its values are equal.

    ``tables`` yields E in blocks of rows ``[rows, m]``.
    """
    total: Any = 0.0
    for rows in tables:
        part = rows.detach().double()
        total = total + part.t() @ part
    product = total.cpu().numpy()
    low, high = product.min(), product.max()
    return (product - low) / (high - low) if high > low else np.zeros_like(product)


@torch.no_grad()
def correlation_panels(network: nn.Module) -> list[Panel]:
    """Return the maps of a network's embeddings.

    A deep one (DeFINE) has a map per layer, see :func:`_deep`. Sets the network to evaluation mode.

    Raises:
        PhmrunError: (exit 2) The network has no embedding.
    """
    network.eval()
    panels: list[Panel] = []
    for name, module in _embeddings(network):
        if isinstance(module, DeFINE):
            panels += _deep(module)
        else:
            panels.append(Panel(name, correlation_map(iter([module.weight])), 1))
    if not panels:
        raise PhmrunError("the run's network has no embedding")
    return panels


def draw_correlation(panels: list[Panel], title: str) -> Figure:
    """Return a figure of at least one map, with a color bar.

    At most three are side by side, with lines between groups. Titles have the number of dimensions; colors range from 0
    to 1.
    """
    across = min(len(panels), ACROSS)
    down = -(-len(panels) // across)
    figure = new_figure(PANEL * across + 0.8, PANEL * down + 0.6)
    figure.suptitle(words(title), fontsize=10)
    axes = figure.subplots(down, across, squeeze=False)
    image = None
    for place, panel in zip(axes.flat, panels, strict=False):
        image = place.imshow(panel.map, cmap="viridis", vmin=0.0, vmax=1.0, interpolation="nearest")
        place.set_title(f"{panel.title}, {len(panel.map)} dimensions", fontsize=9)
        place.tick_params(labelsize=7)
        place.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        place.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        place.set_xlabel("dimension", fontsize=8)
        place.set_ylabel("dimension", fontsize=8)
        for group in range(1, panel.groups):
            # imshow centers the cells on integers, so their edges lie half a cell before these.
            line = group * len(panel.map) / panel.groups - 0.5
            place.axhline(line, color="white", linewidth=0.5)
            place.axvline(line, color="white", linewidth=0.5)
    for place in axes.flat[len(panels) :]:
        place.set_axis_off()
    if image is not None:
        figure.colorbar(image, ax=axes, shrink=0.8).set_label("EᵀE, scaled to 0 … 1", fontsize=8)
    return figure


def _embeddings(network: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the distinct input tables with their names.

    They are the child ``define`` and then children whose names end with "embedding". The mapping of a deep one is not
    yielded again.
    """
    seen: set[int] = set()
    children = dict(network.named_children())
    for name in ("define", *(name for name in children if name.endswith("embedding"))):
        module = children.get(name)
        if isinstance(module, DeFINE | AdaptiveInput | Embedding) and id(module) not in seen:
            seen.add(id(module))
            if isinstance(module, DeFINE):
                seen.add(id(module.mapping))
            yield name.replace("_", " "), module


def _deep(module: DeFINE) -> Iterator[Panel]:
    """Yield the maps of a deep embedding.

    They are of all words: word vectors, each expansion, and the reduction if any.
    """
    device = next(module.parameters()).device
    words = torch.arange(module.num_embeddings, device=device).split(CHUNK)
    groups = [cast(GroupTransform, transform).groups for transform in module.expand.transforms]
    yield Panel("map", correlation_map(module.mapping(part) for part in words), 1)
    for number, parts in enumerate(groups):
        rows = (module.expand.layers(module.mapping(part))[number] for part in words)
        yield Panel(f"expansion {number + 1}, {parts} groups", correlation_map(rows), parts)
    if module.reduce is not None:
        yield Panel("reduction", correlation_map(module.embed(part) for part in words), 1)
