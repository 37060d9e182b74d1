import types

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


def test_distillation_without_a_teacher_is_refused(phmrun, experiment):
    result = phmrun("train", "nmt", "--set", "distillation.weight=0.3")
    assert (result.code, "Add --teacher RUN" in result.err) == (2, True)


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


def test_resume_takes_task_and_configuration_of_the_run(phmrun, experiment, run_dir):
    result = phmrun("train", "--resume", "latest", "--runs-dir", str(run_dir.parent))
    assert result.code == 0, result.err
    [(_, (config,), options)] = experiment.calls
    assert (config.task, config.layer.options["n"]) == ("nmt", 2)
    assert options["continued"].path == run_dir
    assert "is a run of nmt" in phmrun("train", "sva", "--resume", str(run_dir)).err
    assert "valid: lm, nli, nmt" in phmrun("train").err
