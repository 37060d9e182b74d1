"""``phmrun predict``: predictions of a trained run for the user's text."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.decoding import DecodingOptions, of_decoding
from phmrun.cli.options import LATEST, Json, RunArgument, RunsDirectory, choose_run, spread
from phmrun.progress import note, waiting
from phmrun.registry import load_plugins

LONG = 10_000  # bytes of a line that is announced, since its prediction may take minutes


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
    interactive = text is None and sys.stdin.isatty()
    with waiting("preparing"):
        from phmrun.engine.arithmetic import set_threads
        from phmrun.engine.trained_model import open_run
        from phmrun.text.coverage import note_coverage
        from phmrun.text.lines import decoded, raw_lines

        set_threads()
        trained = open_run(chosen)
        kernels = trained.kernels()
        predictor = trained.predictor(
            decoding=options.decoding(nbest=nbest),
            checkpoint=options.checkpoint,
            average=options.average,
            # a larger batch would delay the answer to a typed line
            batch_size=1 if interactive else options.batch_size,
            device=options.device,
        )
    exact = getattr(predictor, "exact", False)
    source, raw = (text, raw_lines(text)) if text else ("standard input", sys.stdin.buffer)
    lines = decoded(_announced(raw, source), source, exact=exact)
    if exact:  # without the line feed that printing adds
        lines = (line.removesuffix("\n") for line in lines)
    with kernels.applied():
        for answer in predictor.predict(_prompted(predictor.prompt) if interactive else lines):
            if as_json:
                console.print_json(answer.values)
            else:
                print(answer.text, flush=True)
    note_coverage(predictor, str(source))


def _announced(raw: Iterable[bytes], source: Path | str) -> Iterator[bytes]:
    """Yield the lines, and announce those of more than 10,000 bytes on stderr."""
    for number, line in enumerate(raw, start=1):
        if len(line) > LONG:
            note(f"{source}:{number}: a line of {len(line):,} bytes; this may take minutes")
        yield line


def _prompted(prompt: str) -> Iterator[str]:
    """Yield lines typed at the prompt ``> ``, until the end of input.

    ``prompt`` says once what to type. Prompts go to standard error if the output is not a terminal.
    """
    console.stderr().print(f"Type {prompt}; end with Ctrl-D.", style="dim", markup=False)
    with suppress(ImportError):
        import readline  # noqa: F401  (line editing and history in input(); not on every system)
    on_screen = sys.stdout.isatty()  # otherwise the prompt would be in the output file
    while True:
        if not on_screen:
            print("> ", end="", file=sys.stderr, flush=True)
        try:
            line = input("> " if on_screen else "")
        except EOFError:
            print(file=sys.stderr)
            return
        yield line.rstrip("\r")
