"""``phmrun layers``: the weight structures that this installation knows."""

from typing import Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, Plugin
from phmrun.registry import STRUCTURES, load_plugins

app = typer.Typer(help="Weight structures: formulas, options, constraints.", no_args_is_help=True)

_FACTS = ("formula", "count_formula", "constraint", "source")


@app.command("list")
def list_layers(*, plugin: Plugin = None, as_json: Json = False) -> None:
    """Lists all structures: the matrix W [k, d] that each builds, and from how many numbers."""
    load_plugins(plugin)
    facts = [_facts(name) for name in STRUCTURES.names()]
    if as_json:
        console.print_json(facts)
        return
    rows = [[fact["name"], *(fact[name] for name in _FACTS)] for fact in facts]
    console.print_table(("layer", "W [k, d]", "parameters", "constraint", "paper"), rows)


@app.command("show")
def show_layer(
    name: Annotated[str, typer.Argument(help="Name of a structure.", autocompletion=completion.layers)],
    *,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Shows one structure: what it is, and its options."""
    load_plugins(plugin)
    from phmrun.layers import options_of

    facts = _facts(name)
    options = [
        {"name": option.name, "type": _type(option.annotation), "default": option.default, "help": option.help}
        for option in options_of(name)
    ]
    description = _description(name)
    if as_json:
        console.print_json({**facts, "description": description, "options": options})
        return
    out = console.stdout()
    out.print(f"{name}: {description}\n", markup=False)
    console.print_table(("", ""), [(fact.replace("_", " "), facts[fact]) for fact in _FACTS])
    out.print()
    if options:
        rows = [[option["name"], option["type"], str(option["default"]), option["help"]] for option in options]
        console.print_table(("option", "type", "default", "meaning"), rows)
        first = options[0]
        out.print(
            f"\nIn a configuration: layer: {{structure: {name}, {first['name']}: {first['default']}}}", markup=False
        )
    else:
        out.print("no options")


def _facts(name: str) -> dict[str, str]:
    structure = STRUCTURES.get(name)
    return {"name": name, **{fact: getattr(structure, fact) for fact in _FACTS}}


def _description(name: str) -> str:
    """The text of the class's docstring before its sections."""
    text = (STRUCTURES.get(name).__doc__ or "").partition("Args:")[0]
    return " ".join(text.split())


def _type(annotation: Any) -> str:
    """A type as it is written in code: ``int``, ``'paper' | 'released'``."""
    if hasattr(annotation, "__args__") and "Literal" in str(annotation):
        return " | ".join(repr(value) for value in annotation.__args__)
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
