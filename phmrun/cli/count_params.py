"""``phmrun count-params``: parameters of a model, or of all models whose sizes papers print."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, NetworkOptions, resolve_options, spread
from phmrun.errors import PhmrunError
from phmrun.ledger.wording import scope_in_words
from phmrun.progress import waiting


@spread
def count_params(
    options: NetworkOptions,
    paper: Annotated[str | None, typer.Option(metavar="NAME|all")] = None,
    as_json: Json = False,
) -> None:
    """Count the parameters of a model, next to those of the dense model.

    No weights are allocated.

    If the task's data are not on this machine, the largest vocabulary allowed is counted. --paper lists a paper's
    counts instead. One of both is required.

    Args:
        paper: Instead of a task: all parameter counts that a paper prints, next to those computed here.

    Examples:
        phmrun count-params nmt --preset base --layer phm --n 8
        phmrun count-params --paper all
    """
    if paper is not None and options.task:
        raise PhmrunError("a paper's networks have its own settings: leave out the task", where="--paper")
    if paper is not None:
        _audit(paper, as_json)
        return
    if not options.task:
        raise PhmrunError("name a task, or --paper", hint="phmrun count-params nmt, or phmrun count-params --paper all")

    with waiting("preparing"):
        request = resolve_options(options)
        from phmrun.engine.counting import count_parameters
        from phmrun.engine.data import vocabulary_sizes

    config = request.resolved.config
    learnt = vocabulary_sizes(config)
    count = count_parameters(config, learnt)
    if as_json:
        console.print_json({**count, "sizes": list(learnt or config.sizes), "exact": learnt is not None})
        return
    if learnt is None:
        asked = f"with a vocabulary of up to {max(config.sizes):,}"
        console.print_aside(f"The data ({config.data.name}) are not on this machine: counted {asked}.")
    modules: Counter[str] = Counter()  # by the first part of the names
    for module in count["modules"]:
        modules[module["name"].partition(".")[0]] += module["count"]
    scopes: list[tuple[Any, ...]] = [
        (scope_in_words(name), *_numbers(entry), entry.get("multiplications"))
        for name, entry in count["by_scope"].items()
    ]
    total = _numbers({"count": count["total"], "dense": count["dense_total"]})
    scopes.append(("total", *total, count["multiplications"]))
    if count["trained_total"] > count["total"]:
        scopes.append(("total in training", count["trained_total"], None, None, None))
    console.print_table(("scope", "parameters", "dense", "share", "multiplications per vector"), scopes)
    console.print_line("")
    console.print_table(("module", "parameters"), modules.items())
    if memory := count.get("memory"):
        console.print_line("")
        console.print_table(("memory, 32 bits", "MB"), [(kind, round(size / 1e6, 1)) for kind, size in memory.items()])


def _audit(paper: str, as_json: bool) -> None:
    """Print the counts in one paper, or in "all", next to computed ones.

    A summary of the verdicts follows the table.

    Raises:
        PhmrunError: The paper is unknown.
    """
    from phmrun.papers.table import table_names

    table_names(paper)  # rejects an unknown paper before torch is imported
    from phmrun.papers.audit import audit
    from phmrun.papers.published import headline
    from phmrun.progress import progress

    rows = []
    with progress("building the papers' networks", None, "figures") as advance:
        for row in audit(paper):
            rows.append(asdict(row))
            advance(1)
    if as_json:
        console.print_json(rows)
        return
    columns = ("paper", "table", "row", "published", "computed", "verdict", "note")
    console.print_table(columns, [[row[column] for column in columns] for row in rows])
    console.print_line(f"\n{headline([row['verdict'] for row in rows])}")


def _numbers(entry: Mapping[str, int]) -> tuple[int, int, str | None]:
    """Return parameters, dense parameters, and their ratio in percent; None if there are no dense ones."""
    count, dense = entry["count"], entry["dense"]
    return count, dense, f"{count / dense:.1%}" if dense else None
