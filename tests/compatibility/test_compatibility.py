"""Runs that earlier releases have made: each is listed, scored, and continued under the id that it has.

An archive holds a finished run (seed 1) and one that was interrupted after some 20 of 120 steps (seed 2), as commits
6bbc25b, 899603a and 33fb13e wrote them for one and the same command. They are trained on the texts in ``own``.
"""

import json
import tarfile
from pathlib import Path

import pytest
import torch

from phmrun.cli.app import main
from phmrun.engine.checkpoints import LAST, load_checkpoint
from phmrun.ledger import Run, State

HERE = Path(__file__).parent
RELEASES = ("6bbc25b", "899603a", "33fb13e")
STEPS = 120
SIZES = ("width=8", "heads=2", "layers=1", "feedforward=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compatibility")
    for name in (*RELEASES, "own"):
        with tarfile.open(HERE / f"{name}.tar.gz") as packed:
            packed.extractall(folder, filter="data")
    return folder


def call(*arguments):
    """The exit code of a command, run in this process."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


def training(folder, seed, runs_dir):
    """The command line that trained the runs."""
    files = [
        word for split in ("train", "dev", "test") for word in (f"--{split}", str(folder / "own" / f"{split}.tsv"))
    ]
    sizes = [word for size in SIZES for word in ("--set", f"model.{size}")]
    keys = ("max_epochs=120", "patience=1000", "validate_every=20", "checkpoint_every=20")
    options = [word for key in keys for word in ("--set", f"training.{key}")]
    ends = ["--max-steps", str(STEPS), "--threads", "1", "--runs-dir", str(runs_dir)]
    return ["train", "sva", "--seed", str(seed), *files, "--layer", "phm", "--n", "2", *sizes, *options, *ends]


@pytest.fixture(scope="module")
def uninterrupted(folder, tmp_path_factory):
    """Weights of the interrupted run's experiment, trained by today's code in one go."""
    runs_dir = tmp_path_factory.mktemp("today")
    assert call(*training(folder, 2, runs_dir)) == 0
    (run,) = runs_dir.glob("sva-*")
    return run.name, load_checkpoint(run / "checkpoints" / LAST)["state_dict"]


@pytest.mark.parametrize("release", RELEASES)
def test_runs_of_a_release_are_opened_by_every_verb_that_reads(folder, release, tmp_path, capfd):
    runs_dir = ("--runs-dir", str(folder / release))
    assert call("runs", "list", *runs_dir, "--json") == 0
    runs = {run["state"]: run["run_id"] for run in json.loads(capfd.readouterr().out)}
    assert runs.keys() == {"done", "interrupted"}
    for run in runs.values():
        assert call("runs", "show", run, *runs_dir) == 0
    assert call("runs", "compare", *runs.values(), *runs_dir) == 0
    assert call("plot", "history", runs["done"], *runs_dir, "--out", str(tmp_path / "history.png")) == 0
    assert call("table", runs["done"], *runs_dir) == 0
    assert call("results", "add", runs["done"], *runs_dir, "--to", str(tmp_path / "results")) == 0
    assert call("runs", "archive", runs["done"], *runs_dir, "--to", str(tmp_path / "run.tar.gz")) == 0


@pytest.mark.parametrize("release", RELEASES)
def test_a_finished_run_of_a_release_is_done_and_scores_as_then(folder, release, capfd):
    (run,) = (Run(path) for path in (folder / release).glob("sva-files-phm-1-*"))
    before = run.metrics()["test/accuracy"]["value"]
    assert call(*training(folder, 1, folder / release)) == 0
    assert "is done" in "".join(capfd.readouterr())
    assert call("eval", run.id, "--runs-dir", str(folder / release)) == 0
    assert Run(run.path).metrics()["test/accuracy"]["value"] == before


@pytest.mark.parametrize("release", RELEASES)
def test_an_interrupted_run_of_a_release_goes_on_to_the_same_weights(folder, release, uninterrupted):
    (run,) = (Run(path) for path in (folder / release).glob("sva-files-phm-2-*"))
    begun = run.status.step
    assert 0 < begun < STEPS
    assert call(*training(folder, 2, folder / release)) == 0
    name, expected = uninterrupted
    assert run.id == name  # continued under its own id, not begun anew
    assert (run.status.state, run.status.step) == (State.DONE, STEPS)
    assert [entry["first_step"] for entry in run.environment()] == [0, begun]
    weights = load_checkpoint(run.checkpoints / LAST)["state_dict"]
    # Bits are those of one processor; the first steps were made on another machine, perhaps.
    assert weights.keys() == expected.keys()
    for key, tensor in expected.items():
        torch.testing.assert_close(weights[key], tensor, rtol=1e-3, atol=1e-4)
