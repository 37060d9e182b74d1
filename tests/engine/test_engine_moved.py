"""Runs whose folder, or whose data, are elsewhere than they were; and other test files than the run's own."""

import shutil
from pathlib import Path

import pytest
from tiny_experiments import configured, run_experiment, run_of

from phmrun.config import load_run_config
from phmrun.engine import experiment
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import State
from phmrun.ledger.listing import recorded_run

SHORT = {"training": {"max_steps": 2, "validate_every": 2}}


def test_a_run_is_continued_and_scored_from_another_folder(tmp_path, monkeypatch):
    home, away, runs = tmp_path / "home", tmp_path / "away", tmp_path / "runs"
    for folder in (home, away):
        folder.mkdir()
    monkeypatch.chdir(home)
    config = configured("sva", Path("corpus"), SHORT)
    monkeypatch.setattr(experiment, "evaluate_run", _fails)
    with pytest.raises(OSError, match="no space"):
        run_experiment(config, runs)
    monkeypatch.undo()
    monkeypatch.chdir(away)
    (path,) = runs.iterdir()
    assert recorded_run(path).state == "interrupted"
    trained = (path / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    shutil.move(home / "corpus", away / "moved")
    result = run_experiment(configured("sva", Path("moved"), SHORT), runs)
    assert (result.state, result.run_dir) == (State.DONE, path)
    assert (path / "checkpoints" / "last.ckpt").stat().st_mtime_ns == trained
    run = run_of(result)
    assert load_run_config(run.config_path).data.test == away / "moved" / "test.tsv"
    assert run.data().splits["test"].files[0].path == str(away / "moved" / "test.tsv")
    monkeypatch.chdir(tmp_path)
    first = run.metrics()["test/accuracy"]
    assert evaluate_run(open_run(run))["test/accuracy"] == first
    assert f"data:{run.data().splits['test'].mark}" in first["signature"].split("|")
    _another_file_makes_another_score(run, away / "moved", first)
    shutil.move(away / "moved", tmp_path / "text")
    (tmp_path / "text" / "kept.tsv").rename(tmp_path / "text" / "test.tsv")
    other = {"hardware": {"tf32": True}}
    assert run_experiment(configured("sva", Path("text"), SHORT, other), runs).run_id == run.id  # as the hint says
    kept = load_run_config(run.config_path)
    assert (kept.data.test, kept.hardware.tf32) == (tmp_path / "text" / "test.tsv", False)  # what has trained stays
    assert evaluate_run(open_run(run))["test/accuracy"] == first


def _another_file_makes_another_score(run, corpus, first):
    """At the recorded path or named by the user: never under the name of the test set."""
    kept = corpus / "kept.tsv"
    shutil.move(corpus / "test.tsv", kept)
    with pytest.raises(PhmrunError, match="does not exist") as caught:
        evaluate_run(open_run(run))
    assert caught.value.code is ExitCode.DATA
    assert "--test FILE" in caught.value.hint
    assert "phmrun train" in caught.value.hint
    assert evaluate_run(open_run(run), files=[kept])["test/accuracy"] == first
    shutil.copy(corpus / "dev.tsv", corpus / "test.tsv")
    lines = (corpus / "dev.tsv").read_text().splitlines(keepends=True)[:7]
    (corpus / "test.tsv").write_text("".join(lines))
    with pytest.raises(PhmrunError, match="changed since the run was trained: test") as caught:
        evaluate_run(open_run(run))
    assert caught.value.code is ExitCode.DATA
    scores = evaluate_run(open_run(run), files=[corpus / "test.tsv"])
    (name,) = (name for name in scores if name.endswith("/accuracy"))
    assert name.startswith("file-test.tsv-")
    assert scores[name]["n"] == 7
    assert run.metrics()["test/accuracy"] == first
    assert recorded_run(run.path).main_score == "test/accuracy"


def _fails(*_, **__):
    raise OSError("no space")


@pytest.mark.parametrize("task", ["nmt", "parse", "lm"])
def test_a_task_scores_another_file(task, tiny_run, shared_run, tmp_path):
    run = tiny_run(task)
    before = run.metrics()
    corpus, other = shared_run(task).path.parents[1] / "corpus", tmp_path / "other"
    other.mkdir()
    files = []
    for source in sorted(corpus.glob("dev.*")) if task == "nmt" else [corpus / f"dev{_ending(task)}"]:
        text = source.read_text()
        count = 3 if task == "parse" else 5
        end = "\n\n" if task == "parse" else "\n"
        files.append(other / source.name)
        files[-1].write_text(end.join(text.split(end)[:count]) + end)
    options, other_number = ("--test-src FILE --test-tgt FILE", 1) if len(files) == 2 else ("--test FILE", 2)
    with pytest.raises(PhmrunError, match=rf"phmrun eval {run.reference} {options}$") as refused:
        evaluate_run(open_run(run), files=(files * 2)[:other_number])
    assert refused.value.code == ExitCode.USAGE
    scores = evaluate_run(open_run(run), files=files)
    assert scores
    assert {name.partition("/")[0] for name in scores} == {f"file-{files[-1].name}-{_digits(scores)}"}
    assert {name: score for name, score in run.metrics().items() if name in before} == before
    assert run.samples()


def _ending(task):
    return {"parse": ".conllu", "lm": ".aa"}[task]


def _digits(scores):
    return next(iter(scores)).partition("/")[0].rpartition("-")[2]


@pytest.mark.parametrize(("task", "lost"), [("nli", "bag-of-words"), ("style", "reference, style, unchanged")])
def test_floors_and_measures_of_files_are_those_of_the_split(task, lost, tmp_path, caplog):
    caplog.set_level("INFO")
    corpus = tmp_path / "corpus"
    run = run_of(run_experiment(configured(task, corpus, SHORT), tmp_path / "runs"))
    before = _timeless(evaluate_run(open_run(run)))
    files = [Path(shutil.copy(file, tmp_path / f"copy{file.suffix}")) for file in sorted(corpus.glob("test.*"))]
    assert _timeless(evaluate_run(open_run(run), files=files)) == before
    train = min(corpus.glob("train.*"))
    text = train.read_text()
    for other in (f"{text}{text}", None):
        train.write_text(other) if other else train.unlink()
        assert _timeless(evaluate_run(open_run(run), files=files)).items() < before.items()
        assert f"without {lost}: the run's own data are not here, or have changed" in caplog.messages[-1]
        assert _timeless(run.metrics()).items() >= before.items()
    train.write_text(text)
    for file in files:
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:7]))
    scores = _timeless(evaluate_run(open_run(run), files=files))
    assert {name.partition("/")[2] for name in scores} == {name.partition("/")[2] for name in before}


def test_a_file_of_which_the_run_holds_items_out_is_scored_as_a_whole(tmp_path):
    config = configured("nli", tmp_path / "corpus", {**SHORT, "data": {"hold_out": 0.5, "dev": None}})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    train = tmp_path / "corpus" / "train.tsv"
    scores = evaluate_run(open_run(run), files=[Path(shutil.copy(train, tmp_path / "copy.tsv"))])
    assert scores["train/accuracy"]["n"] == len(train.read_text().splitlines())


def _timeless(scores):
    return {name: value for name, value in scores.items() if not name.endswith("per_second")}
