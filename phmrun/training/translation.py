"""A trained sequence-to-sequence model at work: text in, text out, and scores of a test set."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import torch

from phmrun.decoding.hypothesis import Hypothesis
from phmrun.decoding.translation import translate
from phmrun.layers.inference import resolve_application
from phmrun.layers.linear import Application
from phmrun.metrics import Score, bleu, chrf
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.transformer import Transformer
from phmrun.text.parallel import read_parallel
from phmrun.text.vocabulary import BOS, EOS, PAD, Vocabularies
from phmrun.training.parallel import Baseline

SAMPLES = 8
CHUNK = 512
"""Lines of a stream that are sorted by length and translated together."""


@dataclass(frozen=True)
class Search:
    """How outputs are searched for.

    Attributes:
        beam: Hypotheses kept per sentence; 1 is greedy.
        alpha: Exponent of the length penalty.
        max_length_ratio: Most target tokens per source token.
        max_length_offset: Target tokens allowed beyond that.
        batch: Sentences at a time; does not change the results.
        nbest: Hypotheses returned per sentence.
        application: How the decoder applies its weights; "auto": by batch × beam.
    """

    beam: int = 5
    alpha: float = 0.6
    max_length_ratio: float = 1.5
    max_length_offset: int = 10
    batch: int = 64
    nbest: int = 1
    application: Literal["auto", "dense", "factored"] = "auto"

    def resolved(self) -> "Search":
        """The same search with ``application`` decided."""
        return replace(self, application=resolve_application(self.application, self.batch * self.beam))

    def parts(self) -> tuple[Application, Application]:
        """How decoder and encoder apply their weights; one sentence is few enough tokens for factors, more are not."""
        decoder: Application = "factored" if self.resolved().application == "factored" else "dense"
        return decoder, decoder if self.batch == 1 else "dense"

    def signature(self) -> str:
        """What of the search a score depends on, as ``key:value`` pairs."""
        limit = f"{self.max_length_ratio:g}x+{self.max_length_offset}"
        application = self.application if self.parts()[1] == "dense" else "factored-throughout"
        return f"beam:{self.beam}|alpha:{self.alpha:g}|limit:{limit}|application:{application}"


@dataclass(frozen=True)
class Evaluation:
    """What a test set gave.

    Attributes:
        scores: By name: "bleu", "chrf", "bleu-<part>", "bleu-of-<baseline>".
        hypotheses: Translations in the order of the test set, one per sentence.
        samples: (source, reference, translation) of the first few.
        seconds: Time of decoding.
        tokens: Target tokens decoded.
    """

    scores: dict[str, Score]
    hypotheses: list[str]
    samples: list[tuple[str, str, str]]
    seconds: float
    tokens: int


class Translator:
    """Translates text with a trained Transformer.

    Args:
        network: The trained network; it is copied, not changed.
        vocabularies: Of the run.
        search: How to search.
        weights: Which of the run's weights these are, for the signature of a score.
        device: Where to compute.
    """

    def __init__(
        self,
        network: Transformer,
        vocabularies: Vocabularies,
        search: Search,
        weights: str = "given",
        device: torch.device | str = "cpu",
    ) -> None:
        self.vocabularies = vocabularies
        self.weights = weights
        self.search = search.resolved()
        self.device = device
        self.decoder = IncrementalTransformer(network, PAD, *self.search.parts()).to(device)

    def hypotheses(self, lines: Sequence[str], label: str = "translating") -> list[list[Hypothesis]]:
        """The best hypotheses of each line, best first; a blank line has the empty one."""
        encoded = self.vocabularies.source.encode_all(list(lines))
        return translate(
            self.decoder,
            [[*tokens, EOS] if tokens else [] for tokens in encoded],
            beam=self.search.beam,
            alpha=self.search.alpha,
            bos=BOS,
            eos=EOS,
            pad=PAD,
            nbest=self.search.nbest,
            max_length_ratio=self.search.max_length_ratio,
            max_length_offset=self.search.max_length_offset,
            batch=self.search.batch,
            device=self.device,
            label=label,
        )

    def predict(self, lines: Iterable[str]) -> Iterator[str | list[str]]:
        """Translations of a stream of lines, in order; lists of them where several are asked for."""
        stream = iter(lines)
        size = 1 if self.search.batch == 1 else max(CHUNK, self.search.batch)
        while chunk := list(islice(stream, size)):
            for found in self.hypotheses(chunk):
                texts = [self.vocabularies.target.decode(hypothesis.tokens) for hypothesis in found]
                yield texts if self.search.nbest > 1 else texts[0]

    def evaluate(
        self, files: tuple[Path, Path], parts: Path | None = None, baselines: Mapping[str, Baseline] | None = None
    ) -> Evaluation:
        """Translates a test set and scores it.

        Args:
            files: Its source text and its reference translations.
            parts: Names, line by line, of parts that are scored apart as well.
            baselines: Outputs that need no model, by name, scored as "bleu-of-<name>".
        """
        pairs = list(read_parallel(*files))
        sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        began = time.perf_counter()
        found = self.hypotheses(sources)
        seconds = time.perf_counter() - began
        outputs = [self.vocabularies.target.decode(hypotheses[0].tokens) for hypotheses in found]
        scores = self._scores(outputs, references, parts)
        for name, translate_without_model in (baselines or {}).items():
            scores[f"bleu-of-{name}"] = bleu(translate_without_model(sources), references)
        samples = list(zip(sources, references, outputs, strict=True))[:SAMPLES]
        return Evaluation(scores, outputs, samples, seconds, sum(len(best[0].tokens) + 1 for best in found))

    def _scores(self, outputs: Sequence[str], references: Sequence[str], parts: Path | None) -> dict[str, Score]:
        scores = {"bleu": bleu(outputs, references), "chrf": chrf(outputs, references)}
        names = parts.read_text(encoding="utf-8").split("\n")[: len(outputs)] if parts else []
        for part in sorted(set(names)):
            rows = [row for row, name in enumerate(names) if name == part]
            scores[f"bleu-{part}"] = bleu([outputs[row] for row in rows], [references[row] for row in rows])
        extra = f"{self.search.signature()}|weights:{self.weights}"
        return {name: replace(score, signature=f"{score.signature}|{extra}") for name, score in scores.items()}


def search_from(decoding: Any, overrides: Mapping[str, Any]) -> Search:
    """The search that a config's decoding section describes, with some settings replaced."""
    names = ("beam", "alpha", "max_length_ratio", "max_length_offset", "batch", "nbest", "application")
    values = {name: getattr(decoding, name) for name in names}
    return Search(**{**values, **{name: value for name, value in overrides.items() if value is not None}})
