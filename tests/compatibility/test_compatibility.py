"""Runs of earlier releases are opened by every verb, scored, and continued under their ids, bit for bit.

An archive holds a finished run (seed 1) and one that was interrupted after some 20 of 120 steps (seed 2), as commits
6bbc25b, 899603a and 33fb13e wrote them for one and the same command. They are trained on the texts in ``own``.
"""

import re
import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from phmrun.cli.app import main
from phmrun.engine.checkpoints import LAST, load_checkpoint
from phmrun.errors import ExitCode
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
def same_processor(folder, tmp_path_factory):
    """True if today's training of the finished run gives the bits in the archives; they depend on the processor."""
    runs_dir = tmp_path_factory.mktemp("finished")
    assert call(*training(folder, 1, runs_dir)) == 0
    (run,) = runs_dir.glob("sva-*")
    expected = load_checkpoint(run / "checkpoints" / LAST)["state_dict"]
    paths = (folder / release / run.name / "checkpoints" / LAST for release in RELEASES)
    return all(
        torch.equal(tensor, load_checkpoint(path)["state_dict"][key])
        for path in paths
        for key, tensor in expected.items()
    )


@pytest.fixture(scope="module")
def uninterrupted(folder, tmp_path_factory):
    """Weights of the interrupted run's experiment, trained by today's code in one go."""
    runs_dir = tmp_path_factory.mktemp("today")
    assert call(*training(folder, 2, runs_dir)) == 0
    (run,) = runs_dir.glob("sva-*")
    return run.name, load_checkpoint(run / "checkpoints" / LAST)["state_dict"]


REPRODUCE = "runs reproduce RUN --data-dir OWN"
VERBS = {
    "runs list": None,
    "runs show RUN": None,
    "runs diff RUN DONE": None,
    "runs compare RUN DONE": None,
    "runs unlock RUN": None,
    "plot history RUN --out OUT/history.svg": None,
    "verify RUNS/RUN": None,
    "predict RUN OUT/lines.txt": None,
    "export RUN --out OUT/dense.safetensors": None,
    "export RUN --factored --out OUT/factors.safetensors": None,
    "runs archive RUN --to OUT/run.tar.gz": None,
    "compress RUN --layer low-rank --budget 0.9": (2, 2, "all are phm already"),
    "table RUN": (0, 3, "none of its cells has a finished run"),
    "results add RUN --to OUT/results": (0, 3, "none of these runs is done"),
    REPRODUCE: (0, 2, "the run is interrupted, so there is nothing to reproduce yet"),
    "eval RUN --test OWN/dev.tsv": None,
    "verify RUNS": None,
    "runs rm RUN --yes": None,
}
"""Verbs that open a run. Values are exit codes for a finished and an interrupted run, and the reason of a refusal."""
KEYS = {"network.encoder.0.attention.block.project.0.bias": slice(8, 16)}
"""Biases of attention's keys add one number to all scores of a query, and softmax removes it.

Their gradients are rounding errors, which Adam scales up to whole steps, so that they differ between processors.
"""


@pytest.mark.parametrize("state", [State.DONE, State.INTERRUPTED])
@pytest.mark.parametrize("release", RELEASES)
def test_runs_of_a_release_are_opened_by_every_verb_or_refused_with_a_reason(
    folder, release, state, same_processor, tmp_path, capfd
):
    runs_dir = tmp_path / "runs"
    shutil.copytree(folder / release, runs_dir)
    (tmp_path / "lines.txt").write_text("the keys\nthe key to the doors\n")
    done, interrupted = (next(runs_dir.glob(f"sva-files-phm-{seed}-*")).name for seed in (1, 2))
    run = done if state is State.DONE else interrupted
    places = {"RUNS": str(runs_dir), "DONE": done, "RUN": run, "OUT": str(tmp_path), "OWN": str(folder / "own")}
    for line, refusal in VERBS.items():
        words = [re.sub("RUNS|DONE|RUN|OUT|OWN", lambda match: places[match[0]], word) for word in line.split()]
        code = call(*words, "--runs-dir", str(runs_dir))
        if line == REPRODUCE and state is State.DONE and not same_processor:
            refusal = (ExitCode.TRAINING, 2, "the same up to rounding")
        expected = refusal[state is not State.DONE] if refusal else 0
        output = "".join(capfd.readouterr())
        assert code == expected, f"{line}: {output}"
        assert not expected or refusal[2] in " ".join(output.split()), f"{line}: {output}"
        assert "Traceback" not in output
    assert not (runs_dir / run).exists()


@pytest.mark.parametrize("release", RELEASES)
def test_a_finished_run_of_a_release_is_done_and_scores_as_then(folder, release, capfd):
    (run,) = (Run(path) for path in (folder / release).glob("sva-files-phm-1-*"))
    before = run.metrics()["test/accuracy"]["value"]
    assert call(*training(folder, 1, folder / release)) == 0
    assert "is done" in "".join(capfd.readouterr())
    assert call("eval", run.id, "--runs-dir", str(folder / release)) == 0
    assert Run(run.path).metrics()["test/accuracy"]["value"] == before


@pytest.mark.parametrize("release", RELEASES)
def test_an_interrupted_run_of_a_release_goes_on_to_the_same_weights(folder, release, uninterrupted, same_processor):
    (run,) = (Run(path) for path in (folder / release).glob("sva-files-phm-2-*"))
    begun = run.status.step
    assert 0 < begun < STEPS
    assert call(*training(folder, 2, folder / release)) == 0
    name, expected = uninterrupted
    assert run.id == name  # continued under its own id, not begun anew
    assert (run.status.state, run.status.step) == (State.DONE, STEPS)
    assert [entry["first_step"] for entry in run.environment()] == [0, begun]
    weights = load_checkpoint(run.checkpoints / LAST)["state_dict"]
    assert weights.keys() == expected.keys()
    # The first steps were made on a Xeon with AVX-512. A processor with other products continues with its own rounding.
    near = {"rtol": 0, "atol": 0} if same_processor else {"rtol": 1e-3, "atol": 1e-4}
    for key, tensor in expected.items():
        if key in KEYS and not same_processor:
            weights[key][KEYS[key]] = tensor[KEYS[key]]
        torch.testing.assert_close(weights[key], tensor, **near)
