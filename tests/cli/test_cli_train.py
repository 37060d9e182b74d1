import json
import types
from pathlib import Path

import pytest

from phmrun.config.sources import parse_mapping
from phmrun.errors import PhmrunError


def test_train_is_called_with_the_resolved_configuration(phmrun, experiment, tmp_path):
    runs = tmp_path / "r"
    result = phmrun("train", "nmt", "--layer", "phm", "--n", "8", "--seed", "3", "--runs-dir", str(runs))
    assert result.code == 0
    [(name, (config,), options)] = experiment.calls
    assert name == "train"
    assert (config.layer.structure, config.layer.options["n"], config.seed) == ("phm", 8, 3)
    assert options["runs_dir"] == runs
    assert options["origin"]["layer.n"] == "--n"
    assert (options["restart"], options["extend"], options["plugins"]) == (None, None, {})


def test_scores_are_a_table_with_signatures(phmrun, experiment):
    out = phmrun("train", "nmt").out
    assert "31.25" in out
    assert "nrefs:1|case:mixed" in out
    assert "nmt-x" in out


def test_json_ends_with_one_object(phmrun, experiment):
    result = phmrun("train", "nmt", "--json")
    report = json.loads(result.out)
    assert report["run_id"] == "nmt-x"
    assert report["run_dir"] == str(Path("runs/nmt-x"))
    assert report["metrics"]["test/bleu"]["value"] == 31.25


def test_runs_directory_from_the_environment(phmrun, experiment, monkeypatch, tmp_path):
    monkeypatch.setenv("PHMRUN_RUNS", str(tmp_path))
    phmrun("train", "nmt")
    assert experiment.calls[0][2]["runs_dir"] == tmp_path


def test_dry_run_shows_origins_and_writes_nothing(phmrun, experiment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = phmrun("train", "nmt", "--layer", "phm", "--dry-run")
    assert [call[0] for call in experiment.calls] == ["dry_run"]
    assert list(tmp_path.iterdir()) == []
    [line] = [line for line in result.out.splitlines() if "structure: phm" in line]
    assert line.endswith("# --layer")
    assert "20,000" in result.out
    assert "123,456" in result.out
    text = result.out[: result.out.index("\n\n")]
    layer = parse_mapping(text, "stdout")[0]["layer"]
    assert {"structure": "phm", "n": 4, "variant": "paper"}.items() <= layer.items()


def test_dry_run_as_json(phmrun, experiment):
    report = json.loads(phmrun("train", "nmt", "--dry-run", "--json", "--seed", "5").out)
    assert report["config"]["seed"] == 5
    assert report["origin"]["seed"] == "--seed"
    assert report["parameters"]["total"] == 123_456
    assert report["data"]["train"]["sentences"] == 20_000


def test_restart_needs_an_answer(phmrun, experiment, monkeypatch):
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: PTH123, SIM115
    run = types.SimpleNamespace(id="nmt-x", status=types.SimpleNamespace(step=1200, state="done"))
    phmrun("train", "nmt", "--restart")
    with pytest.raises(PhmrunError, match=r"nmt-x: .* 1,200 steps") as refused:
        experiment.calls[0][2]["restart"](run)
    assert "--yes" in refused.value.hint
    phmrun("train", "nmt", "--restart", "--yes")
    experiment.calls[1][2]["restart"](run)
    phmrun("train", "nmt", "--yes")
    assert experiment.calls[2][2]["restart"] is None


def test_extend_starts_from_the_parent(phmrun, experiment, run_dir):
    result = phmrun(
        "train", "nmt", "--extend", "nmt-builtin-phm-7", "--max-steps", "9", "--runs-dir", str(run_dir.parent)
    )
    assert result.code == 0
    [(_, (config,), options)] = experiment.calls
    assert config.layer.options["n"] == 2
    assert options["extend"] == "nmt-builtin-phm-7"
    assert options["origin"]["training.max_steps"] == "--max-steps"


BAD = [
    (["nmmt"], "no task 'nmmt'"),
    (["nmt", "--layer", "pmh"], "did you mean 'phm'"),
    (["nmt", "--n", "8"], "the layer 'dense' has no option 'n'"),
    (["nmt", "--layer", "phm", "--set", "layer.varaint=paper"], "did you mean 'variant'"),
    (["nmt", "--layer", "phm", "--set", "layer.variant=papper"], "did you mean 'paper'"),
    (["nmt", "--data", "mutli30k"], "Did you mean 'multi30k'"),
    (["nmt", "--preset", "huge"], "valid: tiny, small, base"),
    (["sva", "--preset", "base"], "this task has no --preset"),
    (["nmt", "--set", "modle.width=3"], "did you mean 'model'"),
    (["nmt", "--set", "model.width"], "not of the form key=value"),
    (["nmt", "--set", "model.width=wide"], "must be a whole number"),
    (["nmt", "--set", "model.heads=3"], "3 heads do not divide the width 128"),
    (["nmt", "--config", "none.yaml"], "no such file"),
    (["nmt", "--max-steps", "-1"], "valid: >= 0"),
    (["nmt", "--max-steps", "many"], "--max-steps'"),
    (["nmt", "--lr", "nan"], "must be a finite number"),
    (["nmt", "--max-time", "soon"], "must be HH:MM:SS or a number of minutes"),
    (["nmt", "--precision", "8"], "valid: 32, bf16-mixed, 16-mixed, 64"),
    (["nmt", "--wandb", "maybe"], "valid: offline, online, disabled"),
    (["nmt", "--train-src", "a.en"], "missing: train_target"),
    (["nmt", "--plugin", "none.py"], "plug-in file does not exist"),
    (["nmt", "--extend", "none"], "there is no run 'none'"),
    (["nmt", "--devices", "0"], "must be a number of devices"),
]


@pytest.mark.parametrize(("arguments", "text"), BAD, ids=[" ".join(arguments) for arguments, _ in BAD])
def test_bad_input(phmrun, experiment, tmp_path, monkeypatch, arguments, text):
    monkeypatch.chdir(tmp_path)
    result = phmrun("train", *arguments)
    assert result.code == 2
    assert text in result.err
    assert "Traceback" not in result.err
    assert result.out == ""
    assert experiment.calls == []
    assert list(tmp_path.iterdir()) == []


def test_a_malformed_file_is_named_with_its_line(phmrun, experiment, tmp_path):
    file = tmp_path / "bad.yaml"
    file.write_text("seed: 1\nseed: 2\n")
    assert f"{file}:2: the key 'seed' is given twice" in phmrun("train", "nmt", "--config", str(file)).err
