import json

import pytest

from phmrun.cli import doctor


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
    expected = {"Python", "torch", "devices", "pytorch-lightning", "torchtext", "data directory", "datasets"}
    assert set(checks) == expected | {"bfloat16", "load", "runs directory", "W&B", "disk"}
    assert checks["data directory"]["found"] == f"{tmp_path / 'data'} (will be created)"
    assert "offline" in checks["W&B"]["found"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("package", "version", "status"),
    [
        ("pytorch-lightning", "2.6.2", "failed"), ("pytorch-lightning", "2.6.3", "failed"),
        ("pytorch-lightning", "2.5.0", "failed"), ("pytorch-lightning", None, "failed"),
        ("pytorch-lightning", "2.7.1.post1", "ok"), ("torchtext", "0.18.0", "warning"), ("torchtext", None, "warning"),
    ],
)  # fmt: skip
def test_versions(phmrun, monkeypatch, package, version, status):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: version if name == package else real(name))
    code, usable, checks = found(phmrun)
    assert checks[package]["status"] == status
    assert (code, usable) == ((2, False) if status == "failed" else (0, True))
    assert status == "ok" or checks[package]["advice"]
