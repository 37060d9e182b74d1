"""Tasks: parts, metrics, baselines and file formats. Imports no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from phmrun.metric import Baseline, Metric
from phmrun.registry import load

Part = Literal["schema", "vocabulary", "data", "module", "predictor"]


class Format(NamedTuple):
    """Format of the user's files.

    Attributes:
        name: Name of the format.
        says: Description of the format.
        files: Valid sample by file name.
    """

    name: str
    says: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Task:
    """Task, with the places of its parts as ``module:name``.

    Args:
        name: Name on the command line.
        summary: Description in one line.
        schema: Subclass of ``phmrun.config.Experiment``, in a module that imports no torch.
        vocabulary: Class that maps text to token ids; see ``phmrun.engine.data.Vocabulary``.
        data: ``build_data(config, cache)``, which returns a ``phmrun.engine.data.DataModule``.
        module: ``build_module(config, *sizes)``, which returns a ``phmrun.engine.module.TrainingModule`` for
            vocabularies of these sizes.
        predictor: ``build_predictor(config, module, vocabulary, weights=, batch_size=, device=)``, which returns a
            ``phmrun.engine.trained_model.Predictor`` of a trained module.
        converts: True if the predictor can convert the module for another engine. It then takes ``exports=``, the
            directory of converted models.
        formats: Formats of the user's files; all are UTF-8, plain or .gz.
        pipeline: Name of the task on the Hugging Face Hub: "translation".
        metrics: Metrics of the task; they need no other announcement.
        baselines: Systems without a trained network that are scored next to it.
        networks: Networks that papers' tables name, each as ``module:name`` of a class or function.
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
        """Import and return a part of the task, by the name of its attribute."""
        return load(getattr(self, what))
