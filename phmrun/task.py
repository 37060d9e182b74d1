"""Task: the places of its parts, its metrics and baselines, and formats of the user's files. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from phmrun.metric import Baseline, Metric
from phmrun.registry import load

Part = Literal["schema", "vocabulary", "data", "module", "predictor"]


class Format(NamedTuple):
    """A format in which a task reads the user's own files: its name, what stands where, and a valid text of each."""

    name: str
    says: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Task:
    """One task and where its parts are, each as ``module:name``.

    Args:
        name: The name on the command line.
        summary: What it is, in one line.
        schema: A subclass of ``phmrun.config.Experiment``, in a module that imports no torch.
        vocabulary: A class of what turns text into numbers; see ``phmrun.engine.data.Vocabulary``.
        data: ``build_data(config, cache)``, which makes a ``phmrun.engine.data.DataModule``.
        module: ``build_module(config, *sizes)``, which makes a ``phmrun.engine.module.TrainingModule`` for a
            vocabulary of these sizes.
        predictor: ``build_predictor(config, module, vocabulary, weights=, batch_size=, device=)``, which makes a
            ``phmrun.engine.trained_model.Predictor`` of a trained module.
        converts: Whether the predictor can convert the module for another engine, and takes ``exports=``, the directory
            where it keeps what it converted.
        formats: What the user's own files look like; all are UTF-8, plain or .gz.
        pipeline: Name of the task on the Hugging Face Hub: "translation".
        metrics: Metrics of the task; one of its own needs no other announcement.
        baselines: Systems without a network that are scored beside the trained one.
        networks: The networks that tables of papers name, each as ``module:name`` of its class or what builds it.
    """

    name: str
    summary: str
    schema: str
    vocabulary: str
    data: str
    module: str
    predictor: str
    converts: bool = False
    formats: tuple[Format, ...] = ()
    pipeline: str | None = None
    networks: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    baselines: tuple[Baseline, ...] = ()

    def load(self, what: Part) -> Any:
        """Imports one part and returns it."""
        return load(getattr(self, what))
