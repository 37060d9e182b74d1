"""Columns that fit a terminal: what is left out, what is folded, and that nothing is cut."""

import io

from hypothesis import given
from hypothesis import strategies as some
from rich.console import Console

from phmrun.cli import console
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


def test_labels_are_folded_before_scores_are_left_out():
    heads = ("layer", "training.optimizer.lr", "model", "parameters", "test/bleu", "seeds")
    cells = [["low-rank budget=1/4"], ["0.006"], ["width=84, feedforward=336"], ["743,936"], ["31.02 ± 0.24*"], ["4"]]
    columns = Columns(heads, cells)
    columns.fit(64, ("parameters", "seeds"), heads[:3])
    assert [columns.heads[place] for place in columns.kept] == ["layer", "lr", "model", "test/bleu"]
    assert columns.widths[0] + columns.widths[1] + columns.widths[2] + 13 + 6 == 64
    wide = Columns(heads, cells)
    wide.fit(200, ("parameters", "seeds"), heads[:3])
    assert wide.heads == list(heads)
    assert wide.widths == [19, 21, 25, 10, 13, 5]


def test_the_longest_verdict_of_a_pair_stays_in_80_columns():
    heads = ("row", "beside", "Δ", "95 % interval", "p", "detectable", "seeds", "verdict")
    name = "guided of=low-rank options=budget=1/4, lr 0.006"
    cells = [
        [text] for text in (name, name, "-2.79", "-6.51 to +0.92", "0.067", "4.58", "3", "not worse by more than 0.5")
    ]
    columns = Columns(heads, cells)
    columns.fit(80, ("detectable", "seeds", "p"), ("row", "beside", "score", "verdict"))
    assert [heads[place] for place in columns.kept] == ["row", "beside", "Δ", "95 % interval", "verdict"]


def test_two_heads_with_one_last_section_keep_theirs():
    columns = Columns(("layer.n", "embedding.n", "score"), [["8"], ["4"], ["x" * 20]])
    columns.fit(22, (), ("layer.n", "embedding.n"))
    assert columns.heads[:2] == ["layer.n", "embedding.n"]


def test_a_table_that_fits_exactly_is_not_cut(monkeypatch):
    screen = io.StringIO()
    for width in (34, 35, 38, 40):
        terminal = Console(file=screen, force_terminal=True, width=width, color_system=None)
        monkeypatch.setattr(console, "stdout", lambda terminal=terminal: terminal)
        console.print_table(("row", "verdict"), [("a long name of a row", "different, worse")], labels=("row",))
    assert screen.getvalue().count("different, worse") == 4
