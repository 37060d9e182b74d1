"""Figures and their files, written atomically and reproducibly."""

from pathlib import Path

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from phmrun.errors import PhmrunError
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


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure atomically.

    The file's suffix, in any case, decides the format; 160 dpi, without dates.

    Raises:
        PhmrunError: (exit 2) The suffix is none of :data:`ENDINGS`.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise PhmrunError(f"{path.name!r} does not end as a picture", where="--out", valid=ENDINGS)
    nameless = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None, "ModDate": None}}
    with rc_context({"svg.hashsalt": "phmrun"}), replacing(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=160, metadata=nameless[ending])
