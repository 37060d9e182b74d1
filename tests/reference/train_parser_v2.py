"""Train tdozat/Parser-v2 itself on a treebank, with vectors drawn at random, and score its parse of the test file.

PYTHONPATH=. python tests/reference/train_parser_v2.py GIT_DIRECTORY TREEBANK FOLDER [SEED] [STEPS]

TREEBANK is a folder of Universal Dependencies with one file each that ends in ``train.conllu``, ``dev.conllu`` and
``test.conllu``. FOLDER is new. In place of pretrained vectors, the words of the training file have ones that are drawn
uniformly from ±0.17 (Matsuno et al. 2018, 5.1: no pretrained embeddings, a uniform distribution). The best checkpoint
on the development file is parsed. STEPS (1,500) or the released patience end the training. One thread, float32.
phmrun reads the treebanks, which needs ``pyyaml`` beside what ``parser_v2`` needs.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
from parser_v2 import released
from tensorflow_1 import tf

from phmrun.text.conllu import load, universal

WIDTH = 100
RANGE = (3 / WIDTH) ** 0.5  # a variance of 1/WIDTH


def draw_vectors(train: Path, path: Path) -> None:
    """Write a vector for each word of a file, in lower case, the most frequent first, below a line that is skipped."""
    words = Counter(form.lower() for sentence in load(train) for form in sentence.forms if " " not in form)
    drawn = np.random.default_rng(1).uniform(-RANGE, RANGE, (len(words), WIDTH))
    rows = zip(words.most_common(), drawn, strict=True)
    lines = [" ".join([word, *map("{:.5f}".format, row)]) for (word, _), row in rows]
    path.write_text("\n".join([f"{len(words)} {WIDTH}", *lines]) + "\n", encoding="utf-8")


def scored(gold: Path, parsed: Path) -> str:
    """Unlabeled and labeled attachment of all words in %, labels without subtypes, as the shared task scores."""
    pairs = list(zip(load(gold), load(parsed), strict=True))
    heads = [pair for ours, theirs in pairs for pair in zip(ours.heads, theirs.heads, strict=True)]
    labels = [pair for ours, theirs in pairs for pair in zip(ours.deprels, theirs.deprels, strict=True)]
    right = [ours == theirs for ours, theirs in heads]
    labeled = [
        head and universal(ours) == universal(theirs) for head, (ours, theirs) in zip(right, labels, strict=True)
    ]
    return f"UAS {100 * sum(right) / len(right):.2f}, LAS {100 * sum(labeled) / len(right):.2f}, {len(right):,} words"


def one_thread() -> None:
    """Let each session of TensorFlow compute on one thread."""
    session = tf.Session

    def single(*args: object, config: object = None) -> object:
        config = config or tf.ConfigProto()
        config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = 1  # type: ignore[attr-defined]
        return session(*args, config=config)

    tf.Session = single


def main(git_directory: str, treebank: str, folder: str, seed: int = 1, steps: int = 1500) -> None:
    """Train, parse and score."""
    out = Path(folder).resolve()
    out.mkdir(parents=True)
    files = {part: next(Path(treebank).resolve().glob(f"*{part}.conllu")) for part in ("train", "dev", "test")}
    draw_vectors(files["train"], out / "vectors.txt")
    options: dict[str, dict[str, object]] = {
        "default": {"save_dir": out},
        "configurable": {"train_files": files["train"], "parse_files": files["dev"]},
        "pretrained_vocab": {"filename": out / "vectors.txt"},
        "network": {"max_train_iters": steps},
    }
    one_thread()
    with released(git_directory, double=False):
        from parser import Network  # type: ignore[import-not-found]

        np.random.seed(seed)
        tf.set_random_seed(seed)
        Network(**options).train()
        tf.reset_default_graph()
        Network(**options).parse([str(files["test"])], output_file=str(out / "test.conllu"))
    print(scored(files["test"], out / "test.conllu"))


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:6]))
