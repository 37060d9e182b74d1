"""Converted models of transformers as folders: configuration, and the file of factors with its recipe."""

from pathlib import Path
from typing import Any

from phmrun.errors import PhmrunError
from phmrun.layers.factored_file import frozen_weights, load, save
from phmrun.layers.inference import is_pretrained

WEIGHTS = "model.safetensors"


def save_pretrained(model: Any, folder: str | Path) -> Path:
    """Save a converted model of transformers to a folder: configuration, and factors with their recipe.

    Args:
        model: Result of :func:`phmrun.layers.convert`.
        folder: Created if missing; its files are replaced.

    Returns:
        The folder.

    Raises:
        PhmrunError: The model is none of transformers, has updates of frozen weights, or structures that
            :func:`phmrun.layers.convert` did not make.
    """
    if not is_pretrained(model):
        raise PhmrunError(f"this {type(model).__name__} is no model of transformers", hint="Use phmrun.layers.save.")
    if frozen_weights(model):
        hint = "phmrun.layers.save writes the updates; load builds them over the model whose weights were frozen."
        raise PhmrunError("the model has frozen weights, which a folder cannot hold beside updates", hint=hint)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    if model.can_generate():
        model.generation_config.save_pretrained(folder)
    save(model, folder / WEIGHTS)
    return folder


def from_pretrained(kind: Any, folder: str | Path) -> Any:
    """Load a folder that :func:`save_pretrained` wrote.

    Args:
        kind: Model class of transformers, or an auto class such as ``AutoModelForCausalLM``.
        folder: Folder on this machine.

    Raises:
        PhmrunError: The file has no recipe or does not fit the model.
    """
    from transformers import AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(str(folder))
    build = kind.from_config if hasattr(kind, "from_config") else kind
    model = load(lambda: build(config), Path(folder) / WEIGHTS).eval()
    if (Path(folder) / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(str(folder))
    return model
