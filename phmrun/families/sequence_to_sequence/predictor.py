"""A trained sequence-to-sequence model at work: text in, text out, and scores of a test set."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

import torch

from phmrun.decoding.beam import Hypothesis, Penalty
from phmrun.decoding.ctranslate2 import CTranslate2Model
from phmrun.decoding.search import by_length, translate
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import Answer, Evaluation
from phmrun.families.sequence_to_sequence.config import DecodingConfig, SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.data import ParallelData
from phmrun.layers.inference import Choice, resolve_application
from phmrun.metrics import Score, bleu, chrf, sentence_bleu, sentence_bleu_nltk
from phmrun.models.ctranslate2 import Quantization, converted
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.transformer import EncoderDecoder
from phmrun.progress import note
from phmrun.text.lines import read_parallel
from phmrun.text.token_names import token_names
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import BOS, EOS, PAD

Measure = Callable[[Sequence[str], Sequence[str]], Score]
Engine = Literal["torch", "ctranslate2"]
Kernels = Literal["measured", "fixed"]

SAMPLES = 8
CHUNK = 512
"""Lines of a stream that are sorted by length and translated together."""


@dataclass(frozen=True)
class Search:
    """How outputs are searched for; see :class:`DecodingConfig`, whose names these are.

    ``batch`` does not change the results. ``kernels`` says whether predictions take the kernels that are measured to be
    the fastest; scores never do.
    """

    beam: int = 5
    alpha: float = 0.6
    max_length_ratio: float = 1.5
    max_length_offset: int = 10
    batch: int = 64
    nbest: int = 1
    application: Literal["auto", Choice] = "auto"
    penalty: Penalty = "gnmt"
    engine: Engine = "torch"
    quantization: Quantization = "none"
    kernels: Kernels = "measured"

    def resolved(self) -> "Search":
        """The same search with ``application`` decided, and the penalty that the engine knows."""
        application = resolve_application(self.application, self.batch * self.beam)
        return replace(self, application=application, penalty="power" if self.engine == "ctranslate2" else self.penalty)

    def parts(self) -> tuple[Choice, Choice]:
        """How decoder and encoder apply their weights; one sentence is few enough tokens for factors, more are not."""
        decoder = resolve_application(self.application, self.batch * self.beam)
        return decoder, decoder if self.batch == 1 else "dense"

    @property
    def directory(self) -> str:
        """The name of the directory of a model that is converted for the engine."""
        return self.engine if self.quantization == "none" else f"{self.engine}-{self.quantization}"

    def signature(self) -> str:
        """What of the search a score depends on, as ``key:value`` pairs."""
        penalty = "" if self.penalty == "gnmt" else f"|penalty:{self.penalty}"
        limit = f"{self.max_length_ratio:g}x+{self.max_length_offset}"
        application = self.application if self.parts()[1] == "dense" else f"{self.application}-throughout"
        applied = f"|application:{application}" if self.engine == "torch" else ""
        return f"beam:{self.beam}|alpha:{self.alpha:g}{penalty}|limit:{limit}{applied}"


class Translator:
    """Translates text with a trained Transformer.

    Args:
        network: The trained network; it is copied, not changed.
        weights: Which of the run's weights these are, for the signature of a score.
        sentence_bleu: Whether to score the mean BLEU of single sentences too.
        exports: Where a model that is converted for another engine is kept.
    """

    prompt = "one sentence a line"

    def __init__(
        self,
        network: EncoderDecoder,
        vocabularies: Vocabularies,
        search: Search,
        weights: str = "given",
        device: torch.device | str = "cpu",
        sentence_bleu: bool = False,
        exports: Path = Path("exports"),
    ) -> None:
        self.vocabularies = vocabularies
        self.weights = weights
        self.search = search.resolved()
        self.device = device
        self.sentence_bleu = sentence_bleu
        self.directory = exports / search.directory
        self.decoder: IncrementalTransformer | CTranslate2Model
        if self.search.engine == "torch":
            self.decoder = IncrementalTransformer(network, PAD, *self.search.parts()).to(device)
        else:
            self.decoder = converted_model(network, vocabularies, self.directory, search.quantization, device)

    @property
    def signature(self) -> str:
        """What of the search and of its engine a score depends on, as ``key:value`` pairs."""
        engine = f"|{self.decoder.signature}" if isinstance(self.decoder, CTranslate2Model) else ""
        return f"{self.search.signature()}{engine}"

    def hypotheses(
        self, lines: Sequence[str], label: str = "translating", kernels: Kernels = "fixed"
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each line, best first; a blank line has the empty one."""
        encoded = self.vocabularies.source.encode_all(list(lines))
        sources = [[*tokens, EOS] if tokens else [] for tokens in encoded]
        search, decoder = self.search, self.decoder
        if isinstance(decoder, CTranslate2Model):
            settings: dict[str, Any] = {"beam": search.beam, "alpha": search.alpha, "nbest": search.nbest}
            return by_length(
                sources,
                lambda indices, limits: decoder.search([encoded[index] for index in indices], limits, **settings),
                batch=search.batch,
                ratio=search.max_length_ratio,
                offset=search.max_length_offset,
                label=label,
            )
        # Kernels chosen by measuring depend on the machine; scores take the fixed ones.
        decoder.measured_kernels = kernels == "measured"
        return translate(
            decoder,
            sources,
            beam=search.beam,
            alpha=search.alpha,
            bos=BOS,
            eos=EOS,
            pad=PAD,
            nbest=search.nbest,
            penalty=search.penalty,
            max_length_ratio=search.max_length_ratio,
            max_length_offset=search.max_length_offset,
            batch=search.batch,
            device=self.device,
            label=label,
        )

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Translations of a stream of lines, in order; several lines each where several hypotheses are asked for."""
        stream = iter(lines)
        size = 1 if self.search.batch == 1 else max(CHUNK, self.search.batch)
        while chunk := list(islice(stream, size)):
            for found in self.hypotheses(chunk, kernels=self.search.kernels):
                texts = [self.vocabularies.target.decode(hypothesis.tokens) for hypothesis in found]
                yield Answer("\n".join(texts), {"prediction": texts if self.search.nbest > 1 else texts[0]})

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line."""
        return [self.vocabularies.target.decode(found[0].tokens) for found in self.hypotheses(lines)]

    def evaluate(self, data: ParallelData, split: str) -> Evaluation:
        """Translates a split and scores it: "bleu", "chrf", "bleu-<part>", "bleu-of-<baseline>".

        Then what the task measures of outputs by their sources, also of baselines and references; and where they are
        asked for, "sentence-bleu", "sentence-bleu-nltk" and those of the baselines.
        """
        pairs = list(read_parallel(*data.files[split]))
        sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        began = time.perf_counter()
        found = self.hypotheses(sources)
        seconds = time.perf_counter() - began
        outputs = [self.vocabularies.target.decode(hypotheses[0].tokens) for hypotheses in found]
        scores = self._scores(outputs, references, data.parts.get(split))
        beside = {name: baseline(sources) for name, baseline in data.baselines.items()}
        for name, unlearnt in beside.items():
            scores |= {f"{key}-of-{name}": measure(unlearnt, references) for key, measure in self._measures.items()}
        scores |= self._source_scores(data, sources, {"": outputs, **beside, "reference": references})
        return Evaluation(
            scores,
            predictions="".join(f"{line}\n" for line in outputs),
            columns=("source", "reference", "translation"),
            samples=list(zip(sources, references, outputs, strict=True))[:SAMPLES],
            items=len(outputs),
            units=sum(len(best[0].tokens) + 1 for best in found),
            unit="tokens",
            seconds=seconds,
            signature=f"{self.signature}|batch:{self.search.batch}",
        )

    def _scores(self, outputs: Sequence[str], references: Sequence[str], parts: Path | None) -> dict[str, Score]:
        measures = {**self._measures, "chrf": chrf}
        scores = {key: measure(outputs, references) for key, measure in measures.items()}
        names = parts.read_text(encoding="utf-8").split("\n")[: len(outputs)] if parts else []
        for part in sorted(set(names)):
            rows = [row for row, name in enumerate(names) if name == part]
            scores[f"bleu-{part}"] = bleu([outputs[row] for row in rows], [references[row] for row in rows])
        extra = f"{self.signature}|weights:{self.weights}"
        return {name: replace(score, signature=f"{score.signature}|{extra}") for name, score in scores.items()}

    def _source_scores(
        self, data: ParallelData, sources: Sequence[str], texts: Mapping[str, Sequence[str]]
    ) -> dict[str, Score]:
        """What the task measures of outputs by their sources, of each of these texts by name; the model's has none."""
        scores: dict[str, Score] = {}
        for key, measure in data.measures.items():
            try:
                found = {name: measure(sources, text) for name, text in texts.items()}
            except ModuleNotFoundError as error:
                note(f"without the score {key}: it needs {error.name} (pip install 'phmrun[baselines]')")
                continue
            signature = f"{found[''].signature}|{self.signature}|weights:{self.weights}"
            scores |= {f"{key}-of-{name}": score for name, score in found.items() if name}
            scores[key] = replace(found[""], signature=signature)
        return scores

    @property
    def _measures(self) -> dict[str, Measure]:
        """What baselines are scored by too."""
        sentences: dict[str, Measure] = {"sentence-bleu": sentence_bleu, "sentence-bleu-nltk": sentence_bleu_nltk}
        return {"bleu": bleu, **(sentences if self.sentence_bleu else {})}


def converted_model(
    network: EncoderDecoder,
    vocabularies: Vocabularies,
    directory: Path,
    quantization: Quantization,
    device: torch.device | str = "cpu",
) -> CTranslate2Model:
    """The network in the engine CTranslate2, converted once and kept in ``directory``.

    Raises:
        PhmrunError: The library is missing.
    """
    return CTranslate2Model(
        converted(network, vocabularies, directory, quantization),
        token_names(vocabularies.target),
        token_names(vocabularies.source),
        arithmetic="float32" if quantization == "none" else quantization,
        device=device,
    )


def search_from(decoding: DecodingConfig, batch_size: int | None = None) -> Search:
    """The search that a config's decoding section describes; ``batch_size`` replaces its batch."""
    values = decoding.model_dump(exclude={"sentence_bleu"})
    return Search(**{**values, "batch": batch_size or decoding.batch})


def build_translator(
    config: SequenceToSequenceExperiment,
    module: TrainingModule,
    vocabulary: Vocabularies,
    *,
    weights: str,
    batch_size: int | None,
    device: str,
    exports: Path,
) -> Translator:
    """The predictor of a sequence-to-sequence task; of ``batch_size`` sentences at a time, where that is given."""
    search, sentence_bleu = search_from(config.decoding, batch_size), config.decoding.sentence_bleu
    return Translator(cast(EncoderDecoder, module.network), vocabulary, search, weights, device, sentence_bleu, exports)
