"""CPU time and memory of ``phmrun train parse`` beside supar's biaffine parser of the same widths.

Both read words, tags and characters, and drop inputs of recurrent gates; batches have about 380 words of UD English-EWT
in both. supar is installed in an environment of its own, whose folder ``.venv`` is in FOLDER.

``python -m benchmarks.parser_loop FOLDER --threads 1``
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TREEBANK = "ud/UD_English-EWT/en-ud-{}.conllu"
WORDS = ["parse", "--config", "configs/parse/own-treebank.yaml", "--max-steps", "100000", "--set=batch.size=428"]
WORDS += ["--set=training.validate_every=100000", "--set=training.checkpoint_every=100000"]
WORDS += ["--set=model.recurrent_dropout=0.33", "--set=model.cell=plain"]  # as supar


def supar_loop(writing: int, steps: int, folder: Path, pattern: str) -> None:
    """Train supar's parser by turns. Imports nothing of phmrun."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from supar.parsers.dep import BiaffineDependencyParser

    from benchmarks.versions import take_turns

    files = {split: pattern.format(split) for split in ("train", "dev", "test")}
    widths = {"n_embed": 64, "n_pretrained": 64, "n_feat_embed": 64, "n_char_embed": 32, "n_char_hidden": 64}
    widths |= {"n_lstm_hidden": 96, "n_lstm_layers": 2, "n_arc_mlp": 128, "n_rel_mlp": 64}
    rest: dict[str, Any] = {"embed_dropout": 0.2, "encoder": "lstm", "feat": ["tag", "char"], "embed": None}
    parser = BiaffineDependencyParser.build(
        folder / "model", build=True, fix_len=32, unk="unk", **files, **widths, **rest
    )
    take_turns(writing, steps)
    adam = {"lr": 2e-3, "mu": 0.9, "nu": 0.9, "eps": 1e-12, "weight_decay": 0, "decay": 0.75, "decay_steps": 5000}
    kinds = dict.fromkeys(("checkpoint", "tree", "proj", "partial", "amp", "verbose"), False)
    parser.train(**files, batch_size=400, buckets=32, update_steps=1, punct=True, **adam, **kinds)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print for each program the time of a step, its memory, and both in parts of supar's."""
    from benchmarks.arguments import parser
    from benchmarks.plain_loop import compare
    from phmrun.files import data_dir

    options = parser(__doc__, repeats=7)
    options.add_argument("folder", type=Path, help="folder with an environment .venv that has supar")
    options.add_argument("--steps", type=int, default=20, help="optimizer steps of a turn")
    args = options.parse_args(arguments)
    pattern = str(data_dir() / TREEBANK)
    files = [word for split in ("train", "dev", "test") for word in (f"--{split}", pattern.format(split))]
    with tempfile.TemporaryDirectory() as name:
        compare(args, [*WORDS, *files], Path(name), __file__, args.folder, [pattern])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        supar_loop(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5])
    else:
        main()
