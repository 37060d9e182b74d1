"""Converted models of transformers in Hugging Face folders.

``config.json`` is that of transformers; ``model.safetensors`` holds the factors and the recipe of the conversion
(:mod:`phmrun.layers.factored_file`).
"""

from pathlib import Path
from typing import Any

from phmrun.errors import PhmrunError
from phmrun.files import write_text
from phmrun.layers.factored_file import load, save
from phmrun.layers.inference import is_pretrained

WEIGHTS = "model.safetensors"
README = """# {name}

The layers of this model have structured weights (phmrun). Load it with phmrun, which returns a model of transformers:

```python
from transformers import {kind}
from phmrun.layers import from_pretrained

model = from_pretrained({kind}, "{name}")
```

`{kind}.from_pretrained` alone does not know the structures.
"""


def save_pretrained(model: Any, folder: str | Path) -> Path:
    """Save a converted model of transformers to a folder: configuration, factors with their recipe, README.

    Args:
        model: Result of :func:`phmrun.layers.convert`.
        folder: Created if missing; its files are replaced.

    Returns:
        The folder.

    Raises:
        PhmrunError: The model is none of transformers, or has structures that :func:`phmrun.layers.convert` did not
            make.
    """
    if not is_pretrained(model):
        raise PhmrunError(f"this {type(model).__name__} is no model of transformers", hint="Use phmrun.layers.save.")
    folder, kind = Path(folder), type(model).__name__
    folder.mkdir(parents=True, exist_ok=True)
    model.config.architectures = [kind]
    model.config.save_pretrained(folder)
    if model.can_generate():
        model.generation_config.save_pretrained(folder)
    save(model, folder / WEIGHTS)
    write_text(folder / "README.md", README.format(name=folder.name, kind=kind))
    return folder


def from_pretrained(kind: Any, folder: str | Path) -> Any:
    """Load a folder that :func:`save_pretrained` wrote.

    Args:
        kind: Model class of transformers, or an auto class such as ``AutoModelForCausalLM``.
        folder: Folder on this machine.

    Raises:
        PhmrunError: transformers is not installed, or the file has no recipe or does not fit the model.
    """
    try:
        from transformers import AutoConfig
    except ImportError as error:
        hint = 'Run: pip install "phmrun[transformers]"'
        raise PhmrunError("the package 'transformers' is not installed", hint=hint) from error
    config = AutoConfig.from_pretrained(str(folder))
    build = kind.from_config if hasattr(kind, "from_config") else kind
    return load(lambda: build(config), Path(folder) / WEIGHTS).eval()
