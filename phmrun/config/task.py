"""A task, as the registry holds it: names of its parts, none of them imported yet."""

import importlib
from dataclasses import dataclass
from typing import Any, Literal

Part = Literal["schema", "vocabulary", "data", "module", "predictor"]


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
            ``phmrun.engine.predictor.Predictor`` of a trained module.
        converts: Whether the predictor can convert the module for another engine, and takes ``exports=``, the directory
            where it keeps what it converted.
    """

    name: str
    summary: str
    schema: str
    vocabulary: str
    data: str
    module: str
    predictor: str
    converts: bool = False

    def load(self, what: Part) -> Any:
        """Imports one part and returns it."""
        return load(getattr(self, what))


def load(place: str) -> Any:
    """Imports what ``module:name`` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
