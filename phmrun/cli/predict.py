"""``phmrun predict``: predictions of a trained run for the user's text."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import (
    LATEST,
    DecodingOptions,
    Json,
    RunArgument,
    RunsDirectory,
    choose_run,
    of_decoding,
    spread,
)
from phmrun.progress import waiting
from phmrun.registry import load_plugins


@spread
def predict(
    options: DecodingOptions,
    run: RunArgument = LATEST,
    text: Annotated[Path | None, typer.Argument(metavar="FILE", exists=True, dir_okay=False)] = None,
    nbest: Annotated[int | None, of_decoding(min=1)] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Predict with a trained run: text line by line in, predictions to standard output.

    Args:
        text: Input text, one item per line, plain or .gz (default: standard input).
        nbest: Hypotheses per line, best first (default: 1).

    Examples:
        phmrun predict nmt-builtin-phm-1 input.en > output.de
        echo "the child sees the dog ." | phmrun predict nmt-builtin-phm-1 --beam 5 --json
    """
    load_plugins(options.plugin)
    chosen = choose_run(runs_dir, run)
    typed = text is None and sys.stdin.isatty()
    with waiting("preparing"):
        from phmrun.engine.bookkeeping import set_threads
        from phmrun.engine.trained_model import open_run
        from phmrun.text.lines import decoded, raw_lines

        set_threads()
        trained = open_run(chosen)
        kernels = trained.kernels()
        at_once = {"batch_size": 1} if typed else {}  # a larger batch would delay the answer to a typed line
        predictor = trained.predictor(**{**options.arguments(nbest=nbest), **at_once})
    if typed:
        console.print_aside(f"Type {predictor.prompt}; end with Ctrl-D.")
    source, raw = (text, raw_lines(text)) if text else ("standard input", sys.stdin.buffer)
    predictor.source = str(source)
    lines = decoded(raw, source, exact=predictor.exact)
    if predictor.exact:  # without the line feed that printing adds
        lines = (line.removesuffix("\n") for line in lines)
    with kernels.applied():
        for answer in predictor.predict(lines):
            if as_json:
                console.print_json(answer.values)
            else:
                print(answer.text, flush=True)
    predictor.coverage.note_unknown(str(source))
