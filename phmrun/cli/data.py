"""``phmrun data``: which datasets there are, whether they are on this machine, and how they get there."""

from typing import Annotated, Any

import typer

from phmrun.cli import completion
from phmrun.cli.console import print_json, print_table
from phmrun.datasets import CATALOGUE, Dataset, Presence, data_dir, dataset_dir, inspect, is_here

app = typer.Typer(
    help="List, inspect and fetch datasets.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


Name = Annotated[
    str, typer.Argument(help="Name of a dataset: see `phmrun data list`.", autocompletion=completion.datasets)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]


@app.command("list", epilog="Example: phmrun data list --json")
def list_datasets(as_json: Json = False) -> None:
    """List the datasets: tasks, size, licence, and whether they are on this machine."""
    datasets = [CATALOGUE.get(name) for name in CATALOGUE.names()]
    if as_json:
        print_json([_summary(dataset) for dataset in datasets])
        return
    rows = [
        (
            "✓" if is_here(dataset) else "–",
            dataset.name,
            ", ".join(dataset.tasks),
            _sizes(dataset),
            _on_disk(dataset),
            dataset.licence,
        )
        for dataset in datasets
    ]
    print_table(("here", "name", "tasks", "sizes", "on disk", "licence"), rows)
    typer.echo(f"in {data_dir()}", err=True)


@app.command("info", epilog="Example: phmrun data info multi30k")
def info(name: Name, as_json: Json = False) -> None:
    """Show everything about one dataset, and compare the checksums of its files."""
    dataset = CATALOGUE.get(name)
    presences = inspect(dataset)
    if as_json:
        files = [_file(presence) for presence in presences]
        print_json(_summary(dataset) | {"citation": dataset.citation, "files": files})
        return
    _print_facts(dataset)
    if dataset.generated:
        typer.echo("Generated when it is used: there is nothing to fetch.")
        return
    rows = [
        (presence.split, presence.role, presence.file.path, presence.file.bytes, presence.check.value)
        for presence in presences
    ]
    print_table(("split", "role", "file", "bytes", "state"), rows)


@app.command("fetch", epilog="Example: phmrun data fetch multi30k")
def fetch_dataset(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Replace files whose checksum is wrong.")] = False,
    as_json: Json = False,
) -> None:
    """Download a dataset's missing files, with checksums; an interrupted download continues."""
    from phmrun.datasets.fetch import fetch

    dataset = CATALOGUE.get(name)
    fetched = fetch(dataset, force=force)
    folder = None if dataset.generated else str(dataset_dir(dataset))
    if as_json:
        print_json({"name": name, "folder": folder, "fetched": [str(path) for path in fetched]})
    elif dataset.generated:
        typer.echo(f"{name} is generated when it is used: there is nothing to fetch.")
    elif fetched:
        typer.echo(f"Fetched {len(fetched)} of {len(dataset.files)} files into {folder}")
    else:
        typer.echo(f"All {len(dataset.files)} files are in {folder}")


@app.command("path", epilog="Example: ls $(phmrun data path multi30k)")
def path(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of a dataset, or nothing for the whole.", autocompletion=completion.datasets),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the data directory, or a dataset's folder in it, whether or not it exists."""
    folder = data_dir() if name is None else dataset_dir(CATALOGUE.get(name))
    if as_json:
        print_json({"path": str(folder), "exists": folder.is_dir()})
    else:
        typer.echo(folder)


def _summary(dataset: Dataset) -> dict[str, Any]:
    """What ``list`` says of a dataset, for JSON."""
    return {
        "name": dataset.name,
        "here": is_here(dataset),
        "generated": dataset.generated,
        "tasks": list(dataset.tasks),
        "summary": dataset.summary,
        "licence": dataset.licence,
        "homepage": dataset.homepage,
        "format": dataset.format,
        "sizes": {split: dict(counts) for split, counts in dataset.sizes.items()},
        "bytes": dataset.bytes,
        "folder": None if dataset.generated else str(dataset_dir(dataset)),
    }


def _file(presence: Presence) -> dict[str, Any]:
    """What ``info`` says of one file, for JSON."""
    return {
        "split": presence.split,
        "role": presence.role,
        "path": str(presence.path),
        "bytes": presence.file.bytes,
        "sha256": presence.file.sha256,
        "urls": list(presence.file.urls),
        "state": presence.check.value,
    }


def _print_facts(dataset: Dataset) -> None:
    """The catalogue's entry, for people."""
    facts = {
        "summary": dataset.summary,
        "tasks": ", ".join(dataset.tasks),
        "licence": dataset.licence,
        "homepage": dataset.homepage,
        "format": dataset.format,
        "sizes": _sizes(dataset),
        "folder": None if dataset.generated else str(dataset_dir(dataset)),
    }
    typer.echo(dataset.name)
    for label, value in facts.items():
        if value:
            typer.echo(f"  {label:<9} {value}")
    if dataset.citation:
        typer.echo(f"\n{dataset.citation}")


def _on_disk(dataset: Dataset) -> str:
    """Size of the files in MB."""
    if dataset.generated:
        return "–"
    return "?" if dataset.bytes is None else f"{dataset.bytes / 1e6:,.1f} MB"


def _sizes(dataset: Dataset) -> str:
    """What each split holds, by its first unit."""
    first = {split: next(iter(counts.items())) for split, counts in dataset.sizes.items() if counts}
    return ", ".join(f"{split} {count:,} {unit}" for split, (unit, count) in first.items())
