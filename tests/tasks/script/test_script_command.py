"""Placeholders of a script's command, and the places of a sweep's keys in its configuration."""

import sys
from pathlib import Path

import pytest

from phmrun.config import Source, nested, resolve, run_id
from phmrun.errors import PhmrunError
from phmrun.tasks.script.command import check, words_and_scores
from phmrun.tasks.script.config import ScriptExperiment

RUN = Path("/runs/id/script")


def configured(command, **values):
    source = Source("test", nested({"command": command, **values}))
    return resolve(ScriptExperiment, [source], None).config


def words(command, **values):
    config = configured(command, **values)
    check(config)
    return words_and_scores(config, RUN)[0]


def test_values_defaults_seed_and_run_are_filled_in():
    command = "python t.py --layer {layer.structure} --n {layer.n|1} --lr {lr} --seed {seed} --out {run}"
    dense = words(command, layer="dense", lr=1e-3, seed=3)
    assert dense == [
        *(sys.executable, "t.py", "--layer", "dense", "--n", "1"),
        *("--lr", "0.001", "--seed", "3", "--out", str(RUN)),
    ]
    assert words(command, layer={"structure": "phm", "n": 4}, lr=0.003)[3:6] == ["phm", "--n", "4"]
    assert words_and_scores(configured(command, lr=0.1), RUN)[1] == RUN / "scores.json"


@pytest.mark.parametrize(
    ("command", "values", "message"),
    [
        ("train {momentun}", {"momentum": 0.9}, "no value for {momentun}"),
        ("train {lr}", {"lr": None}, "no value for {lr}"),
        ("train", {"lr": 0.1}, "no placeholder for lr"),
        ("train {layer.structure}", {"layer": {"structure": "phm", "n": 4}}, "no placeholder for layer.n"),
        ("train", {"scores": "{run}/{name}.json"}, "no value for {name}"),
        ("train 'x", {}, "cannot be split"),
        (" ", {}, "there is no command"),
    ],
)
def test_commands_that_do_not_fit_the_settings_are_refused(command, values, message):
    with pytest.raises(PhmrunError, match=message) as refused:
        words(command, **values)
    assert refused.value.where == "command"


def test_keys_without_a_field_are_settings_and_merge():
    sources = [
        Source("base", {"batch": 32, "model": {"width": 8, "depth": 2}, "mixer": {"structure": "phm", "n": 4}}),
        Source("cell", {"model": {"width": 16}, "mixer": "dense", "training": {"epochs": 3, "monitor": "accuracy"}}),
    ]
    config = resolve(ScriptExperiment, sources, None).config
    settings = {"batch": 32, "model.width": 16, "model.depth": 2, "mixer": "dense", "training.epochs": 3}
    assert config.settings.options == settings
    assert config.training.monitor == "accuracy"
    again = resolve(ScriptExperiment, [Source("file", config.model_dump(mode="json"))], None).config
    assert again == config
    assert "batch" not in config.model_dump()


def test_ids_name_script_and_structure_and_depend_on_settings_and_inputs_alone():
    command = "python deep/train_vit.py {lr} {layer.structure}"
    first = configured(command, lr=0.1, layer="phm")
    assert run_id(first, fingerprints={}).startswith("script-train_vit-phm-1-")
    elsewhere = configured(command, lr=0.1, layer="phm", directory="/elsewhere", inputs=["a"], **{"logging.every": 1.0})
    assert run_id(first, fingerprints={}) == run_id(elsewhere, fingerprints={})
    others = [configured(command, lr=0.2, layer="phm"), configured(f"{command} -v", lr=0.1, layer="phm")]
    ids = {run_id(config, fingerprints={}) for config in (first, *others)} | {
        run_id(first, fingerprints={"input a": "1"})
    }
    assert len(ids) == 4
