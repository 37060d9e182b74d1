"""``phmrun compress``: the table of the plan, the child run, and what is refused."""

import json

import pytest
from tiny_experiments import write_corpus

pytestmark = pytest.mark.long


def test_a_run_is_compressed(phmrun, tiny_run, tmp_path):
    pytest.importorskip("ctranslate2")
    tiny_run("nmt", "dense")
    where = ("--runs-dir", str(tmp_path / "runs"))
    shown = phmrun("compress", "latest", "--layer", "phm", "--n", "4", "--dry-run", *where)
    assert shown.code == 0, shown.err
    assert "energy kept" in shown.out
    assert "phm n=4 " in shown.out
    assert "encoder.attention.project" in shown.out
    assert len(list((tmp_path / "runs").iterdir())) == 1
    budget = ("--layer", "low-rank", "--budget", "0.9", "--steps", "0", "--calibrate", "1")
    created = phmrun("compress", "latest", *budget, "--json", *where)
    assert created.code == 0, created.err
    report = json.loads(created.out)
    assert report["plan"]["share_of_model"] <= 0.9
    assert "test/bleu" in report["metrics"]
    assert (tmp_path / "runs" / report["run_id"] / "metrics.json").is_file()
    taught = ("--layer", "phm", "--n", "2", "--calibrate", "0", "--steps", "2", "--set", "distillation.temperature=2")
    first, alone = (
        phmrun("compress", report["parent"], *taught, *more, "--json", *where) for more in ((), ("--no-teacher",))
    )
    assert [first.code, alone.code] == [0, 0], first.err + alone.err
    ids = [json.loads(item.out)["run_id"] for item in (first, alone)]
    assert ids[0] != ids[1]
    other = write_corpus(tmp_path / "other", seed=1)
    plans = [
        phmrun("compress", report["parent"], "--layer", "phm", "--n", "2", "--dry-run", "--json", *more, *where)
        for more in ((), ("--set", f"data.prefix={other}/"))
    ]
    assert [item.code for item in plans] == [0, 0], plans[1].err
    before, elsewhere = (json.loads(item.out)["plan"]["loss_before"] for item in plans)
    assert before != elsewhere  # the calibration batches are those of the other data
    parent = ("--config", str(tmp_path / "runs" / report["parent"] / "config.yaml"), "--teacher", report["parent"])
    learnt = phmrun("train", "nmt", *parent, "--set", "distillation.weight=1", "--max-steps", "2", "--json", *where)
    assert learnt.code == 0, learnt.err
    assert json.loads(learnt.out)["run_id"] not in (report["parent"], *ids)
    for arguments, messages in (
        (("--layer", "phmm"), "phm"),
        (("--layer", "phm", "--budget", "2"), "is not a fraction"),
        (("--layer", "phm,low-rank"), "several structures, need a budget"),
        (("--layer", "phm", "--n", "4", "--allocate", "error"), "--budget 1/2 --n 4 --allocate error"),
        (("--layer", "phm", "--budget", "1e-999999999"), "is not a fraction"),
        (("--layer", "phm", "--set", "layer.rank=3"), "rank"),
        (("--layer", "phm", "--n", "3"), "3"),
        (("--layer", "phm", "--set", "embedding.rank=4"), "embedding.rank has no effect"),
        (("--layer", "phm", "--set", "data.name=multi31k"), "multi31k"),
        (("--layer", "phm", "--set", "model.width=8"), "model.width cannot be changed"),
        (("--layer", "phm", "--set", "training.max_steps=3"), "--steps N"),
    ):
        refused = phmrun("compress", report["parent"], *arguments, *where)
        assert refused.code == 2
        assert messages in refused.err
    refused = phmrun("compress", report["parent"], "--layer", "phm", "--embedding", "projective", *where)
    assert refused.code == 2
    assert "--embedding: 'projective' has no weight matrix" in refused.err
    assert "low-rank" in refused.err  # a valid structure
    assert "Use --embedding" not in refused.err
