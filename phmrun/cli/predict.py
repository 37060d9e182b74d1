"""``phmrun predict``: a trained run on the user's own text, line by line."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.eval import DECODING, Alpha, Average, BatchSize, Beam, Checkpoint, Device
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory
from phmrun.errors import ExitCode, PhmrunError
from phmrun.registry import load_plugins

EPILOG = """Examples:

phmrun predict nmt-builtin-phm-1 < input.en > output.de

echo "the child sees the dog ." | phmrun predict nmt-builtin-phm-1 --beam 5 --json"""


def predict(
    run: RunArgument,
    *,
    beam: Beam = None,
    alpha: Alpha = None,
    nbest: Annotated[
        int | None,
        typer.Option(min=1, help="Hypotheses per line, best first (default: 1).", rich_help_panel=DECODING),
    ] = None,
    checkpoint: Checkpoint = None,
    average: Average = None,
    batch_size: BatchSize = None,
    device: Device = "auto",
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Reads lines from standard input and writes one prediction for each to standard output."""
    load_plugins(plugin)
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    from phmrun.training import experiment

    overrides = {"beam": beam, "alpha": alpha, "nbest": nbest}
    interactive = sys.stdin.isatty()
    predictor = experiment.predictor(
        found,
        decoding={name: value for name, value in overrides.items() if value is not None},
        checkpoint=checkpoint,
        average=average,
        batch_size=1 if interactive else batch_size,
        device=device,
    )
    for answer in predictor.predict(_prompted() if interactive else _lines()):
        _write(answer, as_json)


def _lines() -> Iterator[str]:
    """The lines of standard input without their ends.

    Raises:
        PhmrunError: A line is not UTF-8.
    """
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise PhmrunError("the line is not UTF-8", where=f"standard input:{number}", code=ExitCode.DATA) from error


def _prompted() -> Iterator[str]:
    """Lines typed at a prompt, until the end of input."""
    console.stderr().print("One sentence a line; end with Ctrl-D.", style="dim")
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            return
        yield line.rstrip("\r\n")


def _write(answer: Any, as_json: bool) -> None:
    """One answer at once: a text, or a list of texts with ``--nbest``, or whatever JSON can hold."""
    if as_json:
        console.print_json({"prediction": answer} if isinstance(answer, (str, list)) else answer)
        return
    for text in answer if isinstance(answer, list) else [answer]:
        print(text, flush=True)
