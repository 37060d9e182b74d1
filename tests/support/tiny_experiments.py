"""A small experiment of every task, for tests that train: a second or two on one core."""

import random
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from structure_cases import SQUARE as SQUARE_STRUCTURES
from tiny_treebank import write_trees

from phmrun.config import Experiment, Source, Task, resolve, task_defaults
from phmrun.engine.experiment import TrainResult, train
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.registry import TASKS

WORDS = {f"w{number}": f"{'xyz'[number % 3]}{number}" for number in range(60)}
SPLITS = {"train": 150, "dev": 24, "test": 12}


def write_corpus(directory: Path, seed: int = 0) -> Path:
    """A made-up language pair: other words, every second sentence in reverse. Returns the directory."""
    draw = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    for split, size in SPLITS.items():
        pairs = []
        for _ in range(size):
            source = draw.sample(sorted(WORDS), draw.randrange(2, 9))
            target = [WORDS[word] for word in source]
            pairs.append((source, target[::-1] if len(source) % 2 else target))
        for language, side in (("aa", 0), ("bb", 1)):
            text = "".join(" ".join(pair[side]) + "\n" for pair in pairs)
            (directory / f"{split}.{language}").write_text(text, encoding="utf-8")
    return directory


def nmt(directory: Path) -> dict[str, Any]:
    """Translation of the made-up language."""
    write_corpus(directory)
    vocabulary = {"kind": "word", "size": 160, "multiple_of": 16}
    sizes = {"width": 32, "feedforward": 48, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return {
        "data": {"prefix": f"{directory}/", "source": "aa", "target": "bb", "vocabulary": vocabulary},
        "model": {**sizes, "dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1},
        "batch": {"unit": "tokens", "size": 80},
        "decoding": {"beam": 2, "max_length_ratio": 1.0, "max_length_offset": 4},
    }


def style(directory: Path) -> dict[str, Any]:
    """The made-up language pair once more, as the reproduction of the PHM paper sets it up: nothing is tied."""
    settings = nmt(directory)
    data, model, decoding = settings["data"], settings["model"], settings["decoding"]
    data["vocabulary"] = {"kind": "word", "size": 80, "multiple_of": 16, "joint": False}
    model |= {"norm": "post", "bias": True, "output_bias": True, "tie": "none"}
    return {**settings, "decoding": {**decoding, "sentence_bleu": True}}


def write_rows(directory: Path, seed: int, row: Callable[[random.Random], str]) -> Path:
    """Write drawn rows of each split as a table, and return the directory."""
    draw = random.Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    for split, size in SPLITS.items():
        lines = [f"{row(draw)}\n" for _ in range(size)]
        (directory / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    return directory


def write_agreement(directory: Path, seed: int = 0) -> Path:
    """Made-up prefixes: the verb agrees with the first word, whatever follows. Returns the directory."""

    def row(draw: random.Random) -> str:
        plural = draw.random() < 0.4
        words = [f"n{draw.randrange(12)}{'s' if plural else ''}", *draw.sample(sorted(WORDS), draw.randrange(7))]
        return f"{'VBP' if plural else 'VBZ'}\t{' '.join(words)}"

    return write_rows(directory, seed, row)


def own_files(directory: Path, suffix: str, **vocabulary: int) -> dict[str, Any]:
    """The section of data that names the files of a directory."""
    files = {split: str(directory / f"{split}.{suffix}") for split in SPLITS}
    return {**files, "vocabulary": {"multiple_of": 16, **vocabulary}}


def sva(directory: Path) -> dict[str, Any]:
    """The number of a verb after made-up prefixes."""
    write_agreement(directory)
    return {
        "data": own_files(directory, "tsv", size=96),
        "model": {"width": 32, "feedforward": 48, "heads": 2, "layers": 1},
        "batch": {"unit": "sentences", "size": 12},
    }


def parse(directory: Path) -> dict[str, Any]:
    """Trees of a made-up language."""
    write_trees(directory)
    names = ("word_width", "tag_width", "character_width", "character_hidden", "hidden", "label_width")
    widths = dict.fromkeys(names, 16)
    return {
        "data": own_files(directory, "conllu"),
        "model": {**widths, "layers": 2, "arc_width": 32},
        "batch": {"unit": "tokens", "size": 60},
    }


def lm(directory: Path) -> dict[str, Any]:
    """Running text of a made-up language, in segments of random length."""
    write_corpus(directory)
    return {
        "data": own_files(directory, "aa"),
        "model": {"width": 32, "hidden": 48},
        "batch": {"size": 8, "length": 8, "random_length": True},
        "training": {"activation_penalty": 2.0, "change_penalty": 1.0},
        "decoding": {"streams": 3},
    }


def write_inference(directory: Path, seed: int = 0) -> Path:
    """Made-up pairs: a word of the premise, the same word after "not", or another word. Returns the directory."""

    def row(draw: random.Random) -> str:
        words = draw.sample(sorted(WORDS), draw.randrange(2, 6))
        hypothesis, label = draw.choice(
            [(words[0], "entailment"), (f"not {words[0]}", "contradiction"), (f"maybe {words[1]} so", "neutral")]
        )
        return f"{' '.join(words)}\t{hypothesis}\t{label}"

    return write_rows(directory, seed, row)


def nli(directory: Path) -> dict[str, Any]:
    """Inference over made-up pairs."""
    write_inference(directory)
    return {
        "data": own_files(directory, "tsv", size=80),
        "model": {"width": 48, "hidden": 32, "mlp": 32, "dropout": 0.1, "word_dropout": 0.1},
        "batch": {"unit": "sentences", "size": 12},
    }


SETTINGS: dict[str, Callable[[Path], dict[str, Any]]] = {
    settings.__name__: settings for settings in (lm, nli, nmt, parse, style, sva)
}
"""What is particular to a task, given a directory for its corpus. A new task has ``tiny_<task>.py`` with its tests."""

NO_DROPOUT: dict[str, dict[str, float]] = {
    "lm": {"dropout": 0.0, "input_dropout": 0.0, "output_dropout": 0.0},
    "nli": {"dropout": 0.0, "word_dropout": 0.0},
    "parse": {"dropout": 0.0, "recurrent_dropout": 0.0, "embedding_dropout": 0.0},
}
"""Keys of a task's model that turn its dropout off, where they are not the Transformer's."""

for _path in sorted((Path(__file__).parents[1] / "tasks").glob("*/tiny_*.py")):
    _tiny = runpy.run_path(str(_path))
    SETTINGS[_tiny["TASK"]] = _tiny["settings"]
    NO_DROPOUT[_tiny["TASK"]] = _tiny["NO_DROPOUT"]

ELSEWHERE: dict[str, tuple[str, ...]] = {"parse": ("tags", "letters", "arc_classifier", "label_classifier")}
"""Scopes of a task's network, beside embedding and output, that have the structure of one of these two."""

SQUARE: dict[str, dict[str, Any]] = {
    **{
        task: {"model": {"width": 32, "feedforward": 32, "attention_maps": "separate"}}
        for task in ("nmt", "style", "sva")
    },
    "lm": {"model": {"hidden": 32}},
    "nli": {"model": {"width": 32}},
}
"""What makes every map in a task's blocks square, for structures of square matrices only; where that cannot be, such a
structure is refused."""

TRAINING = {
    **{"max_steps": 10, "optimizer": {"lr": 0.003}, "schedule": {"name": "inverse-sqrt", "warmup": 4}},
    **{"accumulate": 2, "validate_every": 3, "checkpoint_every": 2, "keep_last": 3, "average": 2, "patience": 5},
}
"""Checkpoints and validations at different steps, both within the first epoch and across epochs."""


def configured(task: str, directory: Path, *overrides: dict[str, Any]) -> Experiment:
    """The resolved config of a task's small experiment; later overrides are stronger."""
    description: Task = TASKS.get(task)
    common = {"training": TRAINING, "hardware": {"accelerator": "cpu"}, "logging": {"wandb": "disabled"}}
    sources = [task_defaults(task), *(Source("test", v) for v in (common, SETTINGS[task](directory), *overrides))]
    return resolve(description.load("schema"), sources, options_of).config


def everywhere(structure: str, **options: Any) -> dict[str, Any]:
    """A structure in all places."""
    return {scope: {"structure": structure, **options} for scope in ("layer", "embedding", "output")}


def placed(task: str, structure: str, blocks_only: bool = False, **options: Any) -> tuple[dict[str, Any], ...]:
    """A structure in all places of a task, or in its blocks only; one of squares in blocks that are made square."""
    square = structure in SQUARE_STRUCTURES
    scopes = everywhere(structure, **options)
    if blocks_only or square:
        scopes = {"layer": scopes["layer"]}
    return (scopes, SQUARE[task]) if square else (scopes,)


def run_experiment(config: Experiment, runs: Path, **options: Any) -> TrainResult:
    """Trains, as the command line would."""
    return train(config, origin={}, runs_dir=runs, **options)


def run_of(result: TrainResult) -> Run:
    """The run directory of a result."""
    return Run(result.run_dir)


def snapshot(run: Run) -> dict[str, Any]:
    """Every file of a run with its content and time of change."""
    return {
        str(path.relative_to(run.path)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(run.path.rglob("*"))
        if path.is_file()
    }
