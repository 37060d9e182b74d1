import json
import sys
from importlib.metadata import PackageNotFoundError

import pytest


def found(phmrun, *arguments):
    result = phmrun("doctor", "--json", *arguments)
    report = json.loads(result.out)
    return result.code, report["usable"], {check["name"]: check for check in report["checks"]}


@pytest.fixture(autouse=True)
def quiet_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("WANDB_MODE", raising=False)


def test_a_sound_machine(phmrun, tmp_path):
    code, usable, checks = found(phmrun)
    assert (code, usable) == (0, True)
    expected = {"Python", "torch", "devices", "data directory", "datasets"}
    assert set(checks) == expected | {"bfloat16", "runs directory", "W&B", "disk"}
    assert checks["data directory"]["found"] == f"{tmp_path / 'data'} (will be created)"
    assert "offline" in checks["W&B"]["found"]
    assert list(tmp_path.iterdir()) == []


def test_torch_that_does_not_import_has_failed(phmrun, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    code, usable, checks = found(phmrun)
    assert (code, usable) == (2, False)
    assert checks["torch"]["status"] == "failed"
    assert checks["torch"]["advice"]


def test_a_directory_that_cannot_be_looked_at_is_one_line_of_the_report(phmrun, tmp_path):
    long = str(tmp_path / ("x" * 300))  # as one that only its owner may see, Path.exists raises for it
    _, _, checks = found(phmrun, "--runs-dir", long)
    assert checks["disk"]["status"] in ("ok", "warning")
    assert "x" * 300 in checks["runs directory"]["found"]


def test_a_mode_of_wandb_that_does_not_exist_has_failed(phmrun, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "bogus")
    code, _, checks = found(phmrun)
    assert (code, checks["W&B"]["status"]) == (2, "failed")
    assert "disabled" in checks["W&B"]["advice"]


def test_wandb_that_is_not_installed_is_a_warning(phmrun, monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("phmrun.cli.doctor.version", version)
    code, usable, checks = found(phmrun)
    assert (code, usable, checks["W&B"]["status"]) == (0, True, "warning")
