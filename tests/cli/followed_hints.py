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
        text: Fragment of the text in the code; ``X`` is any value.
        provoke: Command that prints the message; ``{nmt}`` and ``{sva}`` are runs.
        follow: Regex whose group is the printed command, or options to add to the command that provoked it.
        prepare: Changes the folder first.
        fill: Values of the hint's placeholders.
        also: Options added to the followed command, to keep it small.
        code: Exit code of the followed command.
        without: Part of ``provoke`` that the hint replaces.
    """

    text: str
    provoke: str
    follow: str
    prepare: Callable[[Path], None] = lambda folder: None
    fill: Mapping[str, str] = {}
    also: str = ""
    code: int = 0
    without: str = ""


def empty_line(folder: Path) -> None:
    """Empty a line of the target side."""
    path = folder / "nmt-data/train.bb"
    path.write_text("\n" + path.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")


def reorder(split: str) -> Callable[[Path], None]:
    """Sort the lines of a split of agreement."""

    def prepare(folder: Path) -> None:
        path = folder / f"sva-data/{split}.tsv"
        path.write_text("".join(sorted(path.read_text(encoding="utf-8").splitlines(keepends=True))), encoding="utf-8")

    return prepare


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
    """Write a file."""
    return lambda folder: (folder / name).write_text(content, encoding="utf-8") and None


MINE = (ROOT / "examples/my_layers.py").read_text(encoding="utf-8").replace('"mine"', '"own-layer"')
VECTORS = "".join(f"{word} 1 2 3 4 5\n" for word in sorted(WORDS))
NMT, SVA, NLI = (f"train {task} --config {task}.yaml {RUNS}" for task in ("nmt", "sva", "nli"))
TEST_FILES = {"--test-src FILE": "--test-src nmt-data/test.aa", "--test-tgt FILE": "--test-tgt nmt-data/test.bb"}
RAN = r"(phmrun [^\n`;]*)"
"""Command up to the end of its line or quotation."""
HINTS = [
    # data
    Hint("train with --set data.empty=drop", NMT, r"with (--set data.empty=drop)", empty_line),
    Hint(
        "--set data.hold_out=0.1 takes a tenth of the training data instead",
        f"train sva --train sva-data/train.tsv {SHORT}",
        r"(--set data.hold_out=0.1) takes",
    ),
    Hint("# next: phmrun train X X", "schema sva --files", r"next: (.*)", sample_files, also=SHORT),
    Hint(
        "Add --embedding projective --set embedding.width=X",
        f"{NLI} --set data.vectors=vectors.txt",
        r"Add (--embedding projective --set embedding.width=5):",
        write("vectors.txt", VECTORS),
    ),
    Hint(
        "# no validation files: --set data.hold_out=0.1",
        "schema sva --files",
        r"files: (--set \S+)",
        fill={"schema sva --files": f"train sva --train sva-data/train.tsv {SHORT}"},
    ),
    Hint(
        "Name another with --train",
        f"train sva --dev sva-data/dev.tsv {SHORT} --train none.tsv",
        r"with (--train)\.",
        also="sva-data/train.tsv",
        without="--train none.tsv",
    ),
    Hint("Name the files with --prefix", f"{NMT} --prefix none/", r"with (--prefix)", also="nmt-data/"),
    # evaluation
    Hint("Run: phmrun eval X X", "eval {nmt} --test nmt-data/test.aa", r"Run: " + RAN, fill=TEST_FILES),
    Hint(
        "score this one under a name of its own: phmrun eval X X",
        "eval {sva} --split test",
        r"own: " + RAN,
        reorder("test"),
        fill={"FILE": "sva-data/test.tsv"},
    ),
    Hint(
        "which has its old name if its content is the same: phmrun eval X X",
        "eval {sva} --split test",
        r"is the same: " + RAN,
        move("sva-data/test.tsv", "moved.tsv"),
        fill={"FILE": "moved.tsv"},
    ),
    Hint("Use --src and --tgt", "eval {nmt} --src nmt-data/test.aa", r"and (--tgt)", also="nmt-data/test.bb"),
    Hint(
        "--checkpoint last takes the last ones",
        "eval {sva}",
        r"(--checkpoint last) takes",
        remove("elsewhere/sva-*/checkpoints/best*"),
    ),
    Hint("Use --average X", "eval {sva} --average 9", r"Use (--average \d+)"),
    Hint(
        "`phmrun runs reproduce X` trains it again.",
        "eval {sva}",
        r"`" + RAN + "`",
        remove("elsewhere/sva-*/checkpoints/*"),
    ),
    Hint(
        "`phmrun runs reproduce X` trains it again",
        "eval latest --runs-dir restored",
        r"`" + RAN,
        restored,
    ),
    Hint("`phmrun verify X` names", "eval {sva}", r"`" + RAN + "`", remove("elsewhere/sva-*/data.json"), code=3),
    Hint(
        "or start the run over (--restart)",
        SVA,
        r"over \((--restart)\)",
        lambda folder: next(folder.glob("elsewhere/sva-*/status.json")).write_text("{") and None,
        also="--yes",
    ),
    Hint("`phmrun runs list` shows", "eval nothing", r"`(phmrun runs list)`"),
    Hint("Use --yes to delete without a question", "runs rm {sva}", r"Use (--yes) to"),
    # training
    Hint("--restart trains it from the start", SVA, r"(--restart) trains", also="--yes"),
    Hint("Use --restart --yes to delete it", f"{SVA} --restart", r"Use --restart (--yes) to"),
    Hint("`phmrun train X --dry-run` prints", "train sva --max-steps 0", r"`(phmrun train sva --dry-run)`"),
    Hint(
        "add --set training.max_epochs=null",
        f"{SVA} --max-epochs 1 --max-steps 99",
        r"add (--set training.max_epochs=null)",
    ),
    Hint("Give --max-steps or", f"{SVA} --set training.max_steps=null", r"Give (--max-steps)", also="1"),
    Hint("Give --max-steps more than X", f"{SVA} --extend {{sva}} --max-steps 1", r"(--max-steps) more", also="3"),
    Hint("Name it with --extend RUN", f"{SVA} --layer added", r"with (--extend RUN),", fill={"RUN": "{sva}"}),
    Hint("draw the weights: --set layer.base=random", f"{SVA} --layer added", r"weights: (--set layer.base=random)"),
    Hint("Use --layer added", f"{SVA} --set adapts={{sva}}", r"Use (--layer added)"),
    Hint(
        "phmrun eval X",
        f"{SVA} --max-steps 4000 --max-time 0:00:01 --set training.patience=0",
        r"to score it as it is: (phmrun .*)",
    ),
    Hint(
        "use --embedding",
        "count-params nmt --layer projective",
        r"use (--embedding projective)",
        without="--layer projective",
    ),
    Hint("or --set model.tie=none", "count-params nmt --output phm --set output.n=4", r"or (--set model.tie=none)"),
    Hint("as in --set X", "count-params nmt --set training.seed", r"as in (--set \S+)", without="--set training.seed"),
    Hint("phmrun count-params nmt, or", "count-params", r"(phmrun count-params nmt), or"),
    Hint(
        "one of your own needs --plugin FILE",
        f"{SVA} --layer own-layer",
        r"needs (--plugin FILE)",
        write("mine.py", MINE),
        fill={"FILE": "mine.py"},
    ),
    # compression and export
    Hint(
        "Update it: phmrun train … --extend X",
        "compress {sva} --layer added",
        r"(phmrun train … --extend \S+)",
        fill={"train …": f"{SVA} --layer added --max-steps 4"},
    ),
    Hint("phmrun export X --format onnx", "export {sva} --format ctranslate2", RAN),
    Hint("use --calibrate 8", "compress {sva} --layer low-rank --budget 0.9 --calibrate 0", r"use (--calibrate 8)"),
    Hint(
        "Use --format safetensors with --factored",
        "export {sva} --factored --format ctranslate2",
        r"Use (--format safetensors)",
    ),
    Hint("`phmrun doctor` shows", f"{SVA} --set hardware.accelerator=gpu", r"`(phmrun doctor)`"),
    Hint("Use X or more", "compress {sva} --layer low-rank --budget 0.01", r"Use (--budget [\d.]+) or"),
    Hint(
        "Give an empty folder with --out",
        "export {nmt} --format ctranslate2 --out nmt-data",
        r"with (--out)",
        also="new",
    ),
    # sweeps, tables, results
    Hint(
        "`phmrun train TASK` makes one",
        "table --runs-dir none",
        r"`(phmrun train TASK)`",
        fill={"TASK": "sva"},
        also="--config sva.yaml",
    ),
    Hint(
        "`phmrun sweep sweep.yaml --plan` shows",
        "table sweep.yaml",
        r"`(phmrun sweep sweep.yaml --plan)`",
    ),
    Hint(
        "`phmrun bench run RUN` measures",
        "table {sva} --score time/step",
        r"`(phmrun bench run RUN)`",
        fill={"RUN": "{sva}"},
        also="--batches 1 --items 4 --repeats 1",
    ),
    Hint(
        "`phmrun count-params --paper X`",
        "sweep configs/papers/matsuno/table4.yaml",
        r"`(phmrun count-params --paper .*?)`",
    ),
    Hint(
        "As in --only X",
        "sweep sweep.yaml --plan --only layer",
        r"As in (--only layer=phm) --only seed=1",
        without="--only layer",
    ),
    Hint(
        "`phmrun results add FILE|RUN… --to DIR/NAME`",
        "results restore results",
        r"`(phmrun results add .*?)`",
        fill={"FILE|RUN…": "{sva}", "DIR/NAME": "results/own"},
    ),
    # parts of one's own
    Hint("Next: X --plugin X", "new structure tiled", r"Next: (.*)"),
    Hint("Next: X --plugin X", "new metric second", r"Next: (.*)", also="--config sva.yaml"),
    Hint("Next: X --plugin X", "new task reviews", r"Next: (.*)"),
    Hint("Next: X --plugin X", "new network slow", r"Next: (.*)", also="--config sva.yaml"),
]
