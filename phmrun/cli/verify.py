"""``phmrun verify``: check each link between raw data and printed number."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Json, Plugin, RunsDirectory
from phmrun.errors import PhmrunError, counted, data_error
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.results.verification import Link

Chain = tuple[str, "list[Link]"]
"""Name of a run or file, with its links."""


def verify(
    what: Annotated[str, typer.Argument(metavar="RUN|DIR", autocompletion=completion.runs)],
    runs_dir: RunsDirectory = Path("runs"),
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Check every link from raw data to the printed number, and name the first broken one (exit code 3).

    Scores are computed again from the stored predictions, or from the item counts in a results file. The check ends at
    the first broken link.

    Args:
        what: Run, directory of runs, or folder of results.

    Examples:
        phmrun verify nmt-multi30k-phm-1
        phmrun verify runs
        phmrun verify results
    """
    load_plugins(plugin)
    chains: list[Chain] = []
    for name, links in _chains(what, runs_dir):
        chains.append((name, links))
        if links[-1].state == "broken":
            break
    name, link = chains[-1][0], chains[-1][1][-1]
    broken = link.state == "broken"
    if as_json:
        checked = [{"name": name, "links": [link._asdict() for link in links]} for name, links in chains]
        console.print_json({"whole": not broken, "chains": checked})
    else:
        _print(chains)
    if broken:
        raise data_error(f"the chain is broken at {link.name}: {link.detail}", name)


def _chains(what: str, runs_dir: Path) -> Iterator[Chain]:
    """Yield the name and checked links of each run or file that ``what`` means.

    ``what`` is a run, a directory of runs, or a folder of results, tried in this order.

    Raises:
        PhmrunError: (exit 2) It is neither a run nor a directory. Other directories yield a broken link.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.listing import list_runs
    from phmrun.results.verification import verify_run

    folder = Path(what)
    try:
        runs = [Run.find(runs_dir, what)]
    except PhmrunError:
        if not folder.is_dir():
            raise
        runs = [Run(run.path) for run in list_runs(folder)]
    for run in runs:
        yield run.id, list(verify_run(run))
    if not runs:
        yield from _of_results(folder)


def _of_results(folder: Path) -> Iterator[Chain]:
    """Yield the checked links of a folder of results: those of its runs.

    A damaged folder yields one broken link. A run's first link is its results file; absent links are left out.
    """
    from phmrun.ledger.record import record_paths, restore
    from phmrun.results.verification import BROKEN, INTACT, Link, verify_run

    with TemporaryDirectory() as place:
        try:
            runs = restore(record_paths(folder), Path(place))
        except PhmrunError as error:
            yield str(folder), [Link("results file", BROKEN, f"{error.where}: {error.what}")]
            return
        for run in runs:
            links = [link for link in verify_run(run) if link.state != "absent"]
            yield run.id, [Link("results file", INTACT, "its checksum, its name"), *links]


def _print(chains: "list[Chain]") -> None:
    """Print all links of a single or broken chain, one line for any other.

    Links are marked ✓ (intact), – (absent) or ✗ (broken).
    """
    marks = {"intact": "✓", "absent": "–", "broken": "✗"}
    for name, links in chains:
        if len(chains) > 1 and links and links[-1].state != "broken":
            console.print_line(f"✓ {name}: {counted(len(links), 'link')}")
            continue
        console.print_line(name)
        for link in links:
            console.print_line(f"  {marks[link.state]} {link.name}: {link.detail}")
