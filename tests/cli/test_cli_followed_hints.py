"""Printed hints, followed: each is provoked, parsed out of the message and executed in the same folder."""

import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from followed_hints import HINTS, NMT, SVA, Hint
from test_cli_hints import FILES, texts
from tiny_experiments import SETTINGS

from phmrun.cli.app import main
from phmrun.registry import METRICS, STRUCTURES, TASKS, networks

pytestmark = pytest.mark.long

TRAINING = {"max_steps": 2, "max_epochs": None, "validate_every": 1, "checkpoint_every": 1}


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Folder with the data, configs and finished runs of small experiments; ``saved`` beside it is a copy."""
    folder = tmp_path_factory.mktemp("hints") / "here"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for task in ("nmt", "sva", "nli", "lm"):
            settings = SETTINGS[task](Path(f"{task}-data"))
            settings["training"] = {**settings.get("training", {}), **TRAINING}
            settings |= {"hardware": {"accelerator": "cpu", "threads": 1}, "logging": {"wandb": "disabled"}}
            Path(f"{task}.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        sweep = {"task": "sva", "base": yaml.safe_load(Path("sva.yaml").read_text(encoding="utf-8"))}
        sweep |= {"grid": {"layer": ["dense", {"structure": "phm", "n": 2}]}, "seeds": 1}
        Path("sweep.yaml").write_text(yaml.safe_dump(sweep), encoding="utf-8")
        for command in (NMT, SVA):
            with pytest.raises(SystemExit) as end:
                main(shlex.split(command))
            assert end.value.code == 0
    shutil.copytree(folder, folder.parent / "saved")
    return folder


@pytest.fixture
def folder(trained, monkeypatch) -> Path:
    """Working directory of one test, as ``trained`` left it; registries forget what the test adds."""
    shutil.rmtree(trained)
    shutil.copytree(trained.parent / "saved", trained)
    monkeypatch.chdir(trained)
    monkeypatch.setenv("PHMRUN_DATA", str(trained / "data"))
    for registry in (STRUCTURES, METRICS, TASKS, networks("sva")):
        monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return trained


def filled(command: str, values: Mapping[str, str]) -> str:
    """Command with its placeholders replaced."""
    for placeholder, value in values.items():
        command = command.replace(placeholder, value)
    return command


@pytest.mark.parametrize("hint", HINTS, ids=[f"{number} {hint.text}" for number, hint in enumerate(HINTS)])
def test_a_followed_hint_works(hint: Hint, folder: Path, phmrun) -> None:
    runs = {f"{{{task}}}": str(next(Path("elsewhere").glob(f"{task}-*"))) for task in ("nmt", "sva")}
    provoke = filled(hint.provoke, runs)
    hint.prepare(folder)
    first = phmrun(*shlex.split(provoke))
    message = first.out + first.err
    printed = re.search(hint.text, message)
    if not printed:
        pytest.fail(f"{hint.text!r} is not a hint of: phmrun {provoke}\n{message}", pytrace=False)
    kept = provoke.replace(hint.without, "")
    # Options are added to the command that provoked the hint.
    command = printed[1].removeprefix("phmrun ") if printed[1].startswith("phmrun ") else f"{kept} {printed[1]}"
    command = filled(filled(f"{command} {hint.also}", hint.fill), runs)
    followed = phmrun(*shlex.split(command))
    if followed.code != hint.code:
        pytest.fail(f"exit {followed.code} of: phmrun {command}\n{followed.out}{followed.err}", pytrace=False)


COMPLETE = re.compile(r"`phmrun ((?:data|layers|schema|runs|doctor)[a-z ]*)`")


def test_complete_commands_in_hints_run(folder, phmrun) -> None:
    commands = {command for path in FILES for text in texts(path) for command in COMPLETE.findall(text)}
    assert {"data list", "runs list", "layers"} <= commands
    for command in sorted(commands):
        assert phmrun(*command.split()).code == 0, command
