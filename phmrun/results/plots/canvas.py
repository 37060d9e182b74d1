"""Figures that are written to a file, whole or not at all, the same for the same content."""

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
"""Colours that are told apart by the colour-blind too (Okabe and Ito)."""


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that no window and no global state knows of."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def words(text: str) -> str:
    """A name or a title as a picture shows it that others see: no formula, and no path in the user's home."""
    return printable(shared(text)).replace("$", r"\$")


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure in the format of the file's ending, which must be that of a picture."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise PhmrunError(f"{path.name!r} does not end as a picture", where="--out", valid=ENDINGS)
    nameless = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None, "ModDate": None}}
    with rc_context({"svg.hashsalt": "phmrun"}), replacing(path) as temporary:
        figure.savefig(temporary, format=ending[1:], dpi=160, metadata=nameless[ending])
