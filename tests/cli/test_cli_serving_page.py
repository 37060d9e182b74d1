"""The commands from a corpus to a served model, in the order of the page, on a small corpus."""

import re
import shlex
from pathlib import Path

import pytest
from tiny_experiments import write_corpus

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[2] / "docs" / "smaller.md"


def test_the_five_commands_lead_to_a_served_model(phmrun, tmp_path, monkeypatch, type_in):
    pytest.importorskip("ctranslate2")
    write_corpus(tmp_path / "corpus")
    for path in list((tmp_path / "corpus").iterdir()):
        path.rename(path.with_suffix({".aa": ".en", ".bb": ".de"}[path.suffix]))
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    commands = block.strip().splitlines()
    assert len(commands) == 5
    for command in commands:
        command, _, redirected = command.partition(" < ")
        arguments = shlex.split(command.replace("3000", "3"))[1:]
        if redirected:
            text = Path(redirected.split(" > ")[0]).read_bytes()
            type_in(text)
        result = phmrun(*arguments)
        assert result.code == 0, result.err
        if redirected:
            assert result.out.count("\n") == text.count(b"\n")
    assert {path.name for path in (tmp_path / "served").iterdir()} >= {"model.bin", "config.json", "subwords.model"}
