"""Figures and their files, written atomically and reproducibly."""

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from phmrun.errors import PhmrunError, unknown
from phmrun.escaping import printable
from phmrun.files import replacing
from phmrun.ledger.card import shared

ENDINGS = (".png", ".svg", ".pdf")
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
"""Colors of Okabe and Ito, distinguishable with color blindness."""


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches.

    It has no global pyplot state.
    """
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def words(text: str) -> str:
    """Return text for a picture.

    ``$`` and control characters are escaped, home paths shortened.
    """
    return printable(shared(text)).replace("$", r"\$")


WIDTHS = {"column": 3.25, "page": 6.75}
"""Widths in inches: a column of a two-column paper, and its page."""


def resized(figure: Figure, width: str) -> None:
    """Give a figure the width of a "column" or "page", in place.

    These are 3.25 and 6.75 inches. Text keeps its size. The height shrinks in proportion, but to no less than two
    thirds; it never grows.

    Raises:
        PhmrunError: (exit 2) There is no such width.
    """
    if width not in WIDTHS:
        raise unknown("width", width, WIDTHS, where="--width")
    before, height = figure.get_size_inches()
    figure.set_size_inches(WIDTHS[width], height * min(1.0, max(WIDTHS[width] / before, 2 / 3)))


def save_figure(figure: Figure, path: Path, *, text: bool = False) -> None:
    """Write a figure atomically.

    The suffix, in upper or lower case, decides the format; 160 dpi, without dates. With ``text``, letters of an SVG
    are text in a font of the reader's, in place of outlines. An existing file is replaced.

    Raises:
        PhmrunError: (exit 2) The suffix is none of ``.png``, ``.svg``, ``.pdf``.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise PhmrunError(f"{path.name!r} does not end as a picture", where="--out", valid=ENDINGS)
    nameless = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None, "ModDate": None}}
    # Type 42 fonts: Type 3, Matplotlib's default, is refused by several publishers.
    settings: Any = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none" if text else "path"}
    with rc_context({**settings, "svg.hashsalt": "phmrun"}), replacing(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=160, metadata=nameless[ending])
