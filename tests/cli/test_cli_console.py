import io
import logging

import pytest
from rich.console import Console

from phmrun.cli import console
from phmrun.cli.console import Verbosity
from phmrun.errors import PhmrunError

ERROR = PhmrunError("it broke [red]x[/red]", where="a.yaml:3", valid=["x", "y"], hint="Do so.")


@pytest.fixture(autouse=True)
def usual_verbosity():
    yield
    console.set_verbosity(Verbosity.NORMAL)


def test_plain_error_lines_where_there_is_no_terminal(capsys):
    console.print_error(ERROR)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "phmrun: error: a.yaml:3: it broke [red]x[/red]\nvalid: x, y\nDo so.\n"


def test_a_panel_on_a_terminal(monkeypatch):
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=60, color_system=None)
    monkeypatch.setattr(console, "stderr", lambda: terminal)
    console.print_error(ERROR)
    text = screen.getvalue()
    assert "╭─ Error" in text
    for part in ("a.yaml:3", "it broke [red]x[/red]", "valid: x, y", "Do so."):
        assert part in text


def test_numbers_stand_at_the_right_and_text_is_not_markup(capsys):
    console.print_table(("name [k, d]", "count"), [("[bold]a[/bold]", 1234567), ("b", None), ("c", 0.12345)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("name [k, d]")
    assert "[bold]a[/bold]" in lines[1]
    assert lines[1].rstrip().endswith("1,234,567")
    assert lines[2].rstrip().endswith("–")
    assert lines[3].rstrip().endswith("0.1235")


def test_a_long_table_is_written_as_a_short_one_is(capsys, monkeypatch):
    rows = [(f"名{number}" * (number % 3), number * 1000, None if number % 5 else 0.5) for number in range(20)]
    console.print_table(("name", "count", "share"), rows, title="Runs")
    short = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    monkeypatch.setattr(console, "_LONG_TABLE", 20)
    console.print_table(("name", "count", "share"), rows, title="Runs")
    assert capsys.readouterr().out.splitlines() == short


@pytest.fixture
def narrow(monkeypatch):
    """A terminal of 60 columns for results, and what is printed on it."""
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=60, color_system=None)
    monkeypatch.setattr(console, "stdout", lambda: terminal)
    return screen


def test_names_are_never_folded_and_columns_left_out_are_named(narrow, capsys):
    name = "sva-builtin-low-rank-1-6505820b2368"
    columns = ("run", "state", "layer", "parameters", "step", "test/accuracy")
    rows = [(name, "done", "low-rank budget=1/4", 280834, 30, 49.96)]
    console.print_table(columns, rows, drop=("step", "state", "parameters", "layer"))
    lines = narrow.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1].split() == [name, "49.96"]
    assert "too narrow for: state, layer, parameters, step" in capsys.readouterr().err


def test_what_fits_is_kept_and_long_texts_are_folded(narrow, capsys):
    console.print_table(("key", "value"), [("a", "x" * 100), ("b", "short")])
    assert narrow.getvalue().count("x") == 100
    assert capsys.readouterr().err == ""


def test_long_cells_are_not_cut(capsys):
    console.print_table(("metric", "value", "signature"), [("bleu", 1.0, "x" * 300)])
    assert capsys.readouterr().out.count("x") == 300


def test_a_signature_stands_once_below_the_scores(capsys):
    same = {"signature": "nrefs:1", "n": 1000, "unit": "sentences"}
    console.print_scores(
        {
            "test/bleu": {"value": 31.256, "ci": [30.0, 32.5], **same},
            "test/bleu-of-copy": {"value": 0.5, **same},
            "test/las": {"value": 0.2, "ci": [-0.001, 0.5], **same},
            "test/speed": {"value": 9, "signature": "device:cpu"},
            "loss": 2.5,
        }
    )
    *table, first, second, baseline = capsys.readouterr().out.splitlines()
    assert table[1].split() == ["test/bleu", "31.26", "30.00", "–", "32.50", "1,000", "sentences", "[1]"]
    assert [row.split()[-1] for row in table[2:5]] == ["[1]", "[1]", "[2]"]
    assert table[3].split()[1:5] == ["0.20", "0.00", "–", "0.50"]
    assert table[2].index("0.50") == table[3].index("0.20") == table[1].index("31.26") + 1
    assert table[5].split() == ["loss", "2.50"]
    assert (first, second) == ("[1] nrefs:1", "[2] device:cpu")
    assert baseline == "copy: the source, copied"


def test_json_is_one_line(capsys):
    console.print_json({"a": "ü", "b": [1, None]})
    assert capsys.readouterr().out == '{"a": "ü", "b": [1, null]}\n'


@pytest.mark.parametrize(
    ("verbosity", "seen"),
    [
        (Verbosity.QUIET, ["warning"]),
        (Verbosity.NORMAL, ["info", "warning"]),
        (Verbosity.VERBOSE, ["debug", "info", "warning"]),
    ],
)
def test_verbosity(capsys, verbosity, seen):
    console.set_verbosity(verbosity)
    assert console.verbosity() == verbosity
    logger = logging.getLogger("phmrun.some.module")
    for level in ("debug", "info", "warning"):
        getattr(logger, level)(level)
    printed = capsys.readouterr()
    assert printed.err.split() == seen
    assert printed.out == ""


def test_a_repeated_note_is_printed_once_until_another_comes_or_the_next_command(capsys):
    logger = logging.getLogger("phmrun.some.module")
    for _ in range(2):
        console.set_verbosity(Verbosity.NORMAL)
        for text in ("changed", "changed", "other", "changed"):
            logger.info(text)
    assert capsys.readouterr().err.split() == ["changed", "other", "changed"] * 2


def test_warnings_of_scores_reach_the_screen(capsys):
    warned = {"value": 1.0, "warnings": ["That's 100 lines that end in a tokenized period ('.')"]}
    console.print_scores({"test/bleu": warned, "test/chrf": warned})
    assert capsys.readouterr().err.count("tokenized period") == 1


def test_preparing_is_said_at_once_unless_quiet(capsys):
    with console.preparing():
        assert capsys.readouterr().err == "preparing\n"
    console.set_verbosity(Verbosity.QUIET)
    with console.preparing():
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_names_cannot_steer_the_terminal(capsys, name):
    getattr(console, name)().print("a\x1b[2J [b]", markup=False)
    assert "a\\x1b[2J [b]\n" in capsys.readouterr()


def test_notes_break_between_words_on_a_terminal_only(narrow, capsys, monkeypatch):
    text = "estimand: " + "a difference of means " * 5
    console.print_note(text)
    assert max(map(len, narrow.getvalue().splitlines())) <= 60
    monkeypatch.undo()
    console.print_note(text)
    assert capsys.readouterr().out == f"{text}\n"
