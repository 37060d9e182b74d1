"""Printed hints, with the commands that provoke and follow them."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from test_cli_hints import ROOT
from tiny_experiments import WORDS

from phmrun.cli.app import main

SHORT = "--max-steps 1 --wandb disabled"
RUNS = "--runs-dir elsewhere"
"""Not the default directory of runs, so that hints must name it."""


class Hint(NamedTuple):
    """Hint of a message, and the way to follow it.

    Attributes:
        text: Regex of the hint, whose group is the printed command, or options to add to the command that provoked it.
        provoke: Command that prints the message; ``{nmt}`` and ``{sva}`` are runs.
        prepare: Changes the folder first.
        fill: Values of the hint's placeholders.
        also: Options added to the followed command, to keep it small.
        code: Exit code of the followed command.
        without: Part of ``provoke`` that the hint replaces.
    """

    text: str
    provoke: str
    prepare: Callable[[Path], None] = lambda folder: None
    fill: Mapping[str, str] = {}
    also: str = ""
    code: int = 0
    without: str = ""


def empty_line(folder: Path) -> None:
    """Empty a line of the target side."""
    path = folder / "nmt-data/train.bb"
    path.write_text("\n" + path.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")


def reorder(folder: Path) -> None:
    """Sort the lines of the test set of agreement."""
    path = folder / "sva-data/test.tsv"
    path.write_text("".join(sorted(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")


def move(source: str, target: str) -> Callable[[Path], None]:
    """Move the only file or folder that matches."""
    return lambda folder: shutil.move(next(folder.glob(source)), folder / target)


def remove(pattern: str) -> Callable[[Path], None]:
    """Remove the files and folders that match."""

    def prepare(folder: Path) -> None:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return prepare


def sample_files(folder: Path) -> None:
    """Write three splits of agreement under the names of the printed sample."""
    for split in ("train", "dev", "test"):
        shutil.copy(folder / f"sva-data/{split}.tsv", folder / f"{split}.tsv")


def add_results(folder: Path) -> None:
    """Store the run of agreement as results, with a page that differs."""
    write("R.md", "another page")(folder)
    with pytest.raises(SystemExit):
        main(["results", "add", "sweep.yaml", "--runs-dir", "elsewhere", "--to", "results/own"])


def restored(folder: Path) -> None:
    """Restore the runs of the sweep from their results, without weights."""
    add_results(folder)
    with pytest.raises(SystemExit):
        main(["results", "restore", "results", "--runs-dir", "restored"])
    shutil.copytree(folder / "sva-data", folder, dirs_exist_ok=True)  # records name the user's files without a folder


def write(name: str, content: str) -> Callable[[Path], None]:
    """Write a file, or the one that matches."""
    return lambda folder: next(folder.glob(name), folder / name).write_text(content, encoding="utf-8") and None


MINE = (ROOT / "examples/my_layers.py").read_text(encoding="utf-8").replace('"mine"', '"own-layer"')
VECTORS = "".join(f"{word} 1 2 3 4 5\n" for word in sorted(WORDS))
NMT, SVA, NLI = (f"train {task} --config {task}.yaml {RUNS}" for task in ("nmt", "sva", "nli"))
NO_DEV = f"train sva --train sva-data/train.tsv {SHORT}"
TEST_FILES = {"--test-src FILE": "--test-src nmt-data/test.aa", "--test-tgt FILE": "--test-tgt nmt-data/test.bb"}
EVAL = r"(phmrun eval [^\n`;]*)"
"""Command up to the end of its line or quotation."""
RUN = {"RUN": "{sva}"}
HINTS = [
    # data
    Hint("train with (--set data.empty=drop)", NMT, empty_line),
    Hint("(--set data.hold_out=0.1) takes a tenth of the training data instead", NO_DEV),
    Hint("# next: (phmrun train .*)", "schema sva --files", sample_files, also=SHORT),
    Hint(
        "Add (--embedding projective --set embedding.width=5):",
        f"{NLI} --set data.vectors=v.txt",
        write("v.txt", VECTORS),
    ),
    Hint("# no validation files: (--set data.hold_out=0.1)", "schema sva --files", fill={"schema sva --files": NO_DEV}),
    Hint(
        r"Name another with (--train)\.",
        f"train sva --dev sva-data/dev.tsv {SHORT} --train none.tsv",
        also="sva-data/train.tsv",
        without="--train none.tsv",
    ),
    Hint("Name the files with (--prefix)", f"{NMT} --prefix none/", also="nmt-data/"),
    # evaluation
    Hint(f"Run: {EVAL}", "eval {nmt} --test nmt-data/test.aa", fill=TEST_FILES),
    Hint(f"under a name of its own: {EVAL}", "eval {sva} --split test", reorder, {"FILE": "sva-data/test.tsv"}),
    Hint(
        f"its old name if its content is the same: {EVAL}",
        "eval {sva} --split test",
        move("sva-data/test.tsv", "moved.tsv"),
        {"FILE": "moved.tsv"},
    ),
    Hint("Use --src and (--tgt)", "eval {nmt} --src nmt-data/test.aa", also="nmt-data/test.bb"),
    Hint("(--checkpoint last) takes the last ones", "eval {sva}", remove("elsewhere/sva-*/checkpoints/best*")),
    Hint(r"Use (--average \d+)", "eval {sva} --average 9"),
    Hint(r"`(phmrun runs reproduce [^`]*)` trains it again\.", "eval {sva}", remove("elsewhere/sva-*/checkpoints/*")),
    Hint("`(phmrun runs reproduce [^`]*)` trains it again", "eval latest --runs-dir restored", restored),
    Hint("`(phmrun verify [^`]*)` names", "eval {sva}", remove("elsewhere/sva-*/data.json"), code=3),
    Hint(r"or start the run over \((--restart)\)", SVA, write("elsewhere/sva-*/status.json", "{"), also="--yes"),
    Hint("`(phmrun runs list)` shows", "eval nothing"),
    Hint("Use (--yes) to delete without a question", "runs rm {sva}"),
    # training
    Hint("(--restart) trains it from the start", SVA, also="--yes"),
    Hint("Use --restart (--yes) to delete it", f"{SVA} --restart"),
    Hint("`(phmrun train sva --dry-run)` prints", "train sva --max-steps 0"),
    Hint("add (--set training.max_epochs=null)", f"{SVA} --max-epochs 1 --max-steps 99"),
    Hint("Give (--max-steps) or", f"{SVA} --set training.max_steps=null", also="1"),
    Hint("Give (--max-steps) more than ", f"{SVA} --extend {{sva}} --max-steps 1", also="3"),
    Hint("Name it with (--extend RUN),", f"{SVA} --layer added", fill=RUN),
    Hint("draw the weights: (--set layer.base=random)", f"{SVA} --layer added"),
    Hint("Use (--layer added)", f"{SVA} --set adapts={{sva}}"),
    Hint(f"to score it as it is: {EVAL}", f"{SVA} --max-steps 4000 --max-time 0:00:01 --set training.patience=0"),
    Hint("use (--embedding projective)", "count-params nmt --layer projective", without="--layer projective"),
    Hint("or (--set model.tie=none)", "count-params nmt --output phm --set output.n=4"),
    Hint(r"as in (--set \S+)", "count-params nmt --set training.seed", without="--set training.seed"),
    Hint("(phmrun count-params nmt), or", "count-params"),
    Hint(
        "one of your own needs (--plugin FILE)", f"{SVA} --layer own-layer", write("mine.py", MINE), {"FILE": "mine.py"}
    ),
    # compression and export
    Hint(
        r"Update it: (phmrun train … --extend \S+)",
        "compress {sva} --layer added",
        fill={"train …": f"{SVA} --layer added --max-steps 4"},
    ),
    Hint(r"(phmrun export [^\n`;]* --format onnx[^\n`;]*)", "export {sva} --format ctranslate2"),
    Hint("use (--calibrate 8)", "compress {sva} --layer low-rank --budget 0.9 --calibrate 0"),
    Hint("Use (--format safetensors) with --factored", "export {sva} --factored --format ctranslate2"),
    Hint("`(phmrun doctor)` shows", f"{SVA} --set hardware.accelerator=gpu"),
    Hint(r"Use (--budget [\d.]+) or more", "compress {sva} --layer low-rank --budget 0.01"),
    Hint("Give an empty folder with (--out)", "export {nmt} --format ctranslate2 --out nmt-data", also="new"),
    # sweeps, tables, results
    Hint("`(phmrun train TASK)` makes one", "table --runs-dir none", fill={"TASK": "sva"}, also="--config sva.yaml"),
    Hint("`(phmrun sweep sweep.yaml --plan)` shows", "table sweep.yaml"),
    Hint(
        "`(phmrun bench run RUN)` measures",
        "table {sva} --score time/step",
        fill=RUN,
        also="--batches 1 --items 4 --repeats 1",
    ),
    Hint("`(phmrun count-params --paper .*?)`", "sweep configs/papers/matsuno/table4.yaml"),
    Hint("As in (--only layer=phm) --only seed=1", "sweep sweep.yaml --plan --only layer", without="--only layer"),
    Hint(
        r"`(phmrun results add FILE\|RUN… --to DIR/NAME)`",
        "results restore results",
        fill={"FILE|RUN…": "{sva}", "DIR/NAME": "results/own"},
    ),
    # parts of one's own
    Hint("Next: (.* --plugin .*)", "new structure tiled"),
    Hint("Next: (.* --plugin .*)", "new metric second", also="--config sva.yaml"),
    Hint("Next: (.* --plugin .*)", "new task reviews"),
    Hint("Next: (.* --plugin .*)", "new network slow", also="--config sva.yaml"),
]
