"""``phmrun export``: a trained run for other tools, with dense layers or the factors of its structures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Checkpoint
from phmrun.cli.options import LATEST, Json, Plugin, RunArgument, RunsDirectory, choose_run
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.exchange.formats import Exported


def export(
    run: RunArgument = LATEST,
    kind: Annotated[str, typer.Option("--format", autocompletion=completion.export_formats)] = "safetensors",
    out: Annotated[Path | None, typer.Option("--out")] = None,
    factored: Annotated[bool, typer.Option("--factored")] = False,
    quantization: str = "none",
    split: str = "test",
    compare: Annotated[bool, typer.Option("--compare")] = False,
    checkpoint: Checkpoint = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Export a trained model to another format, and check that its outputs are the same.

    Without rounding of the weights, a difference above 0.0001 is an error. Files, sizes and differences are printed, as
    a table or JSON. The outputs of ctranslate2 are checked by --compare only.

    Args:
        kind: Format: safetensors (weights), onnx (programs), ctranslate2; of a network of transformers also
            transformers (a folder with dense matrices) and peft (updates of frozen matrices).
        out: Output file or directory (default: in exports/ of the run directory).
        factored: Keep the factors of structures, in a safetensors file of 1/n of the size; default: dense matrices.
        quantization: Rounding of the weights: none; int8, bfloat16 (safetensors, ctranslate2); int8_float32, float16
            (ctranslate2).
        split: Split that --compare scores.
        compare: Write all installed formats, and measure bytes, memory, time per sentence and score of each.

    Examples:
        phmrun export latest --format onnx
        phmrun export latest --format safetensors --factored --quantization bfloat16
        phmrun export latest --compare
        phmrun export latest --format ctranslate2 --quantization int8
    """
    load_plugins(plugin)
    source = choose_run(runs_dir, run)
    if compare:
        from phmrun.cli.export_comparison import compare_formats

        compare_formats(source, split, load_plugins(plugin), as_json)
        return
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
        console.stdout().print(f"{inputs} -> {', '.join(file.outputs)}", markup=False, soft_wrap=True)


def _facts(exported: "Exported") -> dict[str, Any]:
    """Return the fields of an exported file, except its parts."""
    return {name: value for name, value in vars(exported).items() if name != "parts"}
