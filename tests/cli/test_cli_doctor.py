import json

import pytest

from phmrun import kernels
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


def test_the_text_is_numbered(phmrun):
    lines = phmrun("doctor").out.splitlines()
    assert lines[0].startswith(" 1 ✓ Python: 3.")
    assert any(line.startswith("10 ") for line in lines)


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


def test_a_runs_directory_that_cannot_be_made(phmrun, tmp_path):
    (tmp_path / "file").write_text("in the way")
    code, usable, checks = found(phmrun, "--runs-dir", str(tmp_path / "file" / "runs"))
    assert (code, usable) == (2, False)
    assert "--runs-dir" in checks["runs directory"]["advice"]


def test_online_without_a_key(phmrun, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    assert found(phmrun)[2]["W&B"]["status"] == "warning"


def test_little_space(phmrun, monkeypatch):
    monkeypatch.setattr(doctor, "_LITTLE_SPACE", 2**80)
    code, _, checks = found(phmrun)
    assert (code, checks["disk"]["status"]) == (0, "warning")


@pytest.mark.parametrize(
    ("bf16", "advice"),
    [(True, "--precision bf16-mixed is faster than 32"), (False, "--precision 32 on the CPU: bf16-mixed takes two to")],
)
def test_advice_on_bf16_in_both_directions(phmrun, monkeypatch, bf16, advice):
    monkeypatch.setattr(kernels, "has_bf16", lambda: bf16)
    assert advice in found(phmrun)[2]["bfloat16"]["advice"]
