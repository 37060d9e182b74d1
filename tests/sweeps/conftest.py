"""Tasks without a network, and sweeps written on the spot."""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import toy_experiment
import toy_planner
import yaml
from click.testing import CliRunner, Result
from tiny_experiments import write_corpus

from phmrun.cli import sweep as verb
from phmrun.cli.app import VERBS
from phmrun.config import Task
from phmrun.registry import TASKS
from phmrun.sweeps import planning
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.plan import Plan, plan
from phmrun.sweeps.scheduler import Workplace


@pytest.fixture(autouse=True)
def interrupts_are_heeded() -> Iterator[None]:
    """Background jobs of a shell ignore interrupts, and so would the processes that tests start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def toy_tasks(monkeypatch):
    """The tasks "toy" and "other"."""
    for name, schema in (("toy", "ToyExperiment"), ("other", "OtherExperiment")):
        part = f"toy_experiment:{schema}"
        monkeypatch.setitem(TASKS._registered, name, Task(name, "A toy.", part, "", "", "", ""))


@pytest.fixture
def written(tmp_path) -> Callable[..., str]:
    """Writes a sweep's file and returns its path."""

    def write(content: dict[str, Any] | str, name: str = "sweep.yaml") -> str:
        path: Path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
        return str(path)

    return write


@pytest.fixture
def nmt(tmp_path) -> Path:
    """A sweep over two layers on files of our own, and a third that does not fit."""
    corpus = write_corpus(tmp_path / "corpus")
    path = tmp_path / "nmt.yaml"
    path.write_text(f"""
task: nmt
base:
  data: {{prefix: {corpus}/, source: aa, target: bb, vocabulary: {{kind: word, size: 160, multiple_of: 16}}}}
  model: {{width: 16, feedforward: 32, heads: 2, encoder_layers: 1, decoder_layers: 1}}
grid: {{layer: [dense, {{structure: phm, n: 2}}, {{structure: phm, n: 3}}]}}
seeds: 2
""")
    return path


@pytest.fixture
def planned(written) -> Callable[..., Plan]:
    """The plan of a sweep's content."""

    def make(content: dict[str, Any] | str, **options: Any) -> Plan:
        return plan(load_sweep(written(content)), toy_experiment.inspect, toy_experiment.options_of, **options)

    return make


@pytest.fixture
def phmrun(monkeypatch, tmp_path) -> Callable[..., Result]:
    """Calls ``phmrun sweep`` with stand-ins for torch's view of the experiments and for training."""
    monkeypatch.setattr(planning, "inspector_of", lambda sweep, ledger=None, **_: toy_experiment.inspect)
    monkeypatch.setattr(planning, "options_of", toy_experiment.options_of)
    monkeypatch.setattr(verb, "Workplace", partial(Workplace, program=toy_planner.PROGRAM))
    monkeypatch.setattr(verb, "devices_of", lambda plan: [])

    command = next(verb for verb in VERBS if verb.name == "sweep").load()

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(command, [*arguments, "--runs-dir", str(tmp_path / "runs")])

    return call
