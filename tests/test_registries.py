"""Registries: names without imports, and one plug-in file that brings a network, a loss, an optimizer and a dataset."""

import json
import subprocess
import sys
from contextlib import nullcontext

import pytest
import yaml
from forks import completed
from tiny_experiments import write_agreement

from phmrun import registry
from phmrun.config import ConfigError, Source, resolve, run_id
from phmrun.engine.code import changed_plugins
from phmrun.engine.module import build_network
from phmrun.errors import PhmrunError
from phmrun.files import write_text
from phmrun.registry import METRICS, TASKS, load_plugin, load_plugins, networks

PLUGIN = '''
"""A network, a loss, an optimizer, a schedule and a dataset of a user."""

import torch
from torch import nn
from torch.nn import functional as F

from phmrun.layers import Embedding, Linear
from phmrun.models.sentences import pooled
from phmrun.registry import DATASETS, LOSSES, OPTIMIZERS, SCHEDULES, networks


class BagOfWords(nn.Module):
    """Mean of the word vectors, one map, and the classes."""

    def __init__(self, options, sizes, structures):
        super().__init__()
        words, classes = sizes
        self.embedding = Embedding(words, options.width, **structures["embedding"])
        self.map = Linear(options.width, options.width, **structures["layer"])
        self.output = Linear(options.width, classes, **structures["output"])

    def forward(self, sentences):
        return self.output(self.map(pooled(self.embedding(sentences.tokens), sentences.lengths, "mean")))


def focal(logits, targets, *, smoothing):
    """Lin et al. 2017, with gamma = 2."""
    nll = F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)
    return ((1 - torch.exp(-nll)) ** 2 * nll).sum()


networks("sva").add("bag", BagOfWords)
LOSSES.add("focal", focal)
OPTIMIZERS.add("momentum", lambda parameters, lr, weight_decay=0.0: torch.optim.SGD(parameters, lr, momentum=0.9))
SCHEDULES.add("halving", lambda settings: lambda step: settings.peak * 0.5**step)
DATASETS.add("made-up", {
    "tasks": ["sva"], "summary": "made up", "licence": "none", "format": "agreement",
    "mirrors": ["https://example.org/"],
    "splits": {split: {"items": {"path": f"{split}.tsv"}} for split in ("train", "dev", "test")},
})
'''


def phmrun(folder, *arguments):
    return completed(arguments, folder, {"PHMRUN_DATA": str(folder / "data"), "PHMRUN_CACHE": str(folder / "cache")})


def test_a_plug_in_brings_network_loss_optimizer_schedule_and_dataset(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    write_agreement(tmp_path / "data" / "made-up")
    chosen = {
        "training.loss": "focal",
        "training.optimizer.name": "momentum",
        "training.optimizer.lr": "0.01",
        "training.schedule.name": "halving",
        "model.width": "16",
        "logging.wandb": "disabled",
    }
    settings = [word for key, value in chosen.items() for word in ("--set", f"{key}={value}")]
    command = ["train", "sva", "--plugin", "mine.py", "--data", "made-up", "--model", "bag", *settings]
    done = phmrun(tmp_path, *command, "--max-steps", "2", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    config = yaml.safe_load((tmp_path / "runs" / result["run_id"] / "config.yaml").read_text())
    training = config["training"]
    names = (config["data"]["name"], config["model"]["network"], training["loss"], training["optimizer"]["name"])
    assert (*names, training["schedule"]["name"]) == ("made-up", "bag", "focal", "momentum", "halving")
    wrong = phmrun(tmp_path, *command[:4], "--model", "bagg", "--set", "training.loss=focel", "--dry-run")
    assert wrong.returncode == 2
    assert "did you mean 'bag'" in wrong.stderr
    assert "valid: bag, hf, lstm, transformer" in " ".join(wrong.stderr.split())
    assert "valid: cross-entropy, focal" in " ".join(wrong.stderr.split())


def test_names_are_listed_without_importing_torch():
    code = (
        "import sys\n"
        "from phmrun.registry import LOSSES, METRICS, OPTIMIZERS, SCHEDULES, networks\n"
        "from phmrun.config import task_defaults\n"
        "from phmrun.tasks.sva.config import AgreementExperiment\n"
        "AgreementExperiment()\n"
        "names = [registry.names() for registry in (LOSSES, METRICS, OPTIMIZERS, SCHEDULES, networks('lm'))]\n"
        "print(min(map(len, names)), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1 False\n"


@pytest.mark.parametrize("family", ["lm", "sequence_to_sequence", "sva"])
def test_every_announced_name_can_be_loaded(family):
    registries = [registry.METRICS, registry.LOSSES, registry.OPTIMIZERS, registry.SCHEDULES, registry.networks(family)]
    assert all(item.get(name) is not None for item in registries for name in item.names())
    assert all(item.names() for item in registries)


TYPED = """
from pydantic import Field
from phmrun.config import ModelConfig
from phmrun.registry import networks

class Options(ModelConfig):
    depth: int = Field(1, ge=1, le=9, description="Number of maps of the plug-in.")
    len("no docstring")

class Typed:
    options = Options

class Untyped:
    pass

networks("sva").add("typed", Typed)
networks("sva").add("untyped", Untyped)
networks("agreement").add("elsewhere", Untyped)
"""


def test_the_options_of_a_plug_ins_network_are_typed_keys_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(networks("sva"), "_registered", dict(networks("sva")._registered))
    (tmp_path / "mine.py").write_text(TYPED)
    load_plugin(tmp_path / "mine.py")
    schema = TASKS.get("sva").load("schema")

    def resolved(network, **model):
        return resolve(schema, [Source("test", {"model": {"network": network, **model}})], None).config

    with pytest.raises(ConfigError) as mistyped:
        resolved("tpyed", depth=3)
    assert [problem.key for problem in mistyped.value.problems] == ["model.network"]
    assert "one of your own needs --plugin FILE" in mistyped.value.problems[0].what
    with pytest.raises(ConfigError, match=r"mine\.py:18 has it in networks\('agreement'\), not networks\('sva'\)"):
        resolved("elsewhere")
    deep = resolved("typed", depth=3)
    assert (deep.model.depth, deep.model.width) == (3, schema().model.width)
    assert isinstance(deep, schema)
    assert len({run_id(resolved("typed", depth=depth), fingerprints={}) for depth in (1, 2, 3)}) == 3
    assert resolve(schema, [Source("file", deep.model_dump(mode="json"))], None).config == deep
    for values, message in (({"depth": 10}, "model.depth"), ({"dept": 1}, "did you mean 'depth'")):
        with pytest.raises(PhmrunError, match=message):
            resolved("typed", **values)
    with pytest.raises(PhmrunError, match=r"model\.depth: there is no such key"):
        resolved("untyped", depth=3)
    with pytest.raises(PhmrunError, match=r"mine\.py:13: the network 'untyped' cannot be called"):
        build_network("sva", resolved("untyped"))
    shown = phmrun(tmp_path, "schema", "sva", "--plugin", "mine.py", "--model", "typed")
    assert "Number of maps of the plug-in." in shown.stdout


def test_a_plug_in_with_a_metric_is_loaded_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(METRICS, "_registered", dict(METRICS._registered))
    (tmp_path / "a.py").write_text("import phmrun.metric as m\nm.METRICS.add('a', m.Metric('a', measure=lambda s: s))")
    assert load_plugin(tmp_path / "a.py") == load_plugin(tmp_path / "a.py")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("r.METRICS.add('m', Metric('m', tasks=('sva', 'svaa')))", r"'m' has tasks=\('sva', 'svaa'\)"),
        ("r.METRICS.add('m', Metric('m', tasks='sva'))", "'m' has tasks='sva'"),
        ("r.SCHEDULES.add('constant', 1)", "the schedule name 'constant' is reserved"),
        ("register('mine')(type('Mine', (), {}))", "is no structure"),
    ],
)
def test_a_faulty_registration_names_the_line_of_the_plug_in(tmp_path, monkeypatch, source, words):
    for name in ("_registered", "places"):
        monkeypatch.setattr(METRICS, name, {})
    head = "import phmrun.registry as r; from phmrun.layers import register; from phmrun.metric import Metric"
    (tmp_path / "mine.py").write_text(f"{head}\n{source}")
    with pytest.raises(PhmrunError, match=words) as caught:
        load_plugins([tmp_path / "mine.py"])
    assert (caught.value.where, bool(caught.value.hint)) == (f"{tmp_path / 'mine.py'}:2", True)


def test_modules_beside_a_plug_in_are_part_of_the_run_id(tmp_path):
    (tmp_path / "away").mkdir()
    (tmp_path / "mine.py").write_text("import json\nfrom beside_mine import *\n")
    (tmp_path / "beside_mine.py").write_text("import deeper_mine\n")
    (tmp_path / "deeper_mine.py").write_text("from package_mine import part\n")
    write_text(tmp_path / "package_mine" / "__init__.py", "from .part import WIDTH\n")
    write_text(tmp_path / "package_mine" / "part.py", "WIDTH = 4\n")
    (tmp_path / "json.py").write_text("raise SystemExit('hides an installed module')\n")
    code = "import phmrun.registry as r, pathlib; print(*r.plugin_marks(r.load_plugins([pathlib.Path('../mine.py')])))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path / "away")
    names = ["mine.py", "beside_mine.py", "deeper_mine.py", "package_mine/__init__.py", "package_mine/part.py"]
    assert (done.stdout, done.stderr) == (" ".join(f"plugin {name}" for name in names) + "\n", "")


def test_a_module_beside_a_plug_in_that_has_changed_is_not_used_as_it_was(tmp_path):
    write_text(tmp_path / "plug_mine.py", "import changed_mine\n")
    for content in ("WIDTH = 4\n", "WIDTH = 8\n"):
        write_text(tmp_path / "changed_mine.py", content)
        with pytest.raises(PhmrunError, match="has changed") if "8" in content else nullcontext():
            load_plugins([tmp_path / "plug_mine.py"])
    write_text(tmp_path / "copies" / "changed_mine.py", "WIDTH = 4\n")
    assert changed_plugins(tmp_path / "copies") == ["plugin changed_mine.py"]


def test_two_plug_ins_of_one_name_are_an_error(tmp_path):
    for folder, content in {"a": "", "b": "WIDTH = 4"}.items():
        write_text(tmp_path / folder / "mine.py", content)
    with pytest.raises(PhmrunError, match=r"two files have the name of plugin mine\.py"):
        load_plugins([tmp_path / "a" / "mine.py", tmp_path / "b" / "mine.py"])


def test_a_plug_in_that_was_removed_is_not_read_again(tmp_path):
    path = tmp_path / "gone.py"
    path.write_text("")
    load_plugins([path])
    path.unlink()
    assert changed_plugins(tmp_path) == []
