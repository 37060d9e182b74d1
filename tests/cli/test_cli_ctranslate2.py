"""A trained run handed to CTranslate2, and decoded by it, through the command line."""

import json

import pytest

pytestmark = pytest.mark.long

pytest.importorskip("ctranslate2")


@pytest.fixture
def runs(tiny_run):
    """A directory with one short translation run."""
    return "--runs-dir", str(tiny_run("nmt").path.parent)


def test_a_run_is_exported_scored_by_both_engines_and_used(phmrun, runs, tmp_path, type_in):
    def says(*arguments, text=b""):
        type_in(text)
        result = phmrun(*arguments, *runs)
        assert result.code == 0, result.err
        return result.out

    shown = json.loads(says("export", "latest", "--format", "ctranslate2", "--out", str(tmp_path / "m"), "--json"))
    assert shown["format"] == "ctranslate2"
    assert shown["bytes"] > 0
    assert (tmp_path / "m" / "model.bin").is_file()

    # A model of ten steps does not end its outputs, and at their limit the two engines differ.
    ours = says("predict", "latest", "--set", "decoding.penalty=power", text=b"w1 w2 w3\n\n")
    theirs = says("predict", "latest", "--engine", "ctranslate2", text=b"w1 w2 w3\n\n")
    assert ours.count("\n") == theirs.count("\n") == 2

    metrics = json.loads(says("eval", "latest", "--engine", "ctranslate2", "--quantization", "int8", "--json"))
    signature = metrics["metrics"]["test-engine-ctranslate2-quantization-int8/bleu"]["signature"]
    assert "penalty:power" in signature
    assert "engine:ctranslate2-" in signature
    assert "arithmetic:int8" in signature

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.bin").write_text("precious")
    taken = phmrun("export", "latest", "--format", "ctranslate2", "--out", str(tmp_path / "mine"), *runs)
    assert taken.code == 2
    assert "other files would be overwritten" in taken.err
    assert (tmp_path / "mine" / "model.bin").read_text() == "precious"

    alone = phmrun("predict", "latest", "--quantization", "int8", *runs)
    assert alone.code == 2
    assert "engine=ctranslate2" in alone.err


def test_other_tasks_are_referred_to_onnx(phmrun, tiny_run, tmp_path):
    tiny_run("sva")
    result = phmrun("export", "latest", "--format", "ctranslate2", "--runs-dir", str(tmp_path / "runs"))
    assert result.code == 2
    assert "--format onnx" in result.err
    for arguments, messages in (
        (("eval", "latest", "--engine", "ctranslate2"), "sva has no settings of decoding: leave out engine"),
        (("export", "latest", "--quantization", "int3"), "no quantization 'int3'"),
        (("export", "latest", "--format", "ctranslate2", "--factored"), "only safetensors files keep"),
        (("export", "latest", "--compare", "--checkpoint", "last"), "--compare writes all formats"),
        (("export", "latest", "--split", "dev"), "--compare --split dev"),
        (("export", "latest", "--format", "ctranslate3"), "'ctranslate2'"),
    ):
        refused = phmrun(*arguments, "--runs-dir", str(tmp_path / "runs"))
        assert refused.code == 2
        assert messages in refused.err
