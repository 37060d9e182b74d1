"""Recipe of a converted model, an entry of its file's metadata: its steps, and its validation."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers.report import conversions
from phmrun.layers.structure import Structure

KEY = "phmrun"
"""Metadata entry with the recipe."""
FORMAT = 1
"""Version of the recipe."""


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


def read_recipe(path: Path, metadata: Mapping[str, str] | None) -> dict[str, Any]:
    """Return the recipe in a file's metadata, after validation of its form.

    Raises:
        PhmrunError: (exit 3) There is no recipe, or it is damaged or of another format.
    """
    text = (metadata or {}).get(KEY)
    if text is None:
        raise fault(path, "the file has no recipe", hint="Write it with phmrun.layers.save.")
    try:
        recipe = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(path, f"the recipe is damaged: {error}") from error
    if isinstance(recipe, dict) and recipe.get("format") not in (FORMAT, None):
        raise fault(path, f"the recipe has format {recipe['format']!r}; valid: {FORMAT}", hint="Update phmrun.")
    if not _is_recipe(recipe):
        raise fault(path, "the recipe is damaged: steps with structure, options and places are expected")
    checked: dict[str, Any] = recipe
    return checked


def _is_recipe(recipe: Any) -> bool:
    """Return True if a recipe has this format and all keys, each of the right type.

    "base" and "int8" may be missing. Other keys are not checked.
    """

    def is_step(step: Any) -> bool:
        """Return True if a step has its three keys, each of the right type."""
        return (
            isinstance(step, dict)
            and isinstance(step.get("structure"), str)
            and isinstance(step.get("options"), dict)
            and isinstance(step.get("places"), list)
            and all(isinstance(place, str) for place in step["places"])
        )

    def is_base(base: Any) -> bool:
        names = base.get("names") if isinstance(base, dict) else None
        return isinstance(names, list) and all(isinstance(name, str) for name in names) and "sha256" in base

    base = recipe.get("base") if isinstance(recipe, dict) else None
    return (
        isinstance(recipe, dict)
        and recipe.get("format") == FORMAT
        and isinstance(recipe.get("steps"), list)
        and all(is_step(step) for step in recipe["steps"])
        and isinstance(recipe.get("tied"), dict)
        and all(isinstance(name, str) for name in recipe["tied"].values())
        and (base is None or is_base(base))
        and isinstance(recipe.get("int8", {}), dict)
        and all(isinstance(name, str) for name in recipe.get("int8", {}).values())
    )


def fault(path: Path, what: str, hint: str | None = None) -> PhmrunError:
    """Return an error (exit 3) about the file."""
    return PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA)
