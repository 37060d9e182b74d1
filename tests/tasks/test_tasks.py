"""Over every task × every structure: it trains, is killed, resumes bit-exactly, and every parameter learns."""

import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from exact_resume import Kill, killed, outcome, same
from structure_cases import ADDED, CASES, GUIDED, SQUARE_CASES
from structure_cases import SQUARE as SQUARE_STRUCTURES
from tiny_experiments import (
    ELSEWHERE,
    NO_DROPOUT,
    SETTINGS,
    SQUARE,
    configured,
    everywhere,
    placed,
    run_experiment,
    run_of,
)

from phmrun.config import Task
from phmrun.engine import fit
from phmrun.engine.module import TrainingModule
from phmrun.errors import PhmrunError
from phmrun.layers import Structure
from phmrun.layers.network import scope_of
from phmrun.ledger import Run, State
from phmrun.ledger.listing import list_runs
from phmrun.registry import TASKS

EVERYWHERE = ("dense", "phm-2")
"""Cases of every task. Every other case is trained in one of the tasks that its maps fit, in turns."""


def _matrix() -> Iterator[Any]:
    for number, case in enumerate([*CASES, *GUIDED, *ADDED, *SQUARE_CASES]):
        tasks = sorted(SQUARE if case in SQUARE_CASES else SETTINGS)
        for task in tasks if case.id in EVERYWHERE else [tasks[number % len(tasks)]]:
            yield pytest.param(task, *case.values, id=f"{task}-{case.id}")


MATRIX = list(_matrix())
"""``(task, structure, options)``: six tasks × {dense, PHM}, and every structure once."""

RESUMED = [row for row in MATRIX if row.values[0] in ("nmt", "lm")][::2]
"""Every second row of two tasks, one of them with a state between batches: these are killed and resumed."""


@pytest.fixture(autouse=True)
def _rows_of_the_training_loss_too(monkeypatch):
    monkeypatch.setattr(fit, "HISTORY_EVERY", 4)


def test_every_task_has_small_settings():
    assert sorted(SETTINGS) == [name for name in TASKS.names() if not TASKS.get(name).runner]


@pytest.mark.parametrize(("task", "name", "options"), RESUMED)
def test_killed_and_resumed_is_bit_identical(task, name, options, tmp_path):
    config = configured(task, tmp_path / "corpus", *placed(task, name, **options))
    straight = run_experiment(config, tmp_path / "straight")
    assert straight.state is State.DONE
    killed(config, tmp_path / "resumed", ("micro-batch", 11))
    interrupted = list_runs(tmp_path / "resumed")
    assert [(run.id, run.status.state) for run in interrupted] == [(straight.run_id, State.INTERRUPTED)]
    resumed = run_experiment(config, tmp_path / "resumed")
    assert resumed.run_id == straight.run_id
    same(outcome(run_of(straight)), outcome(run_of(resumed)))


@pytest.mark.parametrize("name", SQUARE_STRUCTURES)
def test_square_classifiers_learn(name, prepared):
    """Proposal of Matsuno et al.: only the bilinear forms of both classifiers have the structure."""
    directory, sizes, batches = prepared("parse")
    config = configured("parse", directory, {"output": {"structure": name}})
    module = network_of("parse", config, sizes)
    actual = {key: part for key, part in module.network.named_modules() if isinstance(part, Structure)}
    classifiers = {key for key in actual if scope_of(key) in ("arc_classifier", "label_classifier")}
    assert classifiers
    assert {key: part.name for key, part in actual.items()} == {
        key: name if key in classifiers else "dense" for key in actual
    }
    module.loss(batches[0]).total.backward()
    for key in classifiers:
        assert all(bool(parameter.grad.any()) for parameter in actual[key].parameters()), key


# With accumulation of 2, a checkpoint every 2 steps and a validation every 3 of 10: the odd micro-batches are within a
# step; the files written are step-2, last, best (step 3), step-4, last, step-6 …
MOMENTS: dict[str, list[Kill]] = {
    "before the first checkpoint": [("micro-batch", 3)],
    "after a validation that no checkpoint has seen": [("micro-batch", 8)],
    "before a validation": [("validation", 2)],
    "while the first checkpoint is written": [("writing", 1)],
    "while last.ckpt is written first": [("writing", 2)],
    "while best.ckpt is written": [("writing", 3)],
    "after training, before the scores": [("evaluation", 1)],
    "again and again": [("micro-batch", 3), ("writing", 2), ("micro-batch", 6), ("validation", 1), ("writing", 3)],
}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """An uninterrupted run with everything on."""
    directory = tmp_path_factory.mktemp("straight")
    config = configured("nmt", directory / "corpus", everywhere("phm", n=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "HISTORY_EVERY", 4)
        return directory, config, run_experiment(config, directory / "runs")


OFTEN = ("after a validation that no checkpoint has seen", "while last.ckpt is written first", "again and again")
"""Moments that `make test` takes; `make test-all` takes the others."""


@pytest.mark.parametrize(
    "kills",
    [pytest.param(kills, id=name, marks=[pytest.mark.long] * (name not in OFTEN)) for name, kills in MOMENTS.items()],
)
def test_any_moment_of_death(straight, kills, tmp_path):
    _, config, result = straight
    for kill in kills:
        killed(config, tmp_path, kill)
    resumed = run_experiment(config, tmp_path)
    same(outcome(run_of(result)), outcome(run_of(resumed)))
    leftovers = [path.name for path in resumed.run_dir.rglob("*") if path.name.endswith(".tmp")]
    assert leftovers == []


def test_rows_from_before_the_first_checkpoint_are_not_doubled(tmp_path):
    config = configured("nmt", tmp_path / "corpus", {"training": {"validate_every": 2, "checkpoint_every": 5}})
    straight = run_of(run_experiment(config, tmp_path / "straight"))
    killed(config, tmp_path / "resumed", ("micro-batch", 9))
    (interrupted,) = (Run(path) for path in (tmp_path / "resumed").iterdir())
    assert [row["step"] for row in interrupted.history.read()] == [2, 4, 4]
    assert not (interrupted.checkpoints / "last.ckpt").exists()
    same(outcome(straight), outcome(run_of(run_experiment(config, tmp_path / "resumed"))))


def test_another_network_is_as_exact(tmp_path):
    model = {"network": "delight", "word_width": 16, "min_depth": 2, "max_depth": 3, "transformation_dropout": 0.1}
    sizes = {"width": 32, "encoder_layers": 1, "decoder_layers": 2, "norm": "post"}
    config = configured("nmt", tmp_path / "corpus", {"model": {**model, **sizes}})
    straight = run_of(run_experiment(config, tmp_path / "straight"))
    assert straight.metrics()["test/bleu"]["value"] >= 0
    killed(config, tmp_path / "resumed", ("micro-batch", 14))
    same(outcome(straight), outcome(run_of(run_experiment(config, tmp_path / "resumed"))))


def test_loader_workers_change_nothing(straight, tmp_path):
    directory, _, result = straight
    config = configured("nmt", directory / "corpus", everywhere("phm", n=2), {"hardware": {"workers": 2}})
    killed(config, tmp_path, ("micro-batch", 12))
    same(outcome(run_of(result)), outcome(run_of(run_experiment(config, tmp_path))))


def test_patience_ends_both_at_the_same_step(tmp_path):
    """With a learning rate of nothing no validation is better than the first."""
    frozen = {"training": {"optimizer": {"lr": 1e-30}, "patience": 1, "max_steps": 50}}
    config = configured("nmt", tmp_path / "corpus", frozen)
    straight = run_of(run_experiment(config, tmp_path / "straight"))
    killed(config, tmp_path / "resumed", ("micro-batch", 10))
    resumed = run_of(run_experiment(config, tmp_path / "resumed"))
    assert straight.status.step == 6
    assert straight.status.state is resumed.status.state is State.DONE
    same(outcome(straight), outcome(resumed))


VECTORS = {"bias", "state", "u", "v"}
"""Parameters that are stacked vectors: biases and first states of LSTMs, linear terms of biaffine forms."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Callable[[str], tuple[Path, tuple[int, ...], list[Any]]]:
    """Corpus directory, vocabulary sizes and four batches of each task, shared by its networks."""

    @cache
    def prepare(task: str) -> tuple[Path, tuple[int, ...], list[Any]]:
        directory = tmp_path_factory.mktemp(task)
        data = TASKS.get(task).load("data")(configured(task, directory), Path(os.environ["PHMRUN_CACHE"]))
        data.prepare()
        return directory, data.vocabulary.sizes, list(islice(data.train_dataloader(), 4))

    return prepare


def network_of(task: str, config: Any, sizes: tuple[int, ...]) -> TrainingModule:
    """The module of an experiment."""
    torch.manual_seed(0)
    description: Task = TASKS.get(task)
    return description.load("module")(config, *sizes)


@pytest.mark.parametrize("task", sorted(SETTINGS))
def test_a_structure_of_squares_is_refused_elsewhere_with_a_reason(task, tmp_path):
    name = SQUARE_STRUCTURES[0]
    config = configured(task, tmp_path / "corpus", {"layer": {"structure": name}})
    with pytest.raises(PhmrunError, match="matrix is square; valid: equal sizes"):
        run_experiment(config, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(("task", "name", "options"), MATRIX)
def test_every_map_in_scope_has_the_structure_and_every_parameter_learns(task, name, options, prepared):
    directory, sizes, batches = prepared(task)
    still = {"model": NO_DROPOUT.get(task, {"dropout": 0.0, "activation_dropout": 0.0})}
    apart = ("embedding", "output", *ELSEWHERE.get(task, ()))
    for elsewhere in ("dense",) if name in SQUARE_STRUCTURES else ("dense", name):
        layers = placed(task, name, blocks_only=elsewhere == "dense", **options)
        config = configured(task, directory, *layers, still)
        module = network_of(task, config, sizes)
        actual = {
            key: part
            for key, part in module.network.named_modules()
            if isinstance(part, Structure) and not key.endswith(".inside")  # what a wrapper guides
        }
        inside = [part for key, part in actual.items() if scope_of(key) not in apart]
        outside = [part for key, part in actual.items() if scope_of(key) in apart]
        assert inside
        assert outside
        assert {part.name for part in inside} == {name}
        assert {part.name for part in outside} == {elsewhere}
        for part in inside:
            assert options.items() <= part.options.items()
        assert not [p for p in module.network.modules() if isinstance(p, torch.nn.Linear | torch.nn.Embedding)]
        structured = {id(parameter) for part in actual.values() for parameter in part.parameters()}
        others = [key for key, p in module.network.named_parameters() if p.dim() > 1 and id(p) not in structured]
        assert {key.rpartition(".")[2] for key in others} <= VECTORS, "a weight matrix outside the structures"

    for batch in batches:
        module.loss(batch).total.backward()
    for key, parameter in module.network.named_parameters():
        assert parameter.grad is not None, key
        assert bool(parameter.grad.isfinite().all()), key
        assert bool(parameter.grad.any()), key
