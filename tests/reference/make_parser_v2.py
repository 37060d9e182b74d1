"""Record a small parser of tdozat/Parser-v2, its own network and optimizer in float64.

python tests/reference/make_parser_v2.py GIT_DIRECTORY

Nothing is dropped. The sentences of a batch have the same length, and a spelling has one character or three, which
makes two buckets of spellings. So padding, which the original attends to in its softmax over heads and over characters,
plays no part. The root is spelled like a word. By a slip of one the original spells it by padding, which is no
character: ``subtoken_vocab.py:143`` counts from 1, and reads the root as 1.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from parser_v2 import SOURCE, released
from recording import record
from tensorflow_1 import tf
from torch import Tensor

WIDTH, CHARACTER, HIDDEN, LAYERS, ARC, LABEL, PRETRAINED = 6, 4, 4, 2, 5, 3, 5
SENTENCES = """abc n 2 x; d v 0 root; abc m 2 y
bca n 3 x; e m 1 y; d v 0 root

f n 2 x; abc v 0 root; cab n 2 x; f n 3 y"""
"""Word, tag of the language, head and label; an empty line parts the two lengths."""
Weights = Mapping[str, Tensor]


def write_files(folder: Path) -> dict[str, dict[str, object]]:
    """Write the sentences and fixed vectors, and return the options of their network."""
    trees = []
    for sentence in SENTENCES.split("\n"):
        words = [word.split() for word in sentence.split(";") if word]
        lines = [f"{n}\t{w}\t_\t{t.upper()}\t{t}\t_\t{h}\t{r}\t_\t_" for n, (w, t, h, r) in enumerate(words, 1)]
        trees.append("\n".join(lines))
    (folder / "train.conllu").write_text("\n\n".join(tree for tree in trees if tree))
    words = ("abc", "d", "f", "bca", "cab", "e")  # as theirs are numbered: by frequency, then by name
    (folder / "vectors.txt").write_text("\n".join(["", *(f"{word} {'0 ' * PRETRAINED}".rstrip() for word in words)]))
    nothing_dropped = dict.fromkeys(("recur_keep_prob", "ff_keep_prob", "mlp_keep_prob"), 1)
    return {
        "default": {"save_dir": folder / "save"},
        "configurable": dict.fromkeys(("train_files", "parse_files"), folder / "train.conllu") | {"verbose": False},
        "base_vocab": {"embed_size": WIDTH},
        "subtoken_vocab": {"embed_size": CHARACTER},
        "token_vocab": {"min_occur_count": 1, "embed_keep_prob": 1},
        "multivocab": {"embed_keep_prob": 1},
        "pretrained_vocab": {"filename": folder / "vectors.txt"},
        "nn": {**nothing_dropped, "n_layers": LAYERS, "recur_size": HIDDEN},
        "parser": {"arc_mlp_size": ARC, "rel_mlp_size": LABEL},
        "trainset": {"n_buckets": 2, "batch_size": 0},
        "radam_optimizer": {"clip": 0.01},  # small enough to be reached
    }


def ours(weights: Weights) -> dict[str, Tensor]:
    """The variables under our names; what is kept of c is 1 - σ(2z) = σ(2·(-z)), so that signs turn."""
    arc, label = weights["Network/Arc/Bilinear/Weights"], weights["Network/Rel/Bilinear/Weights"]
    spelled = "Network/chars-multibucket"
    named = {
        "embedding.structure.matrix": weights["Words/Embeddings"],
        "tags.structure.matrix": torch.cat([weights["Tags/Embeddings"], weights["Xtags/Embeddings"]]),
        "letters.structure.matrix": weights["Chars/Embeddings"],
        "letter_attention.structure.matrix": weights[f"{spelled}/MLP/Linear/Weights"].t(),
        "letter_map.structure.matrix": weights[f"{spelled}/Linear/Weights"].t(),
        "letter_map.bias": weights[f"{spelled}/Linear/Biases"],
        "fixed_map.structure.matrix": weights["Network/Pretrained/Linear/Weights"].t(),
        "fixed_map.bias": weights["Network/Pretrained/Linear/Biases"],
        "arc_classifier.maps.0.matrix": arc[:ARC, 0],
        "arc_classifier.v": arc[ARC],
        "label_classifier.u": label[:LABEL, :, LABEL].t(),
        "label_classifier.v": label[LABEL, :, :LABEL],
        "label_classifier.c": label[LABEL, :, LABEL],
    }
    named |= {f"label_classifier.maps.{n}.matrix": label[:LABEL, n, :LABEL] for n in range(label.shape[1])}
    columns = weights["Network/MLP/Linear/Weights"].t().split(ARC + LABEL)
    biases = weights["Network/MLP/Linear/Biases"].split(ARC + LABEL)
    for side, (rows, bias) in enumerate(zip(columns, biases, strict=True)):
        named |= {f"arc_mlp.{side}.structure.matrix": rows[:ARC], f"arc_mlp.{side}.bias": bias[:ARC]}
        named |= {f"label_mlp.{side}.structure.matrix": rows[ARC:], f"label_mlp.{side}.bias": bias[ARC:]}
    cells = {f"{spelled}/RNN/RNN": "letter_lstm.cells.0"}
    ways = [f"Network/RNN{layer}/BiRNN_{way}" for layer in range(LAYERS) for way in ("FW", "BW")]
    for theirs, name in (cells | {way: f"lstm.cells.{n}" for n, way in enumerate(ways)}).items():
        rows = gates(weights[f"{theirs}/LSTMCell/Linear/Weights"].t())
        named |= {f"{name}.input.{n}.matrix": part[:, :-HIDDEN] for n, part in enumerate(rows)}
        named |= {f"{name}.recurrent.{n}.matrix": part[:, -HIDDEN:] for n, part in enumerate(rows)}
        named[f"{name}.bias"] = torch.cat(gates(weights[f"{theirs}/LSTMCell/Linear/Biases"]))[None]
        named[f"{name}.state"] = weights[f"{theirs}/Zero_state"].view(2, HIDDEN).flip(0)
    return {name: value.detach().clone().contiguous() for name, value in named.items()}


def gates(rows: Tensor) -> list[Tensor]:
    """Candidate, input, forget and output gate of theirs (``lstm_cell.py:44``) in our order."""
    cell, i, f, o = rows.split(HIDDEN)
    return [i, -f, cell, o]


def inputs(feed: Mapping[Any, Any], tags: int) -> dict[str, Tensor]:
    """Ids, heads, labels and each word's characters of a feed of theirs, as ours reads them.

    The feed is changed to spell the root like the first word.
    """
    keys = {key.name.removeprefix("Network/").split(":")[0]: key for key in feed}
    feed[keys["chars"]][:, 0] = feed[keys["chars"]][:, 1]
    values = {name: torch.from_numpy(np.array(feed[key])).long() for name, key in keys.items()}
    assert torch.equal(values["words"], values["pretrained"])
    buckets = [value for name, value in values.items() if name.endswith("-bkt")]
    longest = max(bucket.shape[1] for bucket in buckets)
    spellings = torch.cat([torch.nn.functional.pad(bucket, (0, longest - bucket.shape[1])) for bucket in buckets])
    return {
        "words": values["words"],
        "tags": torch.stack([values["tags"], values["xtags"] + tags], dim=-1),
        "heads": values["heads"],
        "labels": values["rels"],
        "spellings": spellings[values["chars-multibucket"]][values["chars"]],
    }


def main(git_directory: str) -> None:
    """Scores and gradient of a batch, the weights after a step on it and another on a second one, and trees."""
    numbers: dict[str, Tensor] = {}
    drawn = np.random.default_rng(1)
    with released(git_directory, double=True) as folder:
        from parser import Network  # type: ignore[import-not-found]
        from parser.dataset import Trainset  # type: ignore[import-not-found]

        network = Network(**write_files(folder))
        network.add_file_vocabs(network.parse_files)
        network.setup_vocabs()
        sentences = Trainset.from_configurable(network, network.vocabs, nlp_model=network.nlp_model)
        with tf.variable_scope(network.name.title()):
            outputs = sentences()
        loss = tf.losses.get_total_loss()
        step = network.optimizer(loss)
        unread = ("Lemmas", "Rels")  # tables of vectors that the network does not read
        learned = [value for value in tf.trainable_variables() if not value.name.startswith(unread)]
        gradients = [tf.convert_to_tensor(value) for value in tf.gradients(loss, learned)]
        names = [value.op.name for value in learned]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            fixed = next(value for value in tf.global_variables() if value.op.name == "Pretrained/Embeddings")
            for value in (*learned, fixed):
                value.load(0.5 * drawn.standard_normal(value.shape.as_list()), session)

            def named(values: Sequence[np.ndarray]) -> dict[str, Tensor]:
                return {name: torch.from_numpy(value) for name, value in zip(names, values, strict=True)}

            def weights() -> dict[str, Tensor]:
                return ours(named(session.run(learned)))

            numbers |= {f"before/{name}": value for name, value in weights().items()}
            numbers["before/fixed"] = torch.from_numpy(session.run(fixed))
            tags = len(network.vocabs[3])
            for number, (feed, _) in enumerate(sentences.iterbatches(shuffle=False)):
                numbers |= {f"batch{number}/{name}": value for name, value in inputs(feed, tags).items()}
                if number == 0:
                    logits = {"arcs": "arc_logits", "labels": "rel_logits"}
                    results = session.run([*(outputs[key] for key in logits.values()), loss, *gradients], feed)
                    outcome = zip([*logits, "loss"], results[:3], strict=True)
                    numbers |= {name: torch.from_numpy(np.asarray(value)) for name, value in outcome}
                    numbers |= {f"gradient/{name}": value for name, value in ours(named(results[3:])).items()}
                session.run(step, feed)
                numbers |= {f"after{number + 1}/{name}": value for name, value in weights().items()}
        from parser.misc.mst import nonprojective  # type: ignore[import-not-found]

        scores = torch.from_numpy(2 * drawn.standard_normal((40, 8, 8)))  # word by head, the root first
        heads = [nonprojective(matrix.numpy()) for matrix in scores.softmax(dim=2)]
        numbers |= {"search/scores": scores, "search/heads": torch.from_numpy(np.stack(heads))}
    record("parser-v2", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
