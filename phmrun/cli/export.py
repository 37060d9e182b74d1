"""``phmrun export``: a trained run for other tools, with dense layers or the factors of its structures."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import LATEST, Checkpoint, Json, Plugin, RunArgument, RunsDirectory, choose_run
from phmrun.errors import PhmrunError
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.exchange.formats import Exported
    from phmrun.ledger import Run


def export(
    run: RunArgument = LATEST,
    kind: Annotated[str | None, typer.Option("--format")] = None,
    out: Annotated[Path | None, typer.Option("--out")] = None,
    factored: Annotated[bool, typer.Option("--factored")] = False,
    quantization: str = "none",
    split: str | None = None,
    compare: Annotated[bool, typer.Option("--compare")] = False,
    checkpoint: Checkpoint = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Export a trained model to another format, and check that its outputs are the same.

    Without rounding of the weights, a difference above 0.0001 is an error; that of peft is the relative error of an
    update as two factors, at most 0.001. Files, sizes and differences are printed, as a table or JSON. The outputs of
    ctranslate2 are checked by --compare only.

    Args:
        kind: Format: safetensors (weights; the default), onnx (programs), ctranslate2; of a network of transformers
            also transformers (a folder with dense matrices) and peft (updates of frozen matrices).
        out: Output file, or a new or empty directory (default: in exports/ of the run directory).
        factored: Keep the factors of structures, in a safetensors file of 1/n of the size; default: dense matrices.
        quantization: Rounding of the weights: none; int8, bfloat16 (safetensors, ctranslate2); int8_float32, float16
            (ctranslate2); int4 (safetensors), int4+8, int4+16, int4+32 and int8+8 with factors of that rank for the
            rounding errors, calibrated on 8 training batches.
        split: Split that --compare scores (default: test).
        compare: Write all installed formats, and measure bytes, memory, time per sentence and score of each.

    Examples:
        phmrun export latest --format onnx
        phmrun export latest --format safetensors --factored --quantization bfloat16
        phmrun export latest --compare
        phmrun export latest --format ctranslate2 --quantization int8
    """
    if compare and (kind or out or factored or checkpoint or quantization != "none"):
        what = "--compare writes all formats of the weights that training scored"
        where = "--format, --out, --factored, --quantization, --checkpoint"
        raise PhmrunError(what, where=where, hint="Leave these out.")
    plugins = load_plugins(plugin)
    source = choose_run(runs_dir, run)
    if split and not compare:
        hint = f"Run: phmrun export {source.reference} --compare --split {split}"
        raise PhmrunError("only --compare scores a split", where="--split", hint=hint)
    if compare:
        _compare(source, split or "test", plugins, as_json)
        return
    kind = kind or "safetensors"
    with waiting("preparing"):
        from phmrun.engine.trained_model import open_run
        from phmrun.exchange import formats as exporting

        trained = open_run(source)
    with waiting(f"writing and checking {kind}"):
        form: dict[str, Any] = {"factored": factored, "precision": quantization, "checkpoint": checkpoint}
        exported = exporting.export(trained, out, kind, **form)
    files = list(exported.parts.values()) or [exported]
    if as_json:
        parts = {"parts": {name: _facts(part) for name, part in exported.parts.items()}} if exported.parts else {}
        console.print_json({"run_id": source.id, **_facts(exported), **parts})
        return
    gaps = ["–" if file.difference is None else f"{file.difference:.1e}" for file in files]
    sizes = [f"{file.bytes / 2**20:,.1f} MiB" for file in files]
    rows = [(str(file.path), file.format, *facts) for file, *facts in zip(files, sizes, gaps, strict=True)]
    console.print_table(("file", "format", "size", "largest difference"), rows)
    for file in files if exported.inputs else ():
        inputs = ", ".join(f"{name} [{', '.join(map(str, sizes))}]" for name, sizes in file.inputs.items())
        console.print_line(f"{inputs} -> {', '.join(file.outputs)}")


def _facts(exported: "Exported") -> dict[str, Any]:
    """Return the fields of an exported file, except its parts."""
    return {name: value for name, value in vars(exported).items() if name != "parts"}


def _compare(run: "Run", split: str, plugins: Mapping[Path, str], as_json: bool) -> None:
    """Export a run in all installed formats, measure each, and print the table.

    The measurements are kept in the run's ``bench.json``.

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
        from phmrun.ledger.wording import SERVING, SERVING_COLUMNS, serving_row
        from phmrun.sweeps.serving import formats_of, serve_all

        formats = formats_of(open_run(run))
    served = serve_all(run, formats, split=split, plugins=plugins)
    machine = facts()
    context = {"machine": machine, "measured": now(), "split": split}
    run.add_bench({f"{SERVING}{item['label']}": item | context for item in served})
    if as_json:
        console.print_json({"run_id": run.id, "formats": served, **context})
        return
    console.print_table(SERVING_COLUMNS, [serving_row(item) for item in served])
    busy = f"load average {machine['load_average']}"
    line = f"{machine['processor']}, one thread, CPU time, {busy}."
    if any(item.name == "ctranslate2" for item in formats):
        line += " CTranslate2 knows dense maps only, and divides by length^α."
    console.print_line(line)
