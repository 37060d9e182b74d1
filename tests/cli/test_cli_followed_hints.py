"""Printed hints, followed: each is provoked, parsed out of the message and executed in the same folder."""

import io
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from test_cli_hints import FILES, ROOT, texts
from tiny_experiments import SETTINGS, WORDS

from phmrun.cli.app import main
from phmrun.registry import METRICS, STRUCTURES, TASKS, networks

TRAINING = {"max_steps": 2, "max_epochs": None, "validate_every": 1, "checkpoint_every": 1}
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


def nli_labels(*labels: str) -> Callable[[Path], None]:
    """Replace the three labels of the pairs by these."""

    def prepare(folder: Path) -> None:
        names = ("entailment", "contradiction", "neutral")
        for path in folder.glob("nli-data/*.tsv"):
            text = path.read_text(encoding="utf-8")
            for number, name in enumerate(names):
                text = text.replace(f"\t{name}\n", f"\t{labels[number % len(labels)]}\n")
            path.write_text(text, encoding="utf-8")

    return prepare


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


def unknown_words(folder: Path) -> None:
    """Replace the validation text by words that training lacks."""
    (folder / "lm-data/dev.aa").write_text("new words only\n" * 30, encoding="utf-8")


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


def write(name: str, content: str) -> Callable[[Path], None]:
    """Write a file."""
    return lambda folder: (folder / name).write_text(content, encoding="utf-8") and None


MINE = (ROOT / "examples/my_layers.py").read_text(encoding="utf-8").replace('"mine"', '"own-layer"')
VECTORS = "".join(f"{word} 1 2 3 4 5\n" for word in sorted(WORDS))
NMT, SVA, NLI, LM = (f"train {task} --config {task}.yaml {RUNS}" for task in ("nmt", "sva", "nli", "lm"))
TEST_FILES = {"--test-src FILE": "--test-src nmt-data/test.aa", "--test-tgt FILE": "--test-tgt nmt-data/test.bb"}
RAN = r"(phmrun [^\n`;]*)"
"""Command up to the end of its line or quotation."""

HINTS = [
    # data
    Hint("Name the classes: --set X", NLI, r"classes: (--set '.*?')(?:,|\n)", nli_labels("0", "1", "2")),
    Hint("or by your own names: --set", NLI, r"own names: (--set '.*?')", nli_labels("0", "1", "2")),
    Hint("Name the classes: --set X", NLI, r"classes: (--set '.*?')\n", nli_labels("entailment", "not_entailment")),
    Hint("or --set data.empty=drop", NMT, r"or (--set data.empty=drop)", empty_line),
    Hint(
        "--set data.hold_out=0.1 takes a tenth of the training data instead",
        f"train sva --train sva-data/train.tsv {SHORT}",
        r"(--set data.hold_out=0.1) takes",
    ),
    Hint("# next: phmrun train X X", "data formats sva", r"next: (.*)", sample_files, also=SHORT),
    Hint(
        "phmrun data import X X=X",
        "data import snli pairs.txt",
        r"Name its split: " + RAN,
        write("pairs.txt", "x\n"),
        code=3,
    ),
    Hint(
        "Add --embedding projective --set embedding.width=X",
        f"{NLI} --set data.vectors=vectors.txt",
        r"Add (--embedding projective --set embedding.width=5):",
        write("vectors.txt", VECTORS),
    ),
    Hint(
        "# no validation files: --set data.hold_out=0.1",
        "data formats sva",
        r"files: (--set \S+)",
        fill={"data formats sva": f"train sva --train sva-data/train.tsv {SHORT}"},
    ),
    Hint(
        "Name the files with --train, --dev",
        f"train sva --dev sva-data/dev.tsv {SHORT} --train none.tsv",
        r"with (--train),",
        also="sva-data/train.tsv",
        without="--train none.tsv",
    ),
    Hint("or with --prefix", f"{NMT} --prefix none/", r"or with (--prefix)", also="nmt-data/"),
    Hint("--set data.vocabulary.min_frequency=2", LM, r"(--set data.vocabulary.min_frequency=2)", unknown_words),
    Hint("--set data.splitting=punctuation", LM, r"(--set data.splitting=punctuation)", unknown_words),
    # evaluation
    Hint("Run: phmrun eval X X", "eval {nmt} --test nmt-data/test.aa", r"Run: " + RAN, fill=TEST_FILES),
    Hint(
        "score this one under a name of its own: phmrun eval X X",
        "eval {sva} --split test",
        r"own: (phmrun .*)\.\n",
        reorder("test"),
        fill={"FILE": "sva-data/test.tsv"},
    ),
    Hint(
        "If the test set has moved, name it: phmrun eval X X;",
        "eval {sva} --split test",
        r"name it: " + RAN,
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
    Hint("Train it: X", "eval {sva}", r"Train it: " + RAN, remove("elsewhere/sva-*/checkpoints/*")),
    Hint(
        "`phmrun runs reproduce X` trains it anew",
        "eval latest --runs-dir restored",
        r"`" + RAN,
        restored,
        also="--data-dir sva-data",
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
    Hint("`phmrun runs show X` prints it", "report {sva}", r"`(phmrun runs show .*?)`"),
    Hint("`phmrun table X OTHER…` compares", "report {sva}", r"`(phmrun table .*?)`", fill={"OTHER…": "{nmt}"}),
    Hint(
        "--data-dir DIR finds the run's files",
        "runs reproduce {sva}",
        r"(--data-dir DIR) finds",
        move("sva-data", "new-place"),
        fill={"DIR": "new-place"},
    ),
    Hint("Use --yes to delete without a question", "runs rm {sva}", r"Use (--yes) to"),
    # training
    Hint("--restart trains it anew", SVA, r"(--restart) trains", also="--yes"),
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
        "`phmrun runs show X",
        SVA,
        r"`(phmrun runs show .*?)`",
        reorder("train"),
    ),
    Hint(
        "use --embedding",
        "count-params nmt --layer projective",
        r"use (--embedding projective)",
        without="--layer projective",
    ),
    Hint("use X hypercomplex --set", "count-params nmt --layer quaternion", r"use (--layer hypercomplex --set \S+)"),
    Hint("use --layer X", "count-params nmt --layer lowrank", r"use (--layer low-rank)"),
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
        "Use --format safetensors or onnx with --factored",
        "export {sva} --factored --format ctranslate2",
        r"Use (--format safetensors)",
    ),
    Hint("`phmrun doctor` shows", f"{SVA} --accelerator gpu", r"`(phmrun doctor)`"),
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
        "`phmrun sweep FILE --plan` shows",
        "table sweep.yaml",
        r"`(phmrun sweep FILE --plan)`",
        fill={"FILE": "sweep.yaml"},
    ),
    Hint(
        "`phmrun bench run RUN` measures", "bench table sweep.yaml", r"`(phmrun bench run RUN)`", fill={"RUN": "{sva}"}
    ),
    Hint("`phmrun schema sweep`", "plot tuning sweep.yaml", r"`(phmrun schema sweep)`"),
    Hint(
        "`phmrun count-params --paper X`",
        "sweep configs/papers/define/table4.yaml",
        r"`(phmrun count-params --paper .*?)`",
    ),
    Hint(
        "As in --only X",
        "sweep sweep.yaml --plan --only layer",
        r"As in (--only layer=phm) --only seed=1",
        without="--only layer",
    ),
    Hint(
        "Run: phmrun results add sweep.yaml --to X/NAME",
        "results build results",
        r"Run: (phmrun results add .*?NAME)",
        also=RUNS,
    ),
    Hint(
        "phmrun results build X --out X",
        "results build results --out R.md --check",
        RAN,
        add_results,
    ),
    Hint(
        "`phmrun results add FILE|RUN… --to DIR/NAME`",
        "results restore results",
        r"`(phmrun results add .*?)`",
        fill={"FILE|RUN…": "{sva}", "DIR/NAME": "results/own"},
    ),
    Hint("--margin needs --until-decided", "sweep sweep.yaml --margin 1 --plan", r"needs (--until-decided)"),
    Hint(
        "phmrun sweep X X --seeds 5", "claims phm", r"(phmrun sweep \S.*? --seeds 5)", also="--plan", code=3
    ),  # without the data
    # parts of one's own
    Hint("Next: X --plugin X", "new structure tiled", r"Next: (.*)"),
    Hint("Next: X --plugin X", "new metric second", r"Next: (.*)", also="--config sva.yaml"),
    Hint("Next: X --plugin X", "new task reviews", r"Next: (.*)"),
    Hint("Next: X --plugin X", "new network slow", r"Next: (.*)", also="--config sva.yaml"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """Folder with the data, configs and finished runs of small experiments; ``saved`` beside it is a copy."""
    folder = tmp_path_factory.mktemp("hints") / "here"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for task in ("nmt", "sva", "nli", "lm"):
            settings = SETTINGS[task](Path(f"{task}-data"))
            settings["training"] = {**settings.get("training", {}), **TRAINING}
            settings |= {"hardware": {"accelerator": "cpu", "threads": 1}, "logging": {"wandb": "disabled"}}
            Path(f"{task}.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        sweep = {"task": "sva", "base": yaml.safe_load(Path("sva.yaml").read_text(encoding="utf-8"))}
        sweep |= {"grid": {"layer": ["dense", {"structure": "phm", "n": 2}]}, "seeds": 1}
        Path("sweep.yaml").write_text(yaml.safe_dump(sweep), encoding="utf-8")
        for command in (NMT, SVA):
            with pytest.raises(SystemExit) as end:
                main(shlex.split(command))
            assert end.value.code == 0
    shutil.copytree(folder, folder.parent / "saved")
    return folder


@pytest.fixture
def folder(trained, monkeypatch) -> Path:
    """Working directory of one test, as ``trained`` left it; registries forget what the test adds."""
    shutil.rmtree(trained)
    shutil.copytree(trained.parent / "saved", trained)
    monkeypatch.chdir(trained)
    monkeypatch.setenv("PHMRUN_DATA", str(trained / "data"))
    for registry in (STRUCTURES, METRICS, TASKS, networks("sva")):
        monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    return trained


def filled(command: str, values: Mapping[str, str]) -> str:
    """Command with its placeholders replaced."""
    for placeholder, value in values.items():
        command = command.replace(placeholder, value)
    return command


@pytest.mark.parametrize("hint", HINTS, ids=[f"{number} {hint.text}" for number, hint in enumerate(HINTS)])
def test_a_followed_hint_works(hint: Hint, folder: Path, phmrun) -> None:
    runs = {f"{{{task}}}": str(next(Path("elsewhere").glob(f"{task}-*"))) for task in ("nmt", "sva")}
    provoke = filled(hint.provoke, runs)
    hint.prepare(folder)
    first = phmrun(*shlex.split(provoke))
    message = first.out + first.err
    text = re.search(re.escape(hint.text).replace("X", ".*?"), message)
    printed = re.search(hint.follow, message)
    if not (text and printed):
        pytest.fail(f"{hint.text!r} is not a hint of: phmrun {provoke}\n{message}", pytrace=False)
    kept = provoke.replace(hint.without, "")
    # Options are added to the command that provoked the hint.
    command = printed[1].removeprefix("phmrun ") if printed[1].startswith("phmrun ") else f"{kept} {printed[1]}"
    command = filled(filled(f"{command} {hint.also}", hint.fill), runs)
    followed = phmrun(*shlex.split(command))
    if followed.code != hint.code:
        pytest.fail(f"exit {followed.code} of: phmrun {command}\n{followed.out}{followed.err}", pytrace=False)


NOT_FOLLOWED = {
    # test_cli_hints.py checks the verb and the options of these
    **dict.fromkeys(
        (
            "Run many experiments from one file",
            "Return formats of",
            "file as exported with --factored",
            "Name of a dataset",
            "Maximum number of seeds per row",
            "Name of the weight structure",
            "Name of the matrix in the network",
            "Name of a weight structure",
            "Your training data",
            "Further mirrors, written",
            '"builtin" (the built-in corpus)',
            "Measured by `phmrun export RUN",
            "that ``phmrun bench`` measures",
            "speeds measured by `phmrun",
            "as measured by `phmrun",
            "A reduced setting",
        ),
        "help, documentation of keys, or a note on where figures come from",
    ),
    **dict.fromkeys(
        (
            "--set X",
            "phmrun data import X X",
            "to score it as it is",
            "use XXhypercomplex",
            "phmrun train sva",
            "phmrun layers show $name",
        ),
        "part of a hint that is followed above, or a setting in a list",
    ),
    **dict.fromkeys(("phmrun data formats $name", "phmrun sweep", "phmrun train X --config X"), "the same"),
    **dict.fromkeys(
        ("`phmrun layers list`)", "`phmrun layers list` lists", "`phmrun data list`", "prints a sample"),
        "the verb alone; test_complete_commands_in_hints_run executes it",
    ),
    **dict.fromkeys(
        (
            "phmrun data fetch",
            "Use --online",
            "Try --offline",
            "Run `wandb login`",
            "phmrun data import X FILES --force",
        ),
        "needs a network",
    ),
    **dict.fromkeys(
        ("Give another with --runs-dir", "train with --wandb disabled", "Make room,", "Train with --precision 32"),
        "doctor's advice on a machine with that fault",
    ),
    **dict.fromkeys(
        ("Use --set data.hold_out=0.1 to validate", "or use --executor local", "Add --seed {seed}"),
        "of another treebank, a cluster, a program of one's own",
    ),
    **dict.fromkeys(("--prefix corpus/",), "of an imported checkpoint, which needs transformers to make"),
    **dict.fromkeys(
        (
            "--set adapts=FOLDER",
            "Put its old checkpoints back",
            "`phmrun train … --restart` trains anew; for",
            "Put a whole one in its place",
            "training with --restart makes it anew",
            "over with --restart",
            "that trained the run with --restart",
            "phmrun runs unlock X",
            "clip the gradient",
            "Set data.vocabulary.joint=true",
            "add --plugin X",
            "allow more loss with --within",
            "--engine ctranslate2 is faster here",
            "phmrun export X --format safetensors",
            "Export without --factored",
            "`phmrun export RUN --format onnx`",
            "phmrun export X --format XX",
            "`phmrun count-params` shows",
            "`phmrun new network NAME`",
            "`phmrun results add` writes",
            "`phmrun sweep FILE` makes them",
            "Read the file, then",
            "phmrun results build X",
            "run the command again with --debug",
        ),
        "other tests provoke the message; to follow it takes damage, minutes, or another process",
    ),
    **dict.fromkeys(
        (
            "phmrun predict X <",
            "phmrun runs show X",
            "phmrun sweep X; phmrun runs reproduce RUN",
            "phmrun sweep X X⏎".replace("⏎", "\n"),
            "phmrun sweep X --seeds X",
            "phmrun runs reproduce X",
            "phmrun results restore X --runs-dir runs",
        ),
        "commands on pages and cards; the test below runs those of a card",
    ),
}
"""Why hints are not among :data:`HINTS`, by a fragment of their text."""
HINT = re.compile(r"(?:^|`|: |Run |or )phmrun [a-z]|--set [a-zX']|(?:Use|use|Give|Add|add|Try|try|with|needs) --[a-z]")
COMPLETE = re.compile(r"`phmrun ((?:data|layers|schema|runs|doctor)[a-z ]*)`")


def test_every_hint_is_followed_or_has_a_reason() -> None:
    fragments = [*(hint.text for hint in HINTS), *NOT_FOLLOWED]
    for path in FILES:
        for text in filter(HINT.search, texts(path)):
            # The help of a verb has paragraphs; test_cli_hints.py checks its commands.
            covered = "\n\n" in text or any(fragment in text for fragment in fragments)
            assert covered, f"{path.relative_to(ROOT)}: no test follows this hint, see HINTS: {text}"


def test_complete_commands_in_hints_run(folder, phmrun) -> None:
    commands = {command for path in FILES for text in texts(path) for command in COMPLETE.findall(text)}
    assert {"data list", "runs list", "schema sweep", "layers list"} <= commands
    for command in sorted(commands):
        assert phmrun(*command.split()).code == 0, command


def test_the_commands_in_the_card_of_a_run_work(folder, phmrun, monkeypatch) -> None:
    assert phmrun(*shlex.split(f"train sva --config sva.yaml {SHORT}")).code == 0
    card = next(folder.glob("runs/sva-*/README.md")).read_text(encoding="utf-8")
    commands = re.findall(r"^phmrun (.*?)(?: < .*| +#.*)?$", card, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"n1 w1 w2\n")))
        assert phmrun(*shlex.split(command)).code == 0, command
