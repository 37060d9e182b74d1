"""Code that a program registers itself is part of its experiments' ids."""

import importlib
import subprocess
import sys
import textwrap

import pytest
from tiny_experiments import configured

from phmrun.engine.code import foreign_marks
from phmrun.errors import PhmrunError
from phmrun.registry import STRUCTURES

LAYER = """
from phmrun.layers import register
from phmrun.layers.structures.low_rank import LowRank

@register("own-rank")
class OwnRank(LowRank):
    formula = "W = U V"

    def reset_parameters(self, std):
        super().reset_parameters({scale} * std)
"""


@pytest.fixture
def marks(tmp_path, monkeypatch):
    """Function that writes a module with a scale, imports it, and returns the marks of an experiment with its layer."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(STRUCTURES, "_registered", dict(STRUCTURES._registered))

    def of(scale, comment=""):
        (tmp_path / "own_layers.py").write_text(LAYER.format(scale=scale) + comment, encoding="utf-8")
        sys.modules.pop("own_layers", None)
        STRUCTURES._registered.pop("own-rank", None)
        importlib.invalidate_caches()
        importlib.import_module("own_layers")
        return foreign_marks(configured("sva", tmp_path / "corpus", {"layer": {"structure": "own-rank"}}))

    yield of
    sys.modules.pop("own_layers", None)


def test_an_imported_module_that_changes_makes_another_experiment(marks):
    first, same, other = marks("1.0"), marks("1.0", "# a comment\n"), marks("2.0")
    assert first.keys() == {"module own_layers: layer own-rank"}
    assert first == same
    assert first != other


@pytest.mark.parametrize("place", ["file", "stdin"])
def test_a_class_of_the_program_itself_is_read_or_refused(place, tmp_path):
    program = textwrap.dedent(LAYER).format(scale="1.0") + (
        "import phmrun\nplan = phmrun.plan('sva', layer='own-rank', settings={'model.width': 32})\nprint(plan.run_id)\n"
    )
    ids = []
    for text in (program, "# a comment\n" + program, program.replace("1.0", "2.0")):
        (tmp_path / "program.py").write_text(text, encoding="utf-8")
        command = [sys.executable, *([str(tmp_path / "program.py")] if place == "file" else ["-"])]
        ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        ids.append(ended.stdout.strip())
        if place == "stdin":
            assert PhmrunError.__name__ in ended.stderr
            assert "the code of OwnRank cannot be read" in ended.stderr
            return
    assert ids[0] == ids[1] != ids[2]
