import pytest

from phmrun.cli.options import ExperimentOptions, resolve_options
from phmrun.config import ConfigError
from phmrun.errors import PhmrunError
from phmrun.registry import STRUCTURES


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


def test_the_last_file_wins(tmp_path):
    for name, seed in (("a.yaml", 2), ("b.yaml", 3)):
        (tmp_path / name).write_text(f"seed: {seed}\n")
    assert resolve(config=[str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]).config.seed == 3


@pytest.mark.parametrize("order", [1, -1])
def test_presets_and_structures_come_first_on_the_command_line(order):
    settings = ["layer.n=2", "model.width=96"][::order]
    config = resolve(set_=settings, layer="phm", preset="base").config
    assert (config.layer.structure, config.layer.options["n"]) == ("phm", 2)
    assert (config.model.width, config.model.encoder_layers) == (96, 6)


def test_flags_are_stronger_than_settings():
    config = resolve(set_=["layer=dense", "model.preset=small", "seed=5"], layer="phm", preset="base", seed=6).config
    assert (config.layer.structure, config.model.preset, config.seed) == ("phm", "base", 6)


def test_settings_are_yaml():
    config = resolve(
        set_=["training.optimizer.betas=[0.8, 0.9]", "training.max_steps=null", "model.dropout=1e-2"]
    ).config
    assert config.training.optimizer.betas == (0.8, 0.9)
    assert config.training.max_steps is None
    assert config.model.dropout == 0.01


def test_malformed_settings_are_reported_together():
    with pytest.raises(ConfigError) as caught:
        resolve(set_=["foo", "=3", "a..b=1", "a=[", "seed=1"])
    assert [problem.key for problem in caught.value.problems] == ["--set foo", "--set =3", "--set a..b=1", "--set a=["]


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


def test_unknown_names_bring_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'phm'"):
        resolve(layer="pmh")
    with pytest.raises(PhmrunError, match="no dataset 'mulit30k'") as caught:
        resolve(data="mulit30k")
    assert "multi30k" in (caught.value.hint or "")
    with pytest.raises(PhmrunError, match="'snli' is not for nmt") as caught:
        resolve(data="snli")
    assert {"builtin", "files", "multi30k"} <= set(caught.value.valid)
    with pytest.raises(PhmrunError, match="no task 'ntm'"):
        resolve_options(ExperimentOptions("ntm"))


def test_what_is_inside_an_embedding_comes_after_it():
    settings = ["embedding.inside.n=2", "embedding.inside=phm", "embedding.depth=5"]
    embedding = resolve(set_=settings, embedding="define").config.embedding
    assert embedding.options["depth"] == 5
    assert embedding.inside.arguments["n"] == 2


def test_an_embedding_is_no_layer():
    with pytest.raises(ConfigError, match="makes the vectors of an embedding"):
        resolve(layer="define")


PLUGIN = '''
from typing import Annotated
from phmrun.layers import Structure, register

@register("scaled-for-test")
class Scaled(Structure):
    """A test."""

    def __init__(self, out_features: int, in_features: int, *, power: Annotated[int, "Exponent"] = 2) -> None:
        super().__init__(out_features, in_features, power=power)

    @classmethod
    def check(cls, out_features, in_features, *, power):
        return None

    def reset_parameters(self, std):
        """Nothing is drawn."""

    def materialize(self):
        raise NotImplementedError
'''


def test_plugins_are_loaded_first_and_fingerprinted(tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    try:
        request = resolve_options(ExperimentOptions("nmt", plugin=[plugin], layer="scaled-for-test"))
    finally:
        STRUCTURES._registered.pop("scaled-for-test", None)
    assert request.resolved.config.layer.options == {"power": 2}
    assert [len(digest) for digest in request.plugins.values()] == [64]
    with pytest.raises(PhmrunError, match="does not exist"):
        resolve(plugin=[tmp_path / "none.py"])


def test_a_parent_takes_the_place_of_the_task_defaults(run_dir):
    request = resolve_options(ExperimentOptions("nmt", max_steps=9), parent=run_dir / "config.yaml")
    config = request.resolved.config
    assert (config.layer.structure, config.layer.options["n"], config.seed) == ("phm", 2, 7)
    assert config.training.max_steps == 9


@pytest.mark.parametrize("given", [["--train", "a.tsv", "--dev", "b.tsv"]])
def test_files_on_the_command_line_win_over_the_dataset_of_a_recipe(given, tmp_path):
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("VBZ\tthe key\n")
    files = dict(zip(("train", "dev"), (str(tmp_path / name) for name in ("a.tsv", "b.tsv")), strict=True))
    recipe = ["configs/sva/linzen-small.yaml"]
    data = resolve_options(ExperimentOptions("sva", config=recipe, **files)).resolved.config.data
    assert (data.name, str(data.train), data.reduced) == ("files", files["train"], False)
    messages = [f"data.{key}={value}" for key, value in files.items()]
    assert resolve_options(ExperimentOptions("sva", config=recipe, set_=messages)).resolved.config.data == data
    whole = [f"data={{train: {files['train']}, dev: {files['dev']}}}"]
    assert resolve_options(ExperimentOptions("sva", config=recipe, set_=whole)).resolved.config.data == data
    with pytest.raises(ConfigError, match="needs name=files"):
        resolve_options(ExperimentOptions("sva", data="linzen", **files))


@pytest.mark.parametrize("value", ["x", "0", "-2", "1,x", "", "1;2"])
def test_devices_are_a_number_a_list_or_auto(value):
    with pytest.raises(ConfigError, match=r"hardware\.devices"):
        resolve_options(ExperimentOptions("nmt", devices=value))


@pytest.mark.parametrize("value", ["auto", "2", "0,2", "-1", "0,"])
def test_devices_of_the_command_line_are_accepted(value):
    resolve_options(ExperimentOptions("nmt", devices=value))


def test_an_accelerator_is_one_of_lightnings():
    with pytest.raises(ConfigError, match=r"hardware\.accelerator.*\n.*auto, cpu"):
        resolve_options(ExperimentOptions("nmt", accelerator="foo"))


def test_a_precision_that_is_a_list_is_a_mistake_like_others():
    with pytest.raises(ConfigError, match=r"training\.precision"):
        resolve_options(ExperimentOptions("nmt", set_=["training.precision=[32]"]))
