from pathlib import Path

import pytest

from phmrun.cli.options import ExperimentOptions, resolve_options
from phmrun.config import ConfigError


def resolve(**options):
    return resolve_options(ExperimentOptions("nmt", **options)).resolved


def test_order_of_sources(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("seed: 2\ntraining: {max_steps: 20, clip: 2.0}\nbatch: {size: 99}\n")
    resolved = resolve(config=[str(file)], set_=["training.clip=3", "seed=3"], seed=4)
    config, origin = resolved.config, resolved.origin
    assert (config.seed, origin["seed"]) == (4, "--seed")
    assert (config.training.clip, origin["training.clip"]) == (3.0, "--set training.clip=3")
    assert (config.training.max_steps, origin["training.max_steps"]) == (20, f"{file}:2")
    assert origin["training.schedule.warmup"].startswith("configs/tasks/nmt.yaml:")
    assert origin["model.norm"] == "default"


def test_settings_are_yaml():
    config = resolve(
        set_=["training.optimizer.betas=[0.8, 0.9]", "training.max_steps=null", "model.dropout=1e-2"]
    ).config
    assert config.training.optimizer.betas == (0.8, 0.9)
    assert config.training.max_steps is None
    assert config.model.dropout == 0.01


def test_files_settings_and_flags_are_reported_together(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("seed: 1\nmodle: {width: 3}\n")
    with pytest.raises(ConfigError) as caught:
        resolve(config=[str(file)], set_=["model.widht=3"], n=8, lr=-1.0)
    actual = {problem.key: problem.source for problem in caught.value.problems}
    assert actual == {
        "modle": f"{file}:2",
        "model.widht": "--set model.widht=3",
        "layer.n": "--n",
        "training.optimizer.lr": "--lr",
    }


def test_a_parent_takes_the_place_of_the_task_defaults(run_dir):
    request = resolve_options(ExperimentOptions("nmt", max_steps=9), parent=run_dir / "config.yaml")
    config = request.resolved.config
    assert (config.layer.structure, config.layer.options["n"], config.seed) == ("phm", 2, 7)
    assert config.training.max_steps == 9


def test_files_on_the_command_line_win_over_the_dataset_of_a_recipe(tmp_path):
    files = {name: str(tmp_path / f"{name}.tsv") for name in ("train", "dev")}
    for path in files.values():
        Path(path).write_text("VBZ\tthe key\n")
    recipe = ["configs/sva/linzen-small.yaml"]
    data = resolve_options(ExperimentOptions("sva", config=recipe, **files)).resolved.config.data
    assert (data.name, str(data.train), data.reduced) == ("files", files["train"], False)
    messages = [f"data.{key}={value}" for key, value in files.items()]
    assert resolve_options(ExperimentOptions("sva", config=recipe, set_=messages)).resolved.config.data == data
    whole = [f"data={{train: {files['train']}, dev: {files['dev']}}}"]
    assert resolve_options(ExperimentOptions("sva", config=recipe, set_=whole)).resolved.config.data == data
    with pytest.raises(ConfigError, match="needs name=files"):
        resolve_options(ExperimentOptions("sva", data="linzen", **files))
