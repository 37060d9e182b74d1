"""Packages of others: names that contradict each other, reserved names, origins, and their code in the run id."""

import sys
import textwrap

import pytest
from tiny_experiments import configured, run_experiment, run_of

from phmrun import registry
from phmrun.engine import code
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import State
from phmrun.registry import METRICS, STRUCTURES, load_plugin

LAYER = '''
    """{comment}"""
    import torch
    from torch import nn
    from phmrun.layers import Structure, register

    @register("{name}")
    class Mine(Structure):
        """A dense matrix, scaled."""

        formula = "W = {scale}·V"
        count_formula = "k·d"
        constraint = "none"
        source = "ours"

        def __init__(self, out_features: int, in_features: int) -> None:
            super().__init__(out_features, in_features)
            self.v = nn.Parameter(torch.empty(out_features, in_features))

        def reset_parameters(self, variance: float) -> None:
            nn.init.normal_(self.v, std=variance**0.5)

        def materialize(self):
            return {scale} * self.v
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a distribution with one structure on the path; installed again, it is another release of it."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    def installed(distribution="mine", name="mine", scale="1.0", comment="A layer.", version="1.0", points=None):
        package = f"{distribution}_layers"
        folder = tmp_path / "site" / package
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(
            textwrap.dedent(LAYER).format(name=name, scale=scale, comment=comment), encoding="utf-8"
        )
        facts = tmp_path / "site" / f"{distribution}-1.0.dist-info"
        facts.mkdir(exist_ok=True)
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        points = points or f"{name} = {package}:Mine"
        (facts / "entry_points.txt").write_text(f"[phmrun.structures]\n{points}\n")
        forget(package, name)

    registered = dict(STRUCTURES._registered)
    yield installed
    monkeypatch.undo()
    forget()
    STRUCTURES._registered.clear()
    STRUCTURES._registered.update(registered)


def forget(*names):
    for name in names:
        sys.modules.pop(name, None)
        STRUCTURES._registered.pop(name, None)
    for cached in (registry._announcements, registry.all_announcements):
        cached.cache_clear()
    code._package_checksum.cache_clear()


def test_a_name_announced_twice_names_both_distributions(install):
    install(name="low-rank", scale="2.0")
    assert "low-rank" in STRUCTURES.names()
    with pytest.raises(PhmrunError, match="announced twice") as caught:
        STRUCTURES.get("low-rank")
    assert "phmrun" in caught.value.what
    assert "mine 1.0 (mine_layers:Mine)" in caught.value.what
    assert "pip uninstall mine" in caught.value.hint
    assert STRUCTURES.get("circulant").__module__ == "phmrun.layers.structures.circulant"


def test_a_plugin_cannot_take_the_name_of_a_built_in_structure(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(textwrap.dedent(LAYER).format(name="low-rank", scale="2.0", comment=""), encoding="utf-8")
    with pytest.raises(PhmrunError, match="reserved by phmrun"):
        load_plugin(path)
    path.write_text(
        "from phmrun.metric import Metric\nfrom phmrun.registry import METRICS\nMETRICS.add('bleu', Metric('bleu'))"
    )
    with pytest.raises(PhmrunError, match="reserved by phmrun"):
        load_plugin(path)
    assert METRICS.get("bleu").measure is not None


def test_the_code_of_a_package_is_part_of_the_run_id_and_compared_later(install, tmp_path):
    install()
    config = configured("sva", tmp_path / "corpus", {"layer": {"structure": "mine"}, "training": {"max_steps": 2}})
    run = run_of(run_experiment(config, tmp_path / "runs"))
    assert "package mine: layer mine" in run.fingerprints()
    before = run.metrics()["test/accuracy"]

    install(comment="The same layer, told otherwise.", version="1.0.1")
    assert run_experiment(config, tmp_path / "runs").run_id == run.id  # docstrings do not count
    assert evaluate_run(open_run(run))["test/accuracy"]["value"] == before["value"]

    install(scale="2.0", version="1.1")
    with pytest.raises(PhmrunError, match="other code: package mine: layer mine") as caught:
        open_run(run)
    assert caught.value.code is ExitCode.DATA
    again = run_experiment(config, tmp_path / "runs")
    assert again.run_id != run.id
    assert again.state is State.DONE
