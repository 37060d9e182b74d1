"""A teacher beside the data: the loss by hand, training that ends where it should, exact resume."""

import pytest
import torch
from exact_resume import killed, outcome, same
from tiny_experiments import configured, run_experiment, run_of
from torch.nn import functional as F

from phmrun.engine.checkpoints import load_checkpoint
from phmrun.engine.experiment import train
from phmrun.engine.module import divergence
from phmrun.engine.reproduction import reproduce
from phmrun.engine.trained_model import Derivation, open_run, taught_by
from phmrun.errors import PhmrunError


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_the_loss_is_the_divergence_that_torch_has(temperature):
    logits = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(1))
    wanted = F.kl_div((logits[0] / temperature).log_softmax(-1), (logits[1] / temperature).softmax(-1), reduction="sum")
    assert float(divergence(*logits, temperature)) == pytest.approx(float(wanted) * temperature**2, rel=1e-5)
    assert float(divergence(logits[0], logits[0], temperature)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("task", ["nmt", "lm"])
def test_a_student_stopped_half_way_goes_on_exactly(task, tmp_path):
    short = configured(task, tmp_path / "corpus", {"training": {"max_steps": 2, "checkpoint_every": 1}})
    parent = run_of(run_experiment(short, tmp_path / "runs"))
    student = short.model_copy(update={"training": short.training.model_copy(update={"max_steps": 4})})

    def taught():
        trained = open_run(parent)
        trained.load()
        return {"derivation": Derivation({"teacher": parent.id}, None, trained)}

    whole = run_of(run_experiment(student, tmp_path / "whole", **taught()))
    killed(student, tmp_path / "halves", ("micro-batch", 5), **taught())
    same(outcome(whole), outcome(run_of(run_experiment(student, tmp_path / "halves", **taught()))))
    alone = run_of(run_experiment(student, tmp_path / "plain"))
    assert alone.id != whole.id
    weights = [load_checkpoint(run.checkpoints / "last.ckpt")["state_dict"] for run in (whole, alone)]
    assert any(not torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_a_teacher_of_other_words_is_refused(tmp_path):
    config = configured("nmt", tmp_path / "corpus", {"training": {"max_steps": 1}})
    parent = run_of(run_experiment(config, tmp_path / "runs"))
    trained = open_run(parent)
    trained.load()
    before = sorted((tmp_path / "runs").iterdir())
    data = config.data.model_copy(update={"vocabulary": config.data.vocabulary.model_copy(update={"size": 64})})
    other = config.model_copy(update={"data": data})
    with pytest.raises(PhmrunError, match="vocabulary of that run is another"):
        train(
            other, origin={}, runs_dir=tmp_path / "runs", derivation=Derivation({"teacher": parent.id}, None, trained)
        )
    assert sorted((tmp_path / "runs").iterdir()) == before


def test_a_student_is_reproduced_with_its_teacher(tmp_path):
    config = configured("lm", tmp_path / "corpus", {"training": {"max_steps": 2}})
    parent = run_of(run_experiment(config, tmp_path / "runs"))
    student = config.model_copy(update={"seed": 2})
    learnt = run_of(train(student, origin={}, runs_dir=tmp_path / "runs", derivation=taught_by(parent)))
    assert reproduce(learnt, tmp_path / "again").identical
