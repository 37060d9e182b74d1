"""A trained parser at work: CoNLL-U or tokenised text in, trees in CoNLL-U out, and attachment scores of a split."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch

from phmrun.decoding.spanning_tree import spanning_trees
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import Answer, Evaluation
from phmrun.layers import for_inference
from phmrun.metrics import Score
from phmrun.metrics.parsing import attachment_scores
from phmrun.progress import note, progress
from phmrun.tasks.parse.biaffine_parser import BiaffineParser
from phmrun.tasks.parse.config import ParsingExperiment
from phmrun.tasks.parse.data import TRAIN, TreebankData
from phmrun.tasks.parse.module import possible_arcs
from phmrun.tasks.parse.vocabulary import TreebankVocabulary
from phmrun.text import conllu
from phmrun.text.conllu import Sentence

TreeColumns = tuple[Sequence[str], Sequence[int], Sequence[str]]
"""Of a sentence's words the universal tags, the heads (0 for the root) and the relations."""
SAMPLES = 8
CHUNK = 1024  # sentences of a stream that are sorted by length and parsed together


@dataclass(frozen=True)
class Search:
    """How trees are found and scored."""

    tree: Literal["mst", "greedy"] = "mst"  # "mst": the best tree with a single root; "greedy": each word's best head
    subtypes: bool = False  # whether labels are scored with their subtypes
    punctuation: bool = True  # whether words that consist of punctuation are scored
    input: Literal["auto", "conllu", "text"] = "auto"  # what text is: "conllu", "text" (a sentence a line), or "auto"
    batch: int = 64  # sentences at a time; does not change the results


class TreeParser:
    """Parses sentences with a trained network.

    The network is copied, not changed; ``weights`` says which of the run's these are, for the signature of a score.
    """

    prompt = "one tokenised sentence a line, or CoNLL-U with a blank line after each sentence"
    exact = True

    def __init__(
        self,
        network: BiaffineParser,
        vocabulary: TreebankVocabulary,
        search: Search,
        weights: str = "given",
        device: torch.device | str = "cpu",
    ) -> None:
        self.network = for_inference(network).to(device)
        self.vocabulary, self.search = vocabulary, search
        self.weights, self.device = weights, torch.device(device)
        self._searching = 0.0

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Trees of a stream of sentences, in order; whatever else a CoNLL-U sentence holds stays as it is.

        Raises:
            PhmrunError: (exit 3) A line of CoNLL-U is malformed.
        """
        sentences = self._sentences(iter(lines))
        size = 1 if self.search.batch == 1 else max(CHUNK, self.search.batch)
        while chunk := list(islice(sentences, size)):
            for parsed in self.parse(chunk):
                values = {"words": parsed.forms, "heads": parsed.heads, "labels": parsed.deprels}
                yield Answer(parsed.text.removesuffix("\n"), {key: list(value) for key, value in values.items()})

    def evaluate(self, data: TreebankData, split: str) -> Evaluation:
        """Parses a split and scores it: "uas", "las", "clas", "label-accuracy"; "…-<part>"; "…-of-neighbour".

        The baseline hangs each word where most words of its tag hang in training, where there are training trees.
        """
        gold = data.sentences(split)
        self._searching, began = 0.0, time.perf_counter()
        parsed = self.parse(gold, f"parsing {split}")
        seconds = time.perf_counter() - began
        note(f"the search for trees took {self._searching / seconds:.0%} of the time of parsing {split}")
        scores = self._scores(gold, parsed, data.treebank.parts.get(split))
        if TRAIN in data.files:
            columns = ((each.upos, each.heads, each.deprels) for each in data.sentences(TRAIN))
            arcs = neighbour_baseline(columns, [each.upos for each in gold])
            baseline = [each.with_parse(*trees) for each, trees in zip(gold, arcs, strict=True)]
            scores |= {f"{name}-of-neighbour": score for name, score in self._attachment(gold, baseline).items()}
        return Evaluation(
            scores,
            predictions=conllu.dumps(parsed),
            columns=("words", "gold", "parsed"),
            samples=[
                (" ".join(each.forms), arcs_of(each), arcs_of(other))
                for each, other in list(zip(gold, parsed, strict=True))[:SAMPLES]
            ],
            items=len(gold),
            units=sum(map(len, gold)),
            unit="words",
            seconds=seconds,
            signature=f"tree:{self.search.tree}|batch:{self.search.batch}",
            ending="conllu",
        )

    @torch.inference_mode()
    def parse(self, sentences: Sequence[Sentence], label: str = "parsing") -> list[Sentence]:
        """The sentences with the trees that the network gives them."""
        encoded = self.vocabulary.encode(sentences)
        order = np.argsort(-encoded.lengths, kind="stable")
        trees: list[tuple[list[int], list[str]]] = [([], [])] * len(sentences)
        with progress(label, len(sentences), "sentences") as advance:
            for start in range(0, len(order), self.search.batch):
                numbers = order[start : start + self.search.batch]
                *inputs, _, _, _ = (torch.from_numpy(each).to(self.device) for each in encoded.padded(numbers))
                scores, lengths = self.network(*inputs), inputs[-1]
                heads = self._heads(scores.arcs, lengths)
                labels = self.network.label_scores(scores, heads).argmax(dim=-1)
                rows = zip(numbers.tolist(), lengths.tolist(), heads.tolist(), labels.tolist(), strict=True)
                for number, length, head, label_ids in rows:
                    names = [self.vocabulary.labels[each] for each in label_ids[1:length]]
                    trees[number] = (head[1:length], names)
                advance(len(numbers))
        # Enhanced dependencies, which the input may have, would contradict the new tree.
        return [sentence.with_parse(*tree).without_enhanced() for sentence, tree in zip(sentences, trees, strict=True)]

    def _heads(self, arcs: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Heads of all words, ``[batch, length]``; the time that the search takes is kept."""
        arcs = arcs.cpu()  # where trees are searched for; the network's part is over then
        began = time.perf_counter()
        greedy = self.search.tree == "greedy"
        heads = possible_arcs(arcs, lengths.cpu()).argmax(dim=-1) if greedy else spanning_trees(arcs, lengths.cpu())
        self._searching += time.perf_counter() - began
        return heads.to(self.device)

    def _sentences(self, lines: Iterator[str]) -> Iterator[Sentence]:
        """Sentences of CoNLL-U, which has tabs in its first line that is no comment, or of tokenised text."""
        kind = self.search.input
        if kind == "auto":
            seen = []
            for line in lines:
                seen.append(line)
                if line.strip() and not line.startswith("#"):
                    break
            kind = "conllu" if seen and "\t" in seen[-1] else "text"
            # Put back in front: standard input cannot be read twice.
            lines = chain(seen, lines)
        if kind == "text":
            note("tokenised text has no part-of-speech tags: expect lower scores than with them")
            yield from (conllu.sentence_of(line.split()) for line in lines if line.strip())
            return
        told = False
        for sentence in conllu.stream((f"{line}\n" for line in lines), name="input"):
            if not told and conllu.EMPTY in self.vocabulary.tags_of(sentence):
                column = self.vocabulary.column.upper()
                note(f"words without a tag in the column {column}: expect lower scores than with tags")
                told = True
            yield sentence

    def _attachment(self, gold: Sequence[Sentence], parsed: Sequence[Sentence]) -> dict[str, Score]:
        return attachment_scores(gold, parsed, subtypes=self.search.subtypes, punctuation=self.search.punctuation)

    def _scores(self, gold: Sequence[Sentence], parsed: Sequence[Sentence], parts: Path | None) -> dict[str, Score]:
        """Of all sentences and of each part."""
        scores = self._attachment(gold, parsed)
        names = parts.read_text(encoding="utf-8").split("\n")[: len(gold)] if parts else []
        for part in sorted(set(names)):
            rows = [row for row, name in enumerate(names) if name == part]
            of_part = self._attachment([gold[row] for row in rows], [parsed[row] for row in rows])
            scores |= {f"{name}-{part}": score for name, score in of_part.items() if name in ("uas", "las")}
        extra = f"tree:{self.search.tree}|tags:{self.vocabulary.column}|weights:{self.weights}"
        return {name: replace(score, signature=f"{score.signature}|{extra}") for name, score in scores.items()}


def arcs_of(sentence: Sentence) -> str:
    """The arcs of a sentence on one line: ``the→dog:det``."""
    forms = ("ROOT", *sentence.forms)
    arcs = zip(sentence.forms, sentence.heads, sentence.deprels, strict=True)
    return " ".join(f"{form}→{forms[head]}:{label}" for form, head, label in arcs)


def commonest_arcs(sentences: Iterable[TreeColumns]) -> dict[str, tuple[int, str]]:
    """By universal tag the commonest arc of its words: how many words ahead the head is, and the relation."""
    counts: dict[str, Counter[tuple[int, str]]] = defaultdict(Counter)
    for upos, heads, deprels in sentences:
        for number, (tag, head, deprel) in enumerate(zip(upos, heads, deprels, strict=True), 1):
            counts[tag][(head - number if head else 0, deprel)] += 1
    return {tag: min(row, key=lambda arc: (-row[arc], arc)) for tag, row in counts.items()}


def neighbour_baseline(
    train: Iterable[TreeColumns], upos: Iterable[Sequence[str]]
) -> list[tuple[list[int], list[str]]]:
    """Heads and labels that need no model: each word's arc is the commonest of its tag in training.

    So a determiner hangs from the next word and a preposition from the one after that. Words whose arc would leave the
    sentence hang from the word before them, the first from the root; such a "tree" may have several roots or cycles.
    """
    arcs = commonest_arcs(train)
    parses = []
    for tags in upos:
        found = [arcs.get(tag, (-1, "dep")) for tag in tags]
        heads = [
            number + ahead if ahead and 0 < number + ahead <= len(tags) else 0 if label == "root" else number - 1
            for number, (ahead, label) in enumerate(found, 1)
        ]
        parses.append((heads, [label for _, label in found]))
    return parses


def build_predictor(
    config: ParsingExperiment,
    module: TrainingModule,
    vocabulary: TreebankVocabulary,
    *,
    batch_size: int | None,
    **options: str,
) -> TreeParser:
    """The predictor of a trained module; ``options`` are ``weights`` and ``device``."""
    search = Search(**{**config.decoding.model_dump(), "batch": batch_size or config.decoding.batch})
    return TreeParser(cast(BiaffineParser, module.network), vocabulary, search, **options)
