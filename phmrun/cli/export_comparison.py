"""Comparison of all export formats of a run: ``phmrun export RUN --compare``."""

from collections.abc import Mapping
from pathlib import Path

from phmrun.cli import console
from phmrun.ledger import Run
from phmrun.ledger.wording import SERVING, SERVING_COLUMNS, serving_row
from phmrun.progress import waiting


def compare_formats(run: Run, split: str, plugins: Mapping[Path, str], as_json: bool) -> None:
    """Export a run in all installed formats, measure each, and print the table.

    The measurements are kept in the run's ``bench.json``, and its page is written again.

    Args:
        run: The run.
        split: Split to score.
        plugins: Plug-ins of the run, by file.
        as_json: Print JSON instead of the table.
    """
    with waiting("preparing"):
        from phmrun.bench.machine import facts
        from phmrun.engine.trained_model import open_run
        from phmrun.ledger.environment import now
        from phmrun.sweeps.serving import formats_of, serve_all

        formats = formats_of(open_run(run))
    served = serve_all(run, formats, split=split, plugins=plugins)
    machine = facts()
    context = {"machine": machine, "measured": now(), "split": split}
    run.add_bench({f"{SERVING}{item.format.label}": {**item.to_json(), **context} for item in served})
    if as_json:
        console.print_json({"run_id": run.id, "formats": [item.to_json() for item in served], **context})
        return
    console.print_table(SERVING_COLUMNS, [serving_row(item.to_json()) for item in served])
    busy = f"load average {machine['load_average']}"
    line = f"{machine['processor']}, one thread, CPU time, {busy}."
    if any(item.name == "ctranslate2" for item in formats):
        line += " CTranslate2 knows dense maps only, and divides by length^α."
    console.stdout().print(line, markup=False, soft_wrap=True)
