"""``phmrun count-params``: the size of a model, in closed form, without building it."""

from typing import Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import ExperimentOptions, Json, spread

EPILOG = """Example:

phmrun count-params nmt --preset base --layer phm --n 8"""


@spread
def count_params(
    options: ExperimentOptions,
    *,
    depth: Annotated[
        int, typer.Option(min=0, help="Levels of modules to list; 0: the scopes only.", rich_help_panel="Logging")
    ] = 1,
    as_json: Json = False,
) -> None:
    """Counts the parameters of a model, beside the dense model of the same shape."""
    from phmrun.cli.resolving import resolve_options

    request = resolve_options(options)
    from phmrun.training.counting import count_parameters

    count = count_parameters(request.resolved.config)
    if as_json:
        console.print_json(count)
        return
    rows = [(scope, *_numbers(entry)) for scope, entry in count["by_scope"].items()]
    rows.append(("total", *_numbers({"count": count["total"], "dense": count["dense_total"]})))
    console.print_table(("scope", "parameters", "dense", "share"), rows)
    if depth:
        console.stdout().print()
        modules = [module for module in count["modules"] if module["name"].count(".") < depth]
        console.print_table(("module", "parameters", "dense", "share"), [(m["name"], *_numbers(m)) for m in modules])


def _numbers(entry: Any) -> tuple[int, int | None, str | None]:
    """Parameters, those of the dense model, and their ratio."""
    if isinstance(entry, int):
        return entry, None, None
    count, dense = entry["count"], entry.get("dense")
    return count, dense, f"{count / dense:.1%}" if dense else None
