"""A stand-in for what trains, and a finished run."""

import functools
import io
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from phmrun.text.coverage import Coverage


class FakeExperiment(types.ModuleType):
    """Records its calls in place of ``phmrun.engine``'s experiment, dry_run, evaluation and trained_model."""

    def __init__(self) -> None:
        super().__init__("phmrun.engine.experiment")
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.error: BaseException | None = None

    def _called(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.calls.append((name, args, options))
        if self.error:
            raise self.error

    def train(self, config: Any, **options: Any) -> Any:
        self._called("train", (config,), options)
        metrics = {"test/bleu": {"value": 31.25, "signature": "nrefs:1|case:mixed"}, "test/loss": 2.5}
        return types.SimpleNamespace(run_id="nmt-x", run_dir=Path("runs/nmt-x"), metrics=metrics, state="done")

    def dry_run(self, config: Any, **options: Any) -> Any:
        self._called("dry_run", (config,), options)
        data = {"train": {"sentences": 20_000}, "languages": ["en", "de"]}
        return types.SimpleNamespace(data=data, parameters={"total": 123_456}, rates=[])

    def open_run(self, run: Any) -> Any:
        kernels = types.SimpleNamespace(applied=nullcontext)
        predictor = functools.partial(self.predictor, run)
        return types.SimpleNamespace(run=run, predictor=predictor, kernels=lambda: kernels)

    def evaluate_run(self, trained: Any, **options: Any) -> dict[str, Any]:
        self._called("evaluate", (trained.run,), options)
        return {"test/bleu": {"value": 30.5, "signature": "nrefs:1"}}

    def predictor(self, run: Any, **options: Any) -> Any:
        self._called("predictor", (run,), options)

        def predict(lines: Iterable[str]) -> Iterator[Any]:
            yield from (types.SimpleNamespace(text=line.upper(), values={"said": line.upper()}) for line in lines)

        return types.SimpleNamespace(predict=predict, prompt="whatever you like", exact=False, coverage=Coverage())


@pytest.fixture
def experiment(monkeypatch) -> FakeExperiment:
    import phmrun.engine.trained_model  # imports trained_model before that is replaced

    fake = FakeExperiment()
    for name in ("experiment", "dry_run", "trained_model", "evaluation"):
        monkeypatch.setitem(sys.modules, f"phmrun.engine.{name}", fake)
        monkeypatch.setattr(phmrun.engine, name, fake, raising=False)
    return fake


@pytest.fixture
def type_in(monkeypatch) -> Callable[[bytes], None]:
    """Make these bytes the standard input."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


@pytest.fixture
def run_dir(tmp_path) -> Path:
    """A finished run of the task nmt, in ``tmp_path / "runs"``."""
    from phmrun.config import Source, resolve, task_defaults, to_yaml
    from phmrun.ledger import Run, State
    from phmrun.tasks.nmt.config import TranslationExperiment

    values = {"layer": {"structure": "phm", "n": 2}, "seed": 7}
    resolved = resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", values)], None)
    run = Run.create(tmp_path / "runs", "nmt-builtin-phm-7-0123456789ab", to_yaml(resolved.config))
    run.set_state(State.DONE)
    return run.path
