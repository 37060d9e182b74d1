"""Recipe of a converted model, an entry of its file's metadata: its steps, and its validation."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from torch import nn

from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers.report import conversions
from phmrun.layers.structure import Structure

KEY = "phmrun"
"""Metadata entry with the recipe."""
FORMAT = 1
"""Version of the recipe."""


class Step(BaseModel):
    """Conversion of some layers to one structure."""

    structure: str
    options: dict[str, Any]
    places: list[str]


class Base(BaseModel):
    """Frozen weights that a file of updates does not hold."""

    names: list[str]
    sha256: str


class Recipe(BaseModel):
    """Entry "phmrun" of a file's metadata; see :mod:`phmrun.layers.factored_file`."""

    format: Literal[1]
    steps: list[Step]
    tied: dict[str, str]
    base: Base | None = None
    int8: dict[str, str] = {}


def steps_of(model: nn.Module) -> list[dict[str, Any]]:
    """Return the steps of a converted model's recipe.

    The keys of a step are "structure", "options" and "places", the names of its layers. Layers with the same structure
    and options are one step; steps are in the order of their first layer.

    Raises:
        PhmrunError: A converted layer has no structure any more.
    """
    steps: dict[str, dict[str, Any]] = {}
    modules = dict(model.named_modules())
    for layer in conversions(model):
        if not any(isinstance(part, Structure) for part in modules.get(layer.name, nn.Module()).modules()):
            hint = "Save the model that phmrun.layers.convert returned, not a folded copy."
            raise PhmrunError(f"layer {layer.name!r} was converted but has no structure now", hint=hint)
        step = {"structure": layer.structure, "options": dict(layer.options), "places": []}
        steps.setdefault(json.dumps(step, sort_keys=True), step)["places"].append(layer.name)
    return list(steps.values())


def read_recipe(path: Path, metadata: Mapping[str, str] | None) -> Recipe:
    """Return the recipe in a file's metadata, after validation of its form.

    Raises:
        PhmrunError: (exit 3) There is no recipe, or it is damaged or of another format.
    """
    text = (metadata or {}).get(KEY)
    if text is None:
        raise fault(path, "the file has no recipe", hint="Write it with phmrun.layers.save.")
    try:
        return Recipe.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",):
            what = f"the recipe has format {first['input']!r}; valid: {FORMAT}"
            raise fault(path, what, hint="Update phmrun.") from error
        where = ".".join(map(str, first["loc"]))
        raise fault(path, f"the recipe is damaged: {where}: {first['msg']}") from error


def fault(path: Path, what: str, hint: str | None = None) -> PhmrunError:
    """Return an error (exit 3) about the file."""
    return PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA)
