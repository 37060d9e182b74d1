"""``phmrun data``: list, inspect, fetch and check datasets."""

from typing import Annotated, Any

import typer

from phmrun.cli import completion
from phmrun.cli.console import print_json, print_table
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import Json
from phmrun.datasets import CATALOGUE, Dataset, data_dir, dataset_dir, inspect, is_here, splits_here
from phmrun.datasets.locations import Check, locate
from phmrun.errors import ExitCode, unknown

app = VerbGroup()


Name = Annotated[
    str, typer.Argument(help="Name of a dataset (`phmrun data list`).", autocompletion=completion.datasets)
]


@app.command("list")
def list_datasets(
    task: Annotated[str | None, typer.Argument(autocompletion=completion.tasks)] = None,
    as_json: Json = False,
) -> None:
    """List datasets: tasks, sizes, license, and presence on this machine.

    Args:
        task: Only datasets of this task.

    Example:
        phmrun data list nli
    """
    datasets = [CATALOGUE.get(name) for name in CATALOGUE.names(task)]
    if not datasets:
        raise unknown("task", str(task), {task for name in CATALOGUE.names() for task in CATALOGUE.get(name).tasks})
    if as_json:
        print_json([_summary(dataset) for dataset in datasets])
        return
    rows = [
        (
            _mark(dataset),
            dataset.name,
            _tasks(dataset),
            _sizes(dataset),
            "?" if dataset.bytes is None else f"{dataset.bytes / 1e6:,.1f} MB",
            dataset.licence,
        )
        for dataset in datasets
    ]
    print_table(("here", "name", "tasks", "sizes", "size", "licence"), rows)
    typer.echo(f"in {data_dir()}; ✓ here, ◐ here in part, – not here", err=True)


@app.command("info")
def info(
    name: Name,
    check: Annotated[bool, typer.Option("--check")] = False,
    as_json: Json = False,
) -> None:
    """Show a dataset: source, license, sizes, and the checksums of its files.

    A generated dataset has no files.

    Args:
        check: Compare checksums and counts of the files with the published ones instead. Exit code 3 if a file has a
            wrong checksum or a split is too small. Missing splits are listed as "not here".

    Examples:
        phmrun data info multi30k
        phmrun data info snli --check
    """
    dataset = CATALOGUE.get(name)
    if check:
        _check(dataset, as_json)
        return
    facts = _summary(dataset, "note", "by_hand", "citation")
    files: list[dict[str, Any]] = [
        {
            "split": presence.split,
            "role": presence.role,
            "path": presence.path,
            "bytes": presence.file.bytes,
            "sha256": presence.file.sha256,
            "urls": presence.file.urls,
            "archives": [part.archive for part in presence.file.parts],
            "state": presence.check.value,
        }
        for presence in inspect(dataset)
    ]
    if as_json:
        print_json(facts | {"files": files})
        return
    shown = facts | {"tasks": _tasks(dataset), "sizes": _sizes(dataset)}
    for label, value in shown.items():
        if value and isinstance(value, str):
            indented = value.strip().replace("\n", f"\n{'':12}")
            typer.echo(f"  {label.replace('_', ' '):<9} {indented}")
    if dataset.generated:
        typer.echo("Generated when it is used: there is nothing to fetch.")
    else:
        cells = ("split", "role", "path", "bytes", "state")
        print_table(cells, [tuple(row[cell] for cell in cells) for row in files])


@app.command("fetch")
def fetch_dataset(
    name: Name,
    split: Annotated[list[str] | None, typer.Option("--split", metavar="SPLIT")] = None,
    force: Annotated[bool, typer.Option("--force")] = False,
) -> None:
    """Download the missing files of a dataset, and check them.

    Files and archives that you have put into the dataset's folder are used.

    Args:
        split: Download only this split; may be repeated.
        force: Replace existing files with a wrong checksum.

    Examples:
        phmrun data fetch multi30k
    """
    from phmrun.datasets.fetch import fetch

    dataset = CATALOGUE.get(name)
    fetched = fetch(dataset, splits=split, force=force)
    if dataset.generated:
        typer.echo(f"{name} comes with phmrun: there is nothing to fetch.")
    else:
        typer.echo(f"Fetched {len(fetched)} of {len(dataset.files)} files into {dataset_dir(dataset)}")


def _check(dataset: Dataset, as_json: bool) -> None:
    """Compare checksums and counts of a dataset's files with the published ones, and print them.

    Raises:
        PhmrunError: (exit 3) No split is here; the error says how to bring them.
        Exit: (exit 3) A file has a wrong checksum, or a split is too small.
    """
    from phmrun.datasets.reading import compare, count

    here = [part for part in dataset.splits if part in splits_here(dataset)]
    if dataset.splits and not here:
        locate(dataset.name, list(dataset.splits))  # raises an error with instructions
    wrong = {presence.split for presence in inspect(dataset) if presence.check is Check.WRONG}
    rows: list[dict[str, Any]] = []
    for part in here:
        for counted in compare(dataset, part, count(dataset, part, locate(dataset.name, [part])[part])):
            verdict = Check.WRONG.value if part in wrong else counted.verdict
            rows.append({"split": part, **counted._replace(verdict=verdict)._asdict()})
    missing = [part for part in dataset.splits if part not in here]
    rows += [{"split": part, "verdict": Check.WRONG.value if part in wrong else "not here"} for part in missing]
    if as_json:
        print_json(rows)
    elif dataset.generated:
        typer.echo(f"{dataset.name} comes with phmrun: there is nothing to check.")
    else:
        cells = ("split", "unit", "found", "published", "verdict")
        print_table(cells, [tuple(row.get(cell) for cell in cells) for row in rows])
    if any(row["verdict"] in (Check.WRONG.value, "too few") for row in rows):
        raise typer.Exit(ExitCode.DATA)


def _summary(dataset: Dataset, *more: str) -> dict[str, Any]:
    """Return a dataset's facts for JSON, as on this machine; ``more`` are names of further ones."""
    names = ("name", "generated", "tasks", "summary", "licence", "homepage", "format", "sizes", "bytes", *more)
    return {name: getattr(dataset, name) for name in names} | {
        "here": is_here(dataset),
        "splits_here": splits_here(dataset),
        "splits": list(dataset.splits),
        "folder": None if dataset.generated else str(dataset_dir(dataset)),
    }


def _mark(dataset: Dataset) -> str:
    """Return ✓ if the dataset is here, ◐ if only some splits are, else –."""
    if is_here(dataset):
        return "✓"
    return "◐" if splits_here(dataset) else "–"


def _tasks(dataset: Dataset) -> str:
    """Return the dataset's tasks, separated by commas.

    Without any, return its format.
    """
    return ", ".join(dataset.tasks) or dataset.format


def _sizes(dataset: Dataset) -> str:
    """Return the size of each split: "train 29,000 pairs, dev …".

    The unit is the split's first.
    """
    first = {split: next(iter(counts.items())) for split, counts in dataset.sizes.items() if counts}
    return ", ".join(f"{split} {count:,} {unit}" for split, (unit, count) in first.items())
