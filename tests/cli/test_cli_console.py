import logging
from pathlib import Path

import pytest

from phmrun.cli import console
from phmrun.errors import PhmrunError

ERROR = PhmrunError("it broke [red]x[/red]", where="a.yaml:3", valid=["x", "y"], hint="Do so.")


@pytest.fixture(autouse=True)
def usual_verbosity():
    yield
    console.set_verbosity(logging.INFO)


def test_plain_error_lines_where_there_is_no_terminal(capsys):
    console.print_error(ERROR)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "phmrun: error: a.yaml:3: it broke [red]x[/red]\nvalid: x, y\nDo so.\n"


@pytest.mark.parametrize(
    ("level", "seen"),
    [
        (logging.WARNING, ["warning"]),
        (logging.INFO, ["info", "warning"]),
        (logging.DEBUG, ["debug", "info", "warning"]),
    ],
)
def test_verbosity(capsys, level, seen):
    console.set_verbosity(level)
    logger = logging.getLogger("phmrun.some.module")
    for name in ("debug", "info", "warning"):
        getattr(logger, name)(name)
    printed = capsys.readouterr()
    assert printed.err.split() == seen
    assert printed.out == ""


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_names_cannot_steer_the_terminal(capsys, name):
    getattr(console, name)().print("a\x1b[2J [b]", markup=False)
    assert "a\\x1b[2J [b]\n" in capsys.readouterr()


def test_scores_stand_beside_their_baselines_in_one_table(capsys):
    values = {"accuracy": 50.08, "accuracy-1": 50.0, "accuracy-of-majority": 49.0, "accuracy-of-nearest-noun-1": 0.2}
    metrics = {f"test/{name}": {"value": value, "n": 500, "signature": name[:8]} for name, value in values.items()}
    console.print_result("a run", Path(), {}, False, "interrupted")
    assert capsys.readouterr().out == "run a run is interrupted; the same command continues it\n"
    console.print_scores({"train/loss": 0.7, **metrics})
    heads, loss, whole, part, *rest = capsys.readouterr().out.splitlines()
    assert heads.split() == ["metric", "value", "95", "%", "interval", "majority", "nearest-noun", "over"]
    assert loss.split() == ["train/loss", "0.7"]
    assert whole.split() == ["test/accuracy", "50.08", "49.00", "500", "[1]"]
    assert part.split() == ["test/accuracy-1", "50.00", "0.20", "500", "[1]"]
    assert rest[0].startswith("[1, majority, nearest-noun] accuracy")
