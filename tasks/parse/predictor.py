"""Prediction and scoring of trees with a trained parser."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from phmrun.config import load_run_config
from phmrun.decoding.spanning_tree import spanning_trees
from phmrun.engine.data import build_data
from phmrun.engine.predictor import Answer, Evaluation, Predictor
from phmrun.layers import for_inference
from phmrun.ledger import Run
from phmrun.metrics import Score
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.items import Items, checksum
from phmrun.metrics.parsing import attachment_scores, sentence_counts
from phmrun.progress import note, progress
from phmrun.tasks.parse.biaffine_parser import BiaffineParser
from phmrun.tasks.parse.config import TreeDecodingConfig
from phmrun.tasks.parse.data import TRAIN, TreebankData
from phmrun.tasks.parse.module import possible_arcs
from phmrun.tasks.parse.vocabulary import NO_LABEL, ROOT, TreebankVocabulary
from phmrun.text import conllu
from phmrun.text.batches import chunks, evaluation_batches
from phmrun.text.conllu import Sentence
from phmrun.text.lines import rows_of_parts

TreeColumns = tuple[Sequence[str], Sequence[int], Sequence[str]]
"""Universal tags, heads (0 for the root) and relations of a sentence's words."""
SAMPLES = 8
CHUNK = 1024  # sentences of a stream that are sorted by length together


class TreeParser(Predictor[BiaffineParser, TreebankVocabulary, TreebankData]):
    """Parser of sentences with a trained network.

    Args:
        network: The trained network; it is copied, not changed.
        vocabulary: Its vocabulary.
        decoding: Settings of tree search and scoring.
        weights: Name of the run's weights, for the signature of a score.
        device: Device of the copy.
    """

    prompt = "one tokenized sentence a line, or CoNLL-U with a blank line after each sentence"
    exact = True

    def __init__(
        self,
        network: BiaffineParser,
        vocabulary: TreebankVocabulary,
        decoding: TreeDecodingConfig,
        weights: str = "given",
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(for_inference(network).to(device), vocabulary, weights, device)
        self.decoding = decoding

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield the trees of a stream of sentences, in order.

        Enhanced dependencies and byte-order marks are removed; the other columns of CoNLL-U input are kept. Sentences
        are read in blocks of at least :data:`CHUNK`, or one by one if the batch is 1. An answer is the sentence as
        CoNLL-U; its values are "words", "heads" and "labels".

        Raises:
            PhmrunError: (exit 3) A line of CoNLL-U is malformed.
        """
        sentences = self._sentences(line.removeprefix("\ufeff") for line in lines)
        for chunk in chunks(sentences, self.decoding.batch, CHUNK):
            for parsed in self.parse(chunk):
                values = {"words": parsed.forms, "heads": parsed.heads, "labels": parsed.deprels}
                yield Answer(parsed.text.removesuffix("\n"), {key: list(value) for key, value in values.items()})

    def evaluate(self, data: TreebankData, split: str) -> Evaluation:
        """Parse a split and score it, together with the neighbor baseline.

        Scores: "uas", "las", "clas", "label-accuracy"; "uas-<part>" and "las-<part>" if the split has parts;
        "…-of-neighbour" if there are training trees. The predictions are the parsed sentences as CoNLL-U. The seconds
        are those of parsing alone.
        """
        gold = data.sentences(split)
        began = time.perf_counter()
        parsed = self.parse(gold, f"parsing {split}")
        seconds = time.perf_counter() - began
        scores = self._scores(gold, parsed, data.treebank.parts.get(split))
        if TRAIN in data.files:
            columns = ((sentence.upos, sentence.heads, sentence.deprels) for sentence in data.sentences(TRAIN))
            arcs = neighbour_baseline(columns, [sentence.upos for sentence in gold])
            baseline = [sentence.with_parse(*trees) for sentence, trees in zip(gold, arcs, strict=True)]
            scores |= {f"{name}-of-neighbour": score for name, score in self._attachment(gold, baseline).items()}
        return Evaluation(
            scores,
            predictions=conllu.dumps(parsed),
            columns=("words", "gold", "parsed"),
            samples=[
                (" ".join(sentence.forms), arcs_of(sentence), arcs_of(other))
                for sentence, other in list(zip(gold, parsed, strict=True))[:SAMPLES]
            ],
            items=len(gold),
            units=sum(map(len, gold)),
            unit="words",
            seconds=seconds,
            signature=f"tree:{self.decoding.tree}|batch:{self.decoding.batch}",
            ending="conllu",
            losses=self.losses(gold),
        )

    @torch.inference_mode()
    def parse(self, sentences: Sequence[Sentence], label: str = "parsing") -> list[Sentence]:
        """Return the sentences, in order, with the network's trees.

        Heads are searched as ``decoding.tree`` says; each arc gets its best label. Trees that the sentences have are
        replaced, and enhanced dependencies removed. Sentences are batched by length, longest first, with a progress
        display named ``label``.
        """
        encoded = self.vocabulary.encode(sentences)
        self.coverage.add(~self.vocabulary.unknown(encoded)[encoded.words != ROOT])
        trees: list[tuple[list[int], list[str]]] = [([], [])] * len(sentences)
        with progress(label, len(sentences), "sentences") as advance:
            for numbers in evaluation_batches(encoded.lengths, unit="sentences", size=self.decoding.batch):
                *inputs, _, _, _ = (torch.from_numpy(item).to(self.device) for item in encoded.padded(numbers))
                scores, lengths = self.network(*inputs), inputs[-1]
                heads = self._heads(scores.arcs, lengths)
                labels = self.network.label_scores(scores, heads).argmax(dim=-1)
                rows = zip(numbers.tolist(), lengths.tolist(), heads.tolist(), labels.tolist(), strict=True)
                for number, length, head, label_ids in rows:
                    names = [self.vocabulary.labels[item] for item in label_ids[1:length]]
                    trees[number] = (head[1:length], names)
                advance(len(numbers))
        # Enhanced dependencies of the input would contradict the new tree.
        return [sentence.with_parse(*tree).without_enhanced() for sentence, tree in zip(sentences, trees, strict=True)]

    @torch.inference_mode()
    def losses(self, gold: Sequence[Sentence]) -> Counts:
        """Return nats and words of each sentence, ``[sentences, 2]``: heads, and labels of the gold heads.

        Labels that the training text lacks have no loss.
        """
        encoded, losses = self.vocabulary.encode(gold), np.zeros((len(gold), 2))
        for numbers in evaluation_batches(encoded.lengths, unit="sentences", size=self.decoding.batch):
            *inputs, heads, labels, words = (torch.from_numpy(item).to(self.device) for item in encoded.padded(numbers))
            scores = self.network(*inputs)
            arcs = possible_arcs(scores.arcs, inputs[-1]).flatten(0, 1).index_select(0, words)
            of_labels = self.network.label_scores(scores, heads, words)
            nats = F.cross_entropy(arcs, heads.flatten()[words], reduction="none")
            nats += F.cross_entropy(of_labels, labels.flatten()[words], reduction="none", ignore_index=NO_LABEL)
            rows = (words // heads.shape[1]).cpu().numpy()
            np.add.at(losses, numbers[rows], np.stack([nats.double().cpu().numpy(), np.ones(len(rows))], axis=1))
        return losses

    def _heads(self, arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return the heads of all words, ``[batch, length]``.

        They form the best trees, or are the best heads if "greedy". Heads beyond a sentence's end are never chosen.
        """
        if self.decoding.tree == "greedy":
            return possible_arcs(arcs, lengths).argmax(dim=-1)
        return spanning_trees(arcs.cpu(), lengths.cpu()).to(self.device)

    def _sentences(self, lines: Iterator[str]) -> Iterator[Sentence]:
        """Yield sentences of CoNLL-U or tokenized text.

        It is CoNLL-U if the first line that is neither blank nor a comment has a tab, else text. Blank lines of text
        are skipped. A note tells that words of text have no tags.

        Raises:
            PhmrunError: (exit 3) A line of CoNLL-U is malformed.
        """
        seen = []
        for line in lines:
            seen.append(line)
            if line.strip() and not line.startswith("#"):
                break
        # Prepended again, since standard input cannot be read twice.
        lines = chain(seen, lines)
        if seen and "\t" in seen[-1]:
            yield from conllu.stream((f"{line}\n" for line in lines), name=self.source)
            return
        note("tokenized text has no part-of-speech tags: expect lower scores than with tags")
        yield from (conllu.sentence_of(line.split()) for line in lines if line.strip())

    def _attachment(self, gold: Sequence[Sentence], parsed: Sequence[Sentence]) -> dict[str, Score]:
        """Return the attachment scores of parsed trees with the settings of decoding."""
        return attachment_scores(gold, parsed, subtypes=self.decoding.subtypes, punctuation=self.decoding.punctuation)

    def _scores(self, gold: Sequence[Sentence], parsed: Sequence[Sentence], parts: Path | None) -> dict[str, Score]:
        """Return the scores of all sentences, and "uas" and "las" of each part.

        ``parts`` is a file with the part of each sentence, one a line; ``None``: there are no parts.
        """
        scores = self._attachment(gold, parsed)
        for part, rows in rows_of_parts(parts, len(gold)):
            of_part = self._attachment([gold[row] for row in rows], [parsed[row] for row in rows])
            scores |= {f"{name}-{part}": score for name, score in of_part.items() if name in ("uas", "las")}
        extra = f"|tree:{self.decoding.tree}|tags:{self.vocabulary.column}|weights:{self.weights}"
        return {name: score.signed(extra) for name, score in scores.items()}


def arcs_of(sentence: Sentence) -> str:
    """Return the arcs of a sentence on one line.

    An arc is word→head:label, such as ``the→dog:det``.
    """
    forms = ("ROOT", *sentence.forms)
    arcs = zip(sentence.forms, sentence.heads, sentence.deprels, strict=True)
    return " ".join(f"{form}→{forms[head]}:{label}" for form, head, label in arcs)


def commonest_arcs(sentences: Iterable[TreeColumns]) -> dict[str, tuple[int, str]]:
    """Return the most frequent arc of each universal tag.

    An arc is the offset of the head, and the relation. An offset of 0 is the root; ties take the smallest arc.
    """
    counts: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
    for upos, heads, deprels in sentences:
        for number, (tag, head, deprel) in enumerate(zip(upos, heads, deprels, strict=True), 1):
            counts[tag][(head - number if head else 0, deprel)] += 1
    return {tag: min(row, key=lambda arc: (-row[arc], arc)) for tag, row in counts.items()}


def neighbour_baseline(
    train: Iterable[TreeColumns], upos: Iterable[Sequence[str]]
) -> list[tuple[list[int], list[str]]]:
    """Return heads and labels by each word's tag.

    They are the tag's most frequent arc in training. If that head is the root or outside the sentence, a word attaches
    to the root if the label is "root", else to the word before it. The first word then attaches to the root. Unknown
    tags attach to the word before, with the label "dep". The result may have several roots or cycles.
    """
    arcs = commonest_arcs(train)
    parses = []
    for tags in upos:
        arcs_of_tags = [arcs.get(tag, (-1, "dep")) for tag in tags]
        heads = [
            number + ahead if ahead and 0 < number + ahead <= len(tags) else 0 if label == "root" else number - 1
            for number, (ahead, label) in enumerate(arcs_of_tags, 1)
        ]
        parses.append((heads, [label for _, label in arcs_of_tags]))
    return parses


def read_items(run: Run, split: str, part: str) -> Items | None:
    """Return words, correct heads and correct arcs of each sentence.

    The result is ``None`` for a part. The run's predictions are compared with the trees of its data, with its settings
    for subtypes and punctuation.

    Raises:
        PhmrunError: (exit 3) The predictions or the data are missing, or differ in their words.
    """
    if part:
        return None
    config = load_run_config(run.config_path)
    parsed = conllu.load(run.predictions / f"{split}.conllu", checked=False)  # greedy heads need not form trees
    decoding = config.decoding  # type: ignore[attr-defined]
    gold = build_data(config).sentences(split)  # type: ignore[attr-defined]
    counts = sentence_counts(gold, parsed, decoding.subtypes, decoding.punctuation)
    return Items(counts, checksum([conllu.dumps(gold)]))
