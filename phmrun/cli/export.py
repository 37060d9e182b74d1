"""``phmrun export``: a trained run for other tools, with every structure folded into plain dense layers."""

from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import console
from phmrun.cli.decoding import Average, Checkpoint
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory
from phmrun.registry import load_plugins

EPILOG = """Example:

phmrun export latest --format onnx --out model.onnx"""


def export(
    run: RunArgument,
    *,
    kind: Annotated[
        str, typer.Option("--format", help="safetensors (weights), torch-export or onnx (programs).")
    ] = "safetensors",
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write (default: exports/ in the run directory).")
    ] = None,
    checkpoint: Checkpoint = None,
    average: Average = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Writes a trained model in another format, and checks that the file gives the same outputs."""
    load_plugins(plugin)
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    from phmrun.engine.trained_model import open_run
    from phmrun.export import formats as exporting

    exported = exporting.export(open_run(found), out, kind, checkpoint=checkpoint, average=average)
    if as_json:
        console.print_json(
            {
                "run_id": found.id,
                "path": str(exported.path),
                "format": exported.format,
                "bytes": exported.bytes,
                "difference": exported.difference,
                "inputs": {name: list(sizes) for name, sizes in exported.inputs.items()},
                "outputs": list(exported.outputs),
            }
        )
        return
    size = f"{exported.bytes / 2**20:,.1f} MiB"
    console.print_table(
        ("file", "format", "size", "largest difference"),
        [(str(exported.path), exported.format, size, f"{exported.difference:.1e}")],
    )
    inputs = ", ".join(f"{name} [{', '.join(map(str, sizes))}]" for name, sizes in exported.inputs.items())
    console.stdout().print(f"{inputs} -> {', '.join(exported.outputs)}", markup=False, soft_wrap=True)
