"""Tables on a narrow terminal: what is left out, what is folded, and that nothing is cut."""

import io

import pytest
from rich.console import Console

from phmrun.cli import console


@pytest.fixture
def screen(monkeypatch, capsys):
    """Print a table on a terminal of a width, and return its lines."""

    def show(width, columns, rows, **more):
        text = io.StringIO()
        terminal = Console(file=text, force_terminal=True, width=width, color_system=None)
        monkeypatch.setattr(console, "stdout", lambda: terminal)
        console.print_table(columns, rows, **more)
        return text.getvalue().splitlines()

    return show


def test_the_longest_verdict_of_a_pair_stays_in_80_columns(screen):
    heads = ("row", "beside", "Δ", "95 % interval", "p", "detectable", "seeds", "verdict")
    name = "guided of=low-rank options=budget=1/4, lr 0.006"
    row = (name, name, "-2.79", "-6.51 to +0.92", "0.067", "4.58", "3", "not worse by more than 0.5")
    first, *_ = screen(80, heads, [row], drop=("detectable", "seeds", "p"), labels=("row", "beside", "verdict"))
    assert all(name in first for name in ("row", "beside", "95 % interval", "verdict"))


def test_a_table_that_fits_exactly_is_not_cut(screen):
    for width in (34, 35, 38, 40):
        lines = screen(width, ("row", "verdict"), [("a long name of a row", "different, worse")], labels=("row",))
        assert "".join(lines).count("different, worse") == 1


def test_names_are_never_folded_and_columns_left_out_are_named(screen, capsys):
    name = "sva-builtin-low-rank-1-6505820b2368"
    columns = ("run", "state", "layer", "parameters", "step", "test/accuracy")
    rows = [(name, "done", "low-rank budget=1/4", 280834, 30, 49.96)]
    lines = screen(60, columns, rows, drop=("step", "state", "parameters", "layer"))
    assert [line.split() for line in lines[1:]] == [[name, "49.96"]]
    assert "too narrow for: state, layer, parameters, step" in capsys.readouterr().err
