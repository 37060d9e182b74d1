"""``phmrun import``: import an external checkpoint as a run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.escaping import one_line

if TYPE_CHECKING:
    from phmrun.importing.verification import Verification


SHOWN = 5  # unequal outputs that are printed


def import_model(
    directory: Annotated[Path, typer.Argument(metavar="DIR")],
    task: str = "nmt",
    data: str | None = None,
    prefix: str | None = None,
    source: str | None = None,
    target: str | None = None,
    verify: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False)] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Import an external checkpoint as a run.

    Eval, predict, export and compress work on it.

    Args:
        directory: Hugging Face checkpoint of T5, mT5 or Marian, as safetensors.
        task: Sequence-to-sequence task: nmt, style.
        data: Dataset to score the run on (default: none).
        prefix: Common prefix of your own parallel files, instead of --data.
        source: Source language: en (default: the checkpoint's).
        target: Target language: de (default: the checkpoint's).
        verify: Compare the outputs for these lines with those of transformers' own search.

    Examples:
        phmrun import opus-mt-en-de --task nmt --data multi30k --source en --target de
        phmrun import flan-t5-small --verify questions.txt
    """
    from phmrun.importing.run import import_checkpoint

    data_settings = {"name": data, "prefix": prefix, "source": source, "target": target}
    imported = import_checkpoint(
        directory,
        task,
        runs_dir=runs_dir,
        data={key: value for key, value in data_settings.items() if value is not None},
    )
    compared = None
    if verify:
        from phmrun.importing.verification import verify as compare

        compared = compare(imported.run, directory, verify)
    if as_json:
        facts = {"run_id": imported.run.id, "run_dir": imported.run.path}
        facts |= {"model_type": imported.kind, "parameters": imported.parameters}
        console.print_json(facts if compared is None else {**facts, "verify": compared.to_json()})
        return
    path = one_line(str(imported.run.path))
    text = f"run {imported.run.id} · {imported.kind} · {imported.parameters:,} parameters · {path}"
    console.stdout().print(text, markup=False, soft_wrap=True)
    if compared:
        _show(compared)


def _show(compared: "Verification") -> None:
    """Print the numbers of equal, cut and different outputs.

    The first five unequal pairs follow, each with the amount by which phmrun's score is higher or lower.
    """
    rows = [
        ("equal", f"{compared.equal:,}"),
        ("cut by phmrun's length limit", f"{compared.cut:,}"),
        ("different", f"{compared.different:,}"),
    ]
    console.print_table((f"outputs of {compared.sentences:,} lines, beside transformers", "number"), rows)
    for pair in compared.pairs[:SHOWN]:
        words = f"line {pair.line} ({pair.kind}; phmrun's score is {abs(pair.gain):.4f} "
        words += "higher)" if pair.gain > 0 else "lower)"
        for text in (words, f"  phmrun:       {pair.phmrun}", f"  transformers: {pair.transformers}"):
            console.stdout().print(text, markup=False, soft_wrap=True)
