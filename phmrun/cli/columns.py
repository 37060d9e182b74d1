"""Columns of a table that has to fit a terminal."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

_FOLDED, _NAME, _LABEL, _GAP = 24, 60, 16, 2
"""Characters: width to which wide columns may be folded, longest name that is never folded, width to which labels may
be folded, space between columns."""


class Columns:
    """Columns with their widths, some of them left out.

    Attributes:
        heads: Heads of all columns; :meth:`fit` shortens those of labels.
        widths: Width of each column, in characters.
        kept: Places of the columns that are shown, in order.
    """

    def __init__(self, heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
        """Keep all columns, as wide as they are without folding.

        Args:
            heads: Their heads.
            cells: Their texts, by column.
        """
        self.heads, self._cells = list(heads), cells
        self.widths = [self._longest(place) for place in range(len(heads))]
        self.kept = list(range(len(heads)))

    def fit(self, width: int, drop: Sequence[str] = (), labels: Sequence[str] = ()) -> None:
        """Leave out and fold columns until they fit a width in characters, with two between columns.

        Names of up to 60 characters in the first column, and other cells of up to 24, are not folded. Columns of
        ``drop`` are left out first, in its order. If that is not enough, the columns of ``labels`` lose the sections of
        dotted heads ("lr") and are folded, to 16 characters at least. Then others are left out from the right. The
        first column is kept, even if it does not fit. Folded columns share what is left of the width.
        """
        names, wide = list(self.heads), list(self.widths)
        self.widths = [self._least(place) for place in self.kept]
        self._leave_out([names.index(name) for name in drop if name in names], width)
        if self._excess(width) > 0:
            chosen = [place for place in self.kept if names[place] in labels]
            for place in chosen:
                self.heads[place] = _last_section(names[place], names)
                wide[place] = self._longest(place)
                self.widths[place] = self._least(place)
            while self._excess(width) > 0 and (foldable := [place for place in chosen if self.widths[place] > _LABEL]):
                self.widths[max(foldable, key=self.widths.__getitem__)] -= 1
            self._leave_out(list(reversed(self.kept)), width)
        for place in self.kept:
            self.widths[place] += max(0, min(wide[place] - self.widths[place], -self._excess(width)))

    def _longest(self, place: int) -> int:
        """Return the width of a column without folding."""
        return max(map(cell_len, [self.heads[place], *self._cells[place]]))

    def _least(self, place: int) -> int:
        """Return the width below which a column is not folded, unless it has labels."""
        longest = self._longest(place)
        return longest if longest <= (_NAME if place == 0 else _FOLDED) else _FOLDED

    def _excess(self, width: int) -> int:
        """Return the characters by which the kept columns are too wide; negative if they fit."""
        return sum(self.widths[place] for place in self.kept) + _GAP * (len(self.kept) - 1) - width

    def _leave_out(self, candidates: Iterable[int], width: int) -> None:
        """Leave out candidates, in their order, until the rest fits."""
        for place in candidates:
            if self._excess(width) <= 0:
                return
            if place != 0:
                self.kept.remove(place)


def _last_section(name: str, names: Sequence[str]) -> str:
    """Return the last section of a dotted name if no other name ends with it, else the name."""
    last = name.rpartition(".")[2]
    return last if [other.rpartition(".")[2] for other in names].count(last) == 1 else name
