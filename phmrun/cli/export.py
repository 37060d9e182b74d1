"""``phmrun export``: a trained run for other tools, with dense layers or the factors of its structures."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Checkpoint
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory, choose_run
from phmrun.errors import PhmrunError
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.engine.trained_model import TrainedModel
    from phmrun.exchange.formats import Exported

PRECISIONS = ("int8", "bfloat16")  # roundings of safetensors and onnx


def export(
    run: RunArgument,
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

    --format ctranslate2 compares translations of --split instead.

    Without rounding of the weights, a difference above 0.0001 is an error, as is ctranslate2 with --factored. Files,
    sizes and differences are printed, as a table or JSON.

    Args:
        kind: Format: safetensors (weights), onnx (programs), ctranslate2.
        out: Output file or directory (default: in exports/ of the run directory).
        factored: Keep the factors of structures, in a file of 1/n of the size; default: dense matrices.
        quantization: Rounding of the weights: none; int8, bfloat16 (safetensors, onnx, ctranslate2); int8_float32,
            float16 (ctranslate2).
        split: Split that ctranslate2 and phmrun both decode, to compare their outputs; none: no comparison.
        compare: Write all installed formats, and measure bytes, memory, time per sentence and score of each.

    Examples:
        phmrun export latest --format onnx
        phmrun export latest --format safetensors --factored --quantization bfloat16
        phmrun export latest --compare
        phmrun export latest --format ctranslate2 --quantization int8
    """
    load_plugins(plugin)
    if kind != "ctranslate2" and quantization not in (*PRECISIONS, "none"):
        what = f"the format {kind!r} has no quantization {quantization!r}"
        raise PhmrunError(what, where="--quantization", valid=("none", *PRECISIONS))
    if kind == "ctranslate2" and factored:
        hint = "Use --format safetensors or onnx with --factored, or ctranslate2 without it."
        raise PhmrunError("CTranslate2 knows dense matrices only", where="--factored", hint=hint)
    source = choose_run(runs_dir, run)
    if compare:
        from phmrun.cli.export_comparison import compare_formats

        compare_formats(source, "test" if split == "none" else split, load_plugins(plugin), as_json)
        return
    with waiting("preparing"):
        from phmrun.engine.trained_model import open_run
        from phmrun.exchange import formats as exporting

        trained = open_run(source)
    if kind == "ctranslate2":
        _to_ctranslate2(trained, out, quantization, split, as_json, checkpoint)
        return
    with waiting(f"writing and checking {kind}"):
        form: dict[str, Any] = {"factored": factored, "precision": quantization, "checkpoint": checkpoint}
        exported = exporting.export(trained, out, kind, **form)
    files = list(exported.parts.values()) or [exported]
    if as_json:
        parts = {"parts": {name: _facts(part) for name, part in exported.parts.items()}} if exported.parts else {}
        console.print_json({"run_id": source.id, **_facts(exported), **parts})
        return
    rows = [(str(file.path), file.format, f"{file.bytes / 2**20:,.1f} MiB", f"{file.difference:.1e}") for file in files]
    console.print_table(("file", "format", "size", "largest difference"), rows)
    for file in files:
        inputs = ", ".join(f"{name} [{', '.join(map(str, sizes))}]" for name, sizes in file.inputs.items())
        console.stdout().print(f"{inputs} -> {', '.join(file.outputs)}", markup=False, soft_wrap=True)


def _facts(exported: "Exported") -> dict[str, Any]:
    """Return the fields of an exported file, except its parts."""
    return {name: value for name, value in vars(exported).items() if name != "parts"}


def _to_ctranslate2(
    trained: "TrainedModel", out: Path | None, quantization: str, split: str, as_json: bool, checkpoint: str | None
) -> None:
    """Convert a run for CTranslate2, and print the result.

    Directory, quantization and size come first, then a comparison of both engines on ``split`` unless that is "none".
    It lists the first five differing outputs; JSON has all. JSON keys: run_id, path, format, bytes, quantization,
    comparison: None, or split, sentences, identical, bleu, bleu_ctranslate2, differences.
    """
    from phmrun.exchange.agreement import SHOWN, export_to_ctranslate2

    path, agreement = export_to_ctranslate2(trained, out, quantization, None if split == "none" else split, checkpoint)
    size = sum(file.stat().st_size for file in path.iterdir())
    if as_json:
        facts = {"run_id": trained.run.id, "path": path, "format": "ctranslate2", "bytes": size}
        compared = agreement.to_json() if agreement else None
        console.print_json({**facts, "quantization": quantization, "comparison": compared})
        return
    console.print_table(("directory", "quantization", "size"), [(str(path), quantization, f"{size / 2**20:,.1f} MiB")])
    if agreement is None:
        return
    ours, theirs = agreement.ours.value, agreement.theirs.value
    same = f"{agreement.sentences - len(agreement.differences)} of {agreement.sentences}"
    columns = ("split", "BLEU phmrun", "BLEU CTranslate2", "difference", "same outputs")
    scores = (agreement.split, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs - ours:+.2f}", same)
    console.print_table(columns, [scores])
    if agreement.differences:
        rows = [(str(line), *texts) for line, *texts in agreement.differences[:SHOWN]]
        console.print_table(("line", "phmrun", "CTranslate2"), rows)
