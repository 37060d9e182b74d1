"""``phmrun bench table``: the times that a paper's table prints, measured on the runs of its cells."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import MEASURED, Repeats, Threads, prepare_process, print_machine
from phmrun.cli.options import Json, RunsDirectory
from phmrun.errors import ExitCode, PhmrunError

EPILOG = """Examples:

phmrun bench table configs/papers/phm/table4.yaml

phmrun bench table configs/papers/reproduction/table5-small.yaml --threads 1 --sentences 64

phmrun table configs/papers/phm/table4.yaml --paper"""


def bench_table(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A paper table's file, or that of a smaller twin.")],
    *,
    only: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Only cells with this value: row=Vanilla, seed=1.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also measure what has been measured before.")] = False,
    batches: Annotated[
        int, typer.Option(min=1, help="Training or validation batches in a measurement.", rich_help_panel=MEASURED)
    ] = 8,
    sentences: Annotated[
        int,
        typer.Option(
            min=1, help="Test items in a measurement; the time of more is in proportion.", rich_help_panel=MEASURED
        ),
    ] = 256,
    repeats: Repeats = 3,
    cpu_time: Annotated[
        bool,
        typer.Option("--cpu-time", help="CPU seconds, where the machine has other work.", rich_help_panel=MEASURED),
    ] = False,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measures the runs of a table's cells, one after the other, for its columns of times.

    They are kept in each run's directory, in bench.json, and `phmrun table FILE --paper` shows them beside the paper's.
    """
    from phmrun.cli.sweep_tuning import chosen
    from phmrun.cli.sweep_work import planned
    from phmrun.ledger import Run
    from phmrun.ledger.status import State
    from phmrun.ledger.times import PREFIX, read_times
    from phmrun.sweeps.cell_status import distinct, survey

    made = chosen(planned(file, only, None, ledger=runs_dir), runs_dir)
    columns = made.sweep.table.columns.values() if made.sweep.table else []
    wanted = {str(column.score) for column in columns if str(column.score).startswith(PREFIX)}
    if not wanted:
        raise PhmrunError("no column of this file is a time", where=file, hint="`phmrun bench run RUN` measures a run.")
    statuses = distinct(survey(made, runs_dir))
    runs = [status.run for status in statuses if status.run and status.run.state == State.DONE]
    if not runs:
        hint = "`phmrun sweep FILE` makes them; --runs-dir names another directory of runs."
        raise PhmrunError(
            f"none of its cells has a finished run in {runs_dir}", where=file, hint=hint, code=ExitCode.DATA
        )
    from phmrun.bench.machine import warn_if_busy
    from phmrun.bench.run import Amount
    from phmrun.bench.times import measure_times
    from phmrun.progress import progress

    prepare_process(threads)
    warn_if_busy()
    found = {}
    with progress("measuring", len(runs), "runs") as advance:
        for run in runs:
            lacking = wanted if again else wanted - read_times(run.path).keys()
            if lacking:
                amount = Amount(repeats, batches, sentences=sentences)
                measure_times(Run(run.path), lacking, amount, device, "cpu" if cpu_time else "wall")
            found[run.id] = {name: entry for name, entry in read_times(run.path).items() if name in wanted}
            advance(1)
    if as_json:
        console.print_json(found)
        return
    _print(found, sorted(wanted))


def _print(found: dict[str, dict[str, dict[str, object]]], wanted: list[str]) -> None:
    """One line per run: its times in seconds."""
    from phmrun.ledger.times import TIMES

    machine = next(entry["machine"] for times in found.values() for entry in times.values())
    print_machine(machine)  # type: ignore[arg-type]
    lines = [(name, *(f"{times[key]['value']:.4g}" for key in wanted)) for name, times in found.items()]
    console.print_table(("run", *(TIMES[key] for key in wanted)), lines)
