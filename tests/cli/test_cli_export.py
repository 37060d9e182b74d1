"""``phmrun export``: what is written, and as a function of what."""

import json

import pytest

from phmrun.exchange import formats as exporting


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """The arguments of each call in place of a run's export."""
    created = []

    def export(trained, path, kind, **form):
        created.append((path, kind, form))
        inputs = {"word": ("batch",), "h0": ("batch", 24)}
        return exporting.Exported(tmp_path / "model.onnx", kind, 3 << 20, 2.5e-7, inputs, ["log_probabilities"])

    monkeypatch.setattr(exporting, "export", export)
    monkeypatch.setattr("phmrun.engine.trained_model.open_run", lambda run: run)
    return created


def test_what_the_file_is_a_function_of(phmrun, calls, run_dir, tmp_path):
    result = phmrun("export", str(run_dir), "--format", "onnx", "--out", str(tmp_path / "x"), "--checkpoint", "last")
    assert result.code == 0
    assert calls == [(tmp_path / "x", "onnx", {"factored": False, "precision": "none", "checkpoint": "last"})]
    assert "word [batch], h0 [batch, 24] -> log_probabilities" in result.out
    assert "3.0 MiB" in result.out
    assert "2.5e-07" in result.out


def test_export_json_names_inputs_outputs_and_difference(phmrun, calls, run_dir):
    report = json.loads(phmrun("export", str(run_dir), "--json").out)
    assert calls[0][1] == "safetensors"
    assert report["inputs"] == {"word": ["batch"], "h0": ["batch", 24]}
    assert report["outputs"] == ["log_probabilities"]
    assert report["difference"] == 2.5e-7
