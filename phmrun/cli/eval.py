"""``phmrun eval``: score a trained run."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import DATA, LATEST, DecodingOptions, Json, RunArgument, RunsDirectory, choose_run, spread
from phmrun.errors import PhmrunError
from phmrun.progress import waiting
from phmrun.registry import load_plugins

of_data = partial(typer.Option, rich_help_panel=DATA)


@spread
def evaluate(
    options: DecodingOptions,
    run: RunArgument = LATEST,
    split: Annotated[str | None, of_data()] = None,
    test: Annotated[Path | None, of_data(metavar="FILE")] = None,
    source: Annotated[Path | None, of_data("--src", "--test-src", metavar="FILE")] = None,
    target: Annotated[Path | None, of_data("--tgt", "--test-tgt", metavar="FILE")] = None,
    pairs: Annotated[str | None, of_data(metavar="NAME")] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Score a trained run.

    Write metrics.json and the predictions into its directory.

    Scores of another test file are named file-NAME-CHECKSUM/…, apart from those of the run's own test set. A file with
    the content of the run's own test set counts as that set. A split and a file together are an error.

    Args:
        split: Split of the run's data: test (default), dev …
        test: Another test file, in the format of the run's own files.
        source: Source file of another test set.
        target: Target file of another test set.
        pairs: Minimal pairs, for language models: blimp (a folder of the data directory), or a file or folder of JSON
            lines with sentence_good and sentence_bad; accuracy by phenomenon.

    Examples:
        phmrun eval nmt-multi30k-phm-1 --split test --beam 5 --alpha 0.6 --average 8
        phmrun eval nmt-multi30k-phm-1 --src newstest.en --tgt newstest.de
        phmrun eval lm-wikitext-2-phm-1 --pairs blimp
    """
    pair = [path for path in (source, target) if path]
    files = [test] if test else pair
    if sum((bool(files), pairs is not None, split is not None)) > 1:
        what = "a split, a file and minimal pairs are scored one at a time"
        raise PhmrunError(what, where="--split, --test, --pairs", hint="Use one of them.")
    if pair and (test or len(pair) == 1):
        raise PhmrunError("parallel text needs a source and a target", where="--src", hint="Use --src and --tgt.")
    load_plugins(options.plugin)
    # Before torch is imported, which takes seconds, so that a mistyped name is reported at once.
    scored = choose_run(runs_dir, run)
    with waiting("preparing"):
        from phmrun.engine.bookkeeping import set_threads
        from phmrun.engine.evaluation import evaluate_run
        from phmrun.engine.trained_model import open_run

        set_threads()
    metrics = evaluate_run(open_run(scored), split=split or "test", files=files, pairs=pairs, **options.arguments())
    console.print_result(scored.id, scored.path, metrics, as_json)
