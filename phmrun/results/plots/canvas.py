"""Figures and their files, written atomically and reproducibly; styles of lines, and labels at their ends."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple
from zlib import crc32

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from phmrun.errors import PhmrunError
from phmrun.escaping import printable
from phmrun.files import replacing
from phmrun.ledger.wording import shared
from phmrun.registry import STRUCTURES

ENDINGS = (".png", ".svg", ".pdf")
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
"""Colors of Okabe and Ito, distinguishable with color blindness."""


_NAMED = ("phm", "low-rank", "monarch", "kronecker", "circulant", "hypercomplex", "added", "dense")
COLORS = dict(zip(_NAMED, PALETTE, strict=True))
"""Colors of structures through all pictures; others have one of :data:`FURTHER` by their name, dense is black."""
FURTHER = ("#332288", "#88CCEE", "#44AA99", "#117733", "#999933", "#DDCC77", "#CC6677", "#882255", "#AA4499")
DASHES, MARKERS = ("-", "--", ":", "-."), "os^DvP*X<>"
LABEL = 30  # characters of a line beside a plot
_LINE = 0.15  # inches of a line of such a label


class Style(NamedTuple):
    """Color, dashes and marker of a line or point."""

    color: str
    dashes: str
    marker: str


def styles(names: Iterable[str]) -> list[Style]:
    """Return a style for each name of a line or point.

    The structure that a name contains decides the color, so that it is the same through all pictures; dashes and marker
    count the names of one color. Names without a structure have colors in their order.
    """
    structures = set(STRUCTURES.names())
    variants, nameless, chosen = Counter[str](), 0, []
    for name in names:
        parts = [*re.findall(r"[\w.+/-]+", name), *re.findall(r"[a-z][a-z-]*", name)]  # whole names first
        structure = next((word for word in parts if word in structures), "")
        place = crc32(structure.encode()) if structure else nameless
        color = COLORS.get(structure) or FURTHER[place % len(FURTHER)]
        chosen.append(Style(color, DASHES[variants[color] % len(DASHES)], MARKERS[variants[color] % len(MARKERS)]))
        variants[color] += 1
        nameless += not structure
    return chosen


def label_ends(axes: Axes, ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write the names of curves at the right of a plot, each at the height of its curve's end.

    Names that would overlap are moved apart, and a thin line leads to the end. The axes' limits and scales must not
    change afterwards; the figure grows if the names need more room than its height.

    Args:
        axes: Plot of the curves.
        ends: Last place, last value, name and color of each curve.
    """
    figure: Any = axes.figure
    texts = [fill(words(name), LABEL) for _, _, name, _ in ends]
    room = [_LINE * (1 + text.count("\n")) for text in texts]
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, max(height, sum(room) + 1.4))
    scale = 1 / (figure.get_size_inches()[1] - 1.2)  # of the axes, without title and labels
    axes.get_xlim(), axes.get_ylim()  # Matplotlib sets the limits of the data only when they are read
    to_share = axes.transData + axes.transAxes.inverted()
    heights = [float(to_share.transform((x, y))[1]) for x, y, _, _ in ends]
    order = sorted(range(len(ends)), key=heights.__getitem__)
    placed, floor = dict[int, float](), -1.0
    for place in order:
        placed[place] = max(heights[place], floor + scale * room[place] / 2)
        floor = placed[place] + scale * room[place] / 2
    ceiling = max(floor, 1.0) if sum(room) * scale > 1 else 1.0
    for place in reversed(order):
        placed[place] = min(placed[place], ceiling - scale * room[place] / 2)
        ceiling = placed[place] - scale * room[place] / 2
    for place, (x, y, _, color) in enumerate(ends):
        arrow = {"arrowstyle": "-", "color": color, "linewidth": 0.5, "alpha": 0.6, "relpos": (0, 0.5)}
        axes.annotate(
            texts[place], (x, y), (1.03, placed[place]), "data", "axes fraction", arrow,
            color=color, fontsize=8, va="center", annotation_clip=False,
        )  # fmt: skip


def words(text: str) -> str:
    """Return text for a picture.

    ``$`` and control characters are escaped, home paths shortened.
    """
    return printable(shared(text)).replace("$", r"\$")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically.

    The suffix, in upper or lower case, decides the format; 160 dpi, without dates. An existing file is
    replaced.

    Raises:
        PhmrunError: (exit 2) The suffix is none of ``.png``, ``.svg``, ``.pdf``.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise PhmrunError(f"{path.name!r} does not end as a picture", where="--out", valid=ENDINGS)
    nameless = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None, "ModDate": None}}
    # Type 42 fonts: Type 3, Matplotlib's default, is refused by several publishers.
    settings: Any = {"pdf.fonttype": 42, "svg.hashsalt": "phmrun"}
    with rc_context(settings), replacing(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=160, metadata=nameless[ending])
