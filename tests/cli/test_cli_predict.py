import io
import json
import sys

import pytest


class Standard(io.TextIOWrapper):
    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def type_in(monkeypatch):
    def standard_input(data: bytes, terminal: bool = False) -> None:
        monkeypatch.setattr(sys, "stdin", Standard(data, terminal))

    return standard_input


def test_line_by_line(phmrun, experiment, run_dir, type_in):
    type_in("ein hund\r\n\nzwei hünde".encode())
    result = phmrun("predict", str(run_dir), "--beam", "2")
    assert (result.code, result.out) == (0, "EIN HUND\n\nZWEI HÜNDE\n")
    assert result.err == ""
    assert experiment.calls[0][2]["decoding"] == {"beam": 2}


def test_json_lines(phmrun, experiment, run_dir, type_in):
    type_in(b"a\nb\n")
    lines = phmrun("predict", str(run_dir), "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [{"prediction": "A"}, {"prediction": "B"}]


def test_a_terminal_is_prompted_on_standard_error(phmrun, experiment, run_dir, type_in):
    type_in(b"a\n", terminal=True)
    result = phmrun("predict", str(run_dir))
    assert result.out == "A\n"
    assert "> " in result.err
    assert experiment.calls[0][2]["batch_size"] == 1


def test_text_that_is_not_utf8(phmrun, experiment, run_dir, type_in):
    type_in(b"a\n\xff\n")
    result = phmrun("predict", str(run_dir))
    assert result.code == 3
    assert "standard input:2" in result.err
