"""Columns that fit a terminal: what is left out, what is folded, and that nothing is cut."""

from hypothesis import given
from hypothesis import strategies as some

from phmrun.cli.columns import Columns

TEXTS = some.text("abc de.", min_size=1, max_size=40)


@given(data=some.data(), count=some.integers(1, 7), width=some.integers(10, 120))
def test_what_is_shown_fits_unless_it_is_the_first_column_alone(data, count, width):
    heads = data.draw(some.lists(TEXTS, min_size=count, max_size=count, unique=True))
    cells = [data.draw(some.lists(TEXTS, min_size=2, max_size=2)) for _ in heads]
    drop, labels = (data.draw(some.lists(some.sampled_from(heads), unique=True)) for _ in range(2))
    columns = Columns(heads, cells)
    columns.fit(width, drop, labels)
    total = sum(columns.widths[place] for place in columns.kept) + 2 * (len(columns.kept) - 1)
    assert total <= width or columns.kept == [0]
    assert columns.kept == sorted(columns.kept)
    assert columns.kept[0] == 0
    for place in columns.kept:
        longest = max(map(len, [columns.heads[place], *cells[place]]))
        assert min(longest, 16) <= columns.widths[place] <= longest
        if heads[place] not in labels:
            assert columns.widths[place] >= min(longest, 60 if place == 0 else 24)
