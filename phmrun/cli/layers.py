"""``phmrun layers``: weight structures and embeddings of this installation."""

import re
from typing import Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, Plugin
from phmrun.errors import unknown
from phmrun.progress import waiting
from phmrun.registry import EMBEDDINGS, STRUCTURES, load_plugins

LETTERS = (
    "k: output features (rows of W) · d: input features (columns) · V: vocabulary size · m: embedding width\n"
    "n: order of phm and hypercomplex (1/n of the parameters) · r: rank, or number of terms · g: groups · b: blocks\n"
    "mult.: multiplications per vector relative to a dense matrix; 2048 × 512 (square: 512 × 512), 4,096 vectors"
)  # symbols of the formulas
EXAMPLE = (2048, 512)  # rows and columns of the example matrix; 512 × 512 for square structures
_FACTS = ("formula", "count_formula", "constraint", "source")


def layers(
    name: Annotated[str | None, typer.Argument(autocompletion=completion.embeddings)] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """List all weight structures and embeddings, or show one: description, formulas, counts, options.

    A structure builds W of k × d from fewer parameters. An embedding has several matrices. Counts are of a 2048 × 512
    matrix (square structures: 512 × 512), relative to a dense one's.

    Args:
        name: Name of a structure or an embedding (default: all).

    Examples:
        phmrun layers
        phmrun layers phm
    """
    load_plugins(plugin)
    with waiting("preparing"):
        import phmrun.layers  # noqa: F401  (torch, which takes its time)
    if name is not None:
        _show(name, as_json)
        return
    facts = [_facts(name) for name in STRUCTURES.names()]
    tables = [_facts(name) for name in EMBEDDINGS.names()]
    if as_json:
        console.print_json([*facts, *tables])
        return
    keys = ("name", *_FACTS)
    rows = [[*(fact[key] for key in keys), _share(fact["example"], "multiplications")] for fact in facts]
    console.print_table(("layer", "W [k, d]", "parameters", "constraint", "paper", "mult."), rows)
    print()
    rows = [[fact[key] for key in keys] for fact in tables]
    console.print_table(("embedding", "vector of word v, m numbers", "parameters", "constraint", "paper"), rows)
    console.print_line(f"\n{LETTERS}")


def _show(name: str, as_json: bool) -> None:
    """Print a structure or embedding: description, formulas, counts, options."""
    from phmrun.config.options import options_of

    facts = _facts(name)
    options = [
        {"name": option, "type": _type(field.annotation), "default": field.default, "help": field.description}
        for option, field in options_of(name, table=True).model_fields.items()
    ]
    description = " ".join((_registered(name).__doc__ or "").partition("Args:")[0].split())
    if as_json:
        console.print_json({**facts, "description": description, "options": options})
        return
    console.print_line(f"{name}: {description}\n")
    lines = [(fact.replace("_", " "), facts[fact]) for fact in _FACTS]
    if example := facts["example"]:
        sizes = f"{example['out_features']} × {example['in_features']}"
        for count in ("parameters", "multiplications"):
            lines.append((f"{count}, {sizes}", f"{example[count]:,}: {_share(example, count)} of a dense matrix's"))
    console.print_table(("", ""), lines)
    print()
    if options:
        rows = [[option["name"], option["type"], str(option["default"]), option["help"]] for option in options]
        console.print_table(("option", "type", "default", "meaning"), rows)
        first = options[0]
        section = "layer" if facts["makes"] == "matrix" else "embedding"
        default = "null" if first["default"] is None else first["default"]
        console.print_line(f"\nIn a configuration: {section}: {name} {first['name']}={default}")
    else:
        print("no options")


def _facts(name: str) -> dict[str, Any]:
    """Return the facts of a structure or embedding, with an example matrix.

    Keys: name, makes ("matrix" or "embedding"), formula, count_formula, constraint, source, example. The example has
    out_features, in_features, parameters and multiplications (per token). It is None for embeddings, and for
    structures that do not fit its sizes.

    Raises:
        PhmrunError: The name is unknown.
    """
    import torch

    from phmrun.layers.structure import TOKENS

    layer = _registered(name)
    facts = {"name": name, "makes": "matrix" if name in STRUCTURES else "embedding"}
    facts |= {fact: getattr(layer, fact) for fact in _FACTS}
    if name not in STRUCTURES:
        return {**facts, "example": None}
    rows, columns = (EXAMPLE[1], EXAMPLE[1]) if layer.square else EXAMPLE
    if layer.misfit(rows, columns):
        return {**facts, "example": None}
    with torch.device("meta"):
        built = layer(rows, columns)
    sizes = {"out_features": rows, "in_features": columns}
    counts = {"parameters": built.kept(), "multiplications": built.multiplications(TOKENS) // TOKENS}
    return {**facts, "example": sizes | counts}


def _share(example: dict[str, int] | None, count: str) -> str:
    """Return a count of the example relative to a dense matrix's.

    It has two decimals. "" without an example.
    """
    return f"{example[count] / (example['out_features'] * example['in_features']):.2f}" if example else ""


def _registered(name: str) -> Any:
    """Return the registered structure or embedding.

    Raises:
        PhmrunError: The name is unknown.
    """
    for registry in (STRUCTURES, EMBEDDINGS):
        if name in registry:
            return registry.get(name)
    raise unknown("layer", name, [*STRUCTURES.names(), *EMBEDDINGS.names()])


def _type(annotation: Any) -> str:
    """Return a type as in code: ``int``, or ``'paper' | 'released'``.

    Module names of ``typing`` and ``collections.abc`` are left out.
    """
    if hasattr(annotation, "__args__") and "Literal" in str(annotation):
        return " | ".join(repr(value) for value in annotation.__args__)
    if isinstance(annotation, type):
        return annotation.__name__
    return re.sub(r"(typing|collections\.abc)\.", "", str(annotation))
