"""Outputs of `phmrun decide` in the documentation are what the commands print."""

import re
import shlex
from pathlib import Path

import pytest

from phmrun.cli.app import main

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"^\$ (phmrun decide examples/.*)$", re.MULTILINE)
PRINTED = re.compile(COMMAND.pattern + r"\n```\n\n```text\n((?:.+\n)+)```$", re.MULTILINE)
TEXTS = [page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
OUTPUTS = dict(found for text in TEXTS for found in PRINTED.findall(text))


def test_every_documented_command_has_its_output():
    assert OUTPUTS.keys() == {command for text in TEXTS for command in COMMAND.findall(text)}


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_printed_verdict_is_the_commands(command, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as end:
        main(shlex.split(command)[1:])
    assert not end.value.code
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == OUTPUTS[command].splitlines()
