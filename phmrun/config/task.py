"""A task, as the registry holds it: names of its parts, none of them imported yet."""

import importlib
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Task:
    """One task and where its three parts are, each as ``module:Name``.

    Args:
        name: The name on the command line.
        summary: What it is, in one line.
        schema: A subclass of ``phmrun.config.Experiment``, in a module that imports no torch.
        data: The Lightning data module.
        module: The Lightning module.
    """

    name: str
    summary: str
    schema: str
    data: str
    module: str

    def load(self, what: Literal["schema", "data", "module"]) -> Any:
        """Imports one part and returns the class."""
        module, _, name = str(getattr(self, what)).partition(":")
        return getattr(importlib.import_module(module), name)
