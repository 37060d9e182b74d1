"""A new run beside one with the same settings, but other data, code or mathematics."""

import pytest

from phmrun.config.identity import canonical_json, digits_of
from phmrun.ledger import Run, State
from phmrun.ledger.twins import find_twin

IDENTITY = {"version": "1.1", "task": "parse", "values": {"seed": 1}, "fingerprints": {"train.conllu": "a" * 64}}
NAME = "parse-files-phm-1"


def begun(runs_dir, content, state=State.INTERRUPTED, *, manifest=True):
    identity = canonical_json(content)
    run = Run.create(runs_dir, f"{NAME}-{digits_of(identity)}", "task: parse\n")
    with run.lock():
        if manifest:
            run.begin(identity)
        run.set_state(state, step=30)
    return run


def twin_of(runs_dir, content):
    identity = canonical_json(content)
    return find_twin(runs_dir, f"{NAME}-{digits_of(identity)}", identity, {"train.conllu"})


def test_run_on_other_data_is_named_with_both_checksums(tmp_path):
    run = begun(tmp_path, IDENTITY)
    text = twin_of(tmp_path, IDENTITY | {"fingerprints": {"train.conllu": "b" * 64}}).warning()
    assert f"{run.id} (interrupted at step 30)" in text
    assert "train.conllu (checksum aaaaaaaaaaaa, now bbbbbbbbbbbb)" in text
    assert f"`phmrun runs show {tmp_path / run.id}`" in text


@pytest.mark.parametrize("manifest", [True, False])
def test_run_of_earlier_mathematics_is_named(tmp_path, manifest):
    run = begun(tmp_path, IDENTITY, manifest=manifest)
    twin = twin_of(tmp_path, IDENTITY | {"mathematics": {"model.weight_dropout": 2}})
    assert twin.run.id == run.id
    assert "model.weight_dropout, version 1, now 2" in twin.warning()
    assert "not continued" in twin.warning()


@pytest.mark.parametrize(
    "change",
    [
        {"values": {"seed": 1, "model.width": 8}},
        {"fingerprints": IDENTITY["fingerprints"] | {"extends": "parse-files-phm-1-000000000000"}},
        {"fingerprints": IDENTITY["fingerprints"] | {"teacher": "x"}},
    ],
)
def test_other_experiments_are_no_twins(tmp_path, change):
    begun(tmp_path, IDENTITY)
    assert twin_of(tmp_path, IDENTITY | change) is None
