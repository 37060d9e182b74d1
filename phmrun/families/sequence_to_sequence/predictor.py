"""Predictor of sequence-to-sequence models: outputs for text, and scores of a test set."""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch.nn import functional as F

from phmrun.decoding.beam import Hypothesis
from phmrun.decoding.search import by_length, translate
from phmrun.decoding.step import StepDecoder
from phmrun.engine.predictor import Answer, Evaluation, Predictor
from phmrun.exchange.ctranslate2 import Quantization, converted, longest_line
from phmrun.exchange.ctranslate2_engine import CTranslate2Model
from phmrun.families.sequence_to_sequence.config import DecodingConfig, SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.data import ParallelData, parallel_batch
from phmrun.layers import for_inference
from phmrun.layers.inference import Choice, resolve_application
from phmrun.metrics import Score, bleu, bleu_obstacle, chrf
from phmrun.metrics import sentence_bleu as sentence_bleu_of_all
from phmrun.metrics import sentence_bleu_nltk as sentence_bleu_nltk_of_all
from phmrun.metrics.bootstrap import Counts
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.transformer import EncoderDecoder
from phmrun.progress import note
from phmrun.text.batches import chunks, evaluation_batches
from phmrun.text.lines import read_parallel, rows_of_parts
from phmrun.text.token_names import token_names
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import EOS, PAD, UNK

_LOG = logging.getLogger(__name__)
Measure = Callable[[Sequence[str], Sequence[str]], Score]
Kernels = Literal["measured", "fixed"]

SAMPLES = 8
SCORED = 32  # references scored together
CHUNK = 512
"""Lines of a stream sorted by length and translated together."""


class Translator(Predictor[EncoderDecoder | None, Vocabularies, ParallelData]):
    """Translator of text with a trained encoder–decoder.

    Args:
        network: Trained network; it is copied, not changed. None with a ``decoder``: lines that are too long for
            CTranslate2 are left empty.
        vocabulary: Vocabularies of both sides.
        decoding: Settings of search and scores; ``application`` "auto" is resolved for batch × beam hypotheses, and the
            penalty of CTranslate2 is "power".
        weights: Name of the run's weights, for the signature of scores.
        device: Device of the network.
        exports: Directory of models that are converted for another engine.
        tokenizer: BLEU's tokenizer.
        decoder: Loaded model of another engine, in place of ``network``; None: the network.
    """

    prompt = "one sentence a line"

    def __init__(
        self,
        network: EncoderDecoder | None,
        vocabulary: Vocabularies,
        decoding: DecodingConfig,
        weights: str = "given",
        device: torch.device | str = "cpu",
        exports: Path = Path("exports"),
        tokenizer: str = "13a",
        decoder: CTranslate2Model | None = None,
    ) -> None:
        super().__init__(network, vocabulary, weights, device)
        penalty = "power" if decoding.engine == "ctranslate2" else decoding.penalty
        forms = applications(decoding)
        self.search = decoding.model_copy(update={"application": forms[0], "penalty": penalty})
        self.encoder_application = forms[1]
        self.tokenizer = tokenizer
        self.measures: dict[str, Measure] = {"bleu": partial(bleu, tokenizer=tokenizer)}
        if decoding.sentence_bleu:
            self.measures["sentence-bleu"] = partial(sentence_bleu_of_all, tokenizer=tokenizer)
        if decoding.sentence_bleu_nltk:
            self.measures["sentence-bleu-nltk"] = sentence_bleu_nltk_of_all
        self.decoder: IncrementalTransformer | CTranslate2Model
        if decoder is not None or network is None:
            self.decoder = cast(CTranslate2Model, decoder)
        elif decoding.engine == "torch":
            self.decoder = IncrementalTransformer(network, PAD, *forms).to(device)
            self.decoder.in_bfloat16 = decoding.quantization == "bfloat16"
        else:
            self.decoder = converted_model(network, vocabulary, exports, decoding.quantization, device)

    @classmethod
    def settings(cls, config: SequenceToSequenceExperiment, batch_size: int | None) -> dict[str, Any]:
        """Return the decoding section and BLEU's tokenizer; see :meth:`Predictor.settings`."""
        return {**super().settings(config, batch_size), "tokenizer": config.tokenizer}

    @property
    def signature(self) -> str:
        """Settings of search and engine that affect scores, as ``key:value|…``.

        The penalty is left out if it is "gnmt", the application for another engine than torch. If the encoder has the
        decoder's form and it is not dense, the application ends with "-throughout".
        """
        search, torchs = self.search, self.search.engine == "torch"
        penalty = "" if search.penalty == "gnmt" else f"|penalty:{search.penalty}"
        limit = f"{search.max_length_ratio:g}x+{search.max_length_offset}"
        throughout = "" if self.encoder_application == "dense" else "-throughout"
        applied = f"|application:{search.application}{throughout}" if torchs else ""
        applied += "|arithmetic:bfloat16" if torchs and search.quantization == "bfloat16" else ""
        applied += f"|{self.decoder.signature}" if isinstance(self.decoder, CTranslate2Model) else ""
        return f"beam:{search.beam}|alpha:{search.alpha:g}{penalty}|limit:{limit}{applied}"

    def hypotheses(self, lines: Sequence[str], kernels: Kernels = "fixed", first: int = 1) -> list[list[Hypothesis]]:
        """Return the hypotheses of each line, best first.

        There are ``nbest`` of each line; a blank line has the empty hypothesis. CTranslate2 searches by itself and
        ignores ``kernels``. Lines that are too long for it, or have such an output, are translated by the network, and
        named in a warning.

        Args:
            lines: Source sentences.
            kernels: "measured" lets dense maps on a CPU use packed weights, which were measured to be faster.
            first: Number of the first line, for the warning.
        """
        # A line of white space alone is blank, as in training.
        encoded = self.vocabulary.source.encode_all([line if line.strip() else "" for line in lines])
        for tokens in encoded:
            self.coverage.add(token != UNK for token in tokens)
        sources = [[*tokens, EOS] if tokens else [] for tokens in encoded]
        decoder, penalty = self.decoder, self.search.penalty
        settings: dict[str, Any] = self.search.model_dump(include={"beam", "alpha", "nbest"})
        limits: dict[str, Any] = self.search.model_dump(include={"batch", "max_length_ratio", "max_length_offset"})
        if isinstance(decoder, CTranslate2Model):
            longest = decoder.longest or math.inf
            results = by_length(
                [tokens if len(tokens) <= longest else [] for tokens in sources],
                lambda indices, most: decoder.search([encoded[index] for index in indices], most, **settings),
                **limits,
            )
            long = [
                row
                for row, (tokens, best) in enumerate(zip(sources, results, strict=True))
                if len(tokens) > longest or any(len(hypothesis.tokens) + 1 >= longest for hypothesis in best)
            ]
            return self._without_limit(lines, long, results, first) if long else results
        # Packed weights depend on the processor; scores use fixed kernels.
        decoder.measured_kernels = kernels == "measured"
        network = cast(StepDecoder[Any], decoder)
        return translate(network, sources, penalty=penalty, device=self.device, **settings, **limits)

    def _without_limit(
        self, lines: Sequence[str], long: Sequence[int], results: list[list[Hypothesis]], first: int
    ) -> list[list[Hypothesis]]:
        """Translate the rows ``long`` of ``lines`` by the network; return ``results`` with these outputs."""
        numbers = ", ".join(str(first + row) for row in long[:SAMPLES]) + (", …" if len(long) > SAMPLES else "")
        instead = "left empty" if self.network is None else "translated by torch"
        longest = cast(CTranslate2Model, self.decoder).longest
        _LOG.warning("longer than the %d tokens of CTranslate2, %s: line %s", longest, instead, numbers)
        if self.network is None:
            return results
        search = self.search.model_copy(update={"engine": "torch", "quantization": "none"})
        exact = Translator(self.network, self.vocabulary, search, device=self.device)
        for row, best in zip(long, exact.hypotheses([lines[row] for row in long]), strict=True):
            results[row] = best
        return results

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield the translation of each line, in order.

        An answer has ``nbest`` lines, empty ones after the last hypothesis; its value "prediction" is one text, or the
        list of all hypotheses if ``nbest`` is above 1. Lines are read in chunks of 512, or of a larger ``batch``; one
        by one if ``batch`` is 1. The kernels are those of the search.
        """
        first = 1
        for chunk in chunks(lines, self.search.batch, CHUNK):
            for hypotheses in self.hypotheses(chunk, kernels=self.search.kernels, first=first):
                texts = [self.vocabulary.target.decode(hypothesis.tokens) for hypothesis in hypotheses]
                filled = [*texts, *[""] * (self.search.nbest - len(texts))]
                yield Answer("\n".join(filled), {"prediction": texts if self.search.nbest > 1 else texts[0]})
            first += len(chunk)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """Return the best translation of each line.

        A blank line gives "".
        """
        return [self.vocabulary.target.decode(best[0].tokens) for best in self.hypotheses(lines)]

    def evaluate(self, data: ParallelData, split: str) -> Evaluation:
        """Translate a split and score it.

        Returns:
            Scores "bleu", "chrf", "bleu-<part>" and "bleu-of-<baseline>"; "sentence-bleu" and "sentence-bleu-nltk" with
            those of the baselines, if asked for; and the task's reference-free scores of outputs, baselines and
            references. Baselines have no chrF, unless BLEU has an obstacle: chrF then stands in its place, with a
            warning. The predictions have one output a line; the samples are the first 8
            pairs. The seconds are those of the search alone, the units the output tokens with end tokens.
        """
        pairs = list(read_parallel(*data.files[split]))
        sources, references = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        began = time.perf_counter()
        hypotheses = self.hypotheses(sources)
        seconds = time.perf_counter() - began
        outputs = [self.vocabulary.target.decode(best[0].tokens) for best in hypotheses]
        measures = self.fitting(references)
        scores = self._scores(outputs, references, data.parts.get(split), measures)
        beside = {name: baseline(sources) for name, baseline in data.baselines.items()}
        for name, unlearnt in beside.items():
            scores |= {f"{key}-of-{name}": measure(unlearnt, references) for key, measure in measures.items()}
        scores |= self._source_scores(data, sources, {"": outputs, **beside, "reference": references})
        return Evaluation(
            scores,
            predictions="".join(f"{line}\n" for line in outputs),
            columns=("source", "reference", "translation"),
            samples=list(zip(sources, references, outputs, strict=True))[:SAMPLES],
            items=len(outputs),
            units=sum(len(best[0].tokens) + 1 for best in hypotheses),
            unit="tokens",
            seconds=seconds,
            signature=f"{self.signature}|batch:{self.search.batch}",
            losses=None if self.network is None else self.losses(sources, references),
        )

    @torch.inference_mode()
    def losses(self, sources: Sequence[str], references: Sequence[str]) -> Counts:
        """Return nats and target tokens with the end token of each reference, given its source: ``[sentences, 2]``."""
        network = for_inference(cast(EncoderDecoder, self.network)).to(self.device)
        read = [np.array(self.vocabulary.source.encode(line), dtype=np.int64) for line in sources]
        written = [np.array(self.vocabulary.target.encode(line), dtype=np.int64) for line in references]
        losses: Counts = np.zeros((len(sources), 2))
        for numbers in evaluation_batches([len(row) for row in written], unit="sentences", size=SCORED):
            batch = parallel_batch([read[row] for row in numbers], [written[row] for row in numbers])
            mask = None if batch.mask is None else batch.mask.to(self.device)
            hidden = network(batch.source.to(self.device), mask, batch.target.to(self.device)).flatten(0, 1)
            logits = network.output(hidden[batch.positions.to(self.device)]).float()
            nats = F.cross_entropy(logits, batch.wanted.to(self.device), reduction="none").double().cpu().numpy()
            rows = numbers[batch.positions.numpy() // batch.target.shape[1]]
            np.add.at(losses, rows, np.stack([nats, np.ones(len(nats))], axis=1))
        return losses

    def fitting(self, references: Sequence[str]) -> dict[str, Measure]:
        """Return the measures by name that fit these references, the most important first.

        They are BLEU and those asked for in the constructor. If BLEU has an obstacle, they are chrF alone, whose scores
        have the obstacle as a warning.
        """
        obstacle = bleu_obstacle(self.tokenizer, references)
        if obstacle is None:
            return self.measures
        warning = f"in the place of BLEU: {obstacle}"
        return {"chrf": lambda *texts: replace(score := chrf(*texts), warnings=(warning, *score.warnings))}

    def _scores(
        self,
        outputs: Sequence[str],
        references: Sequence[str],
        parts: Path | None,
        measures: Mapping[str, Measure],
    ) -> dict[str, Score]:
        """Return the scores of the outputs by ``measures`` and chrF, by name.

        With ``parts``, the first measure of each part is added as "bleu-<part>". ``parts`` is a file with the part of
        each line, or None. Signatures include search and weights.
        """
        main, of_part = next(iter(measures.items()))
        every = {**measures, "chrf": measures.get("chrf", chrf)}
        scores = {key: measure(outputs, references) for key, measure in every.items()}
        for part, rows in rows_of_parts(parts, len(outputs)):
            scores[f"{main}-{part}"] = of_part([outputs[row] for row in rows], [references[row] for row in rows])
        return {name: score.signed(f"|{self.signature}|weights:{self.weights}") for name, score in scores.items()}

    def _source_scores(
        self, data: ParallelData, sources: Sequence[str], texts: Mapping[str, Sequence[str]]
    ) -> dict[str, Score]:
        """Return the task's reference-free scores of texts, by name.

        The model's outputs have the name "", others add ``-of-NAME``. Scores whose package is not installed are left
        out with a note. Only the signature of the outputs' scores is extended by search and weights.
        """
        scores: dict[str, Score] = {}
        for key, measure in data.measures.items():
            try:
                measured = {name: measure(sources, text) for name, text in texts.items()}
            except ModuleNotFoundError as error:
                note(f"without the score {key}: it needs {error.name} (pip install 'phmrun[baselines]')")
                continue
            scores |= {f"{key}-of-{name}": score for name, score in measured.items() if name}
            scores[key] = measured[""].signed(f"|{self.signature}|weights:{self.weights}")
        return scores


def applications(decoding: DecodingConfig) -> tuple[Choice, Choice]:
    """Return (form of the decoder, form of the encoder).

    The decoder has ``application`` resolved for batch × beam hypotheses. The encoder has the same if ``batch`` is 1,
    else "dense".
    """
    decoder = resolve_application(decoding.application, decoding.batch * decoding.beam)
    return decoder, decoder if decoding.batch == 1 else "dense"


def converted_model(
    network: EncoderDecoder,
    vocabularies: Vocabularies,
    exports: Path,
    quantization: Quantization,
    device: torch.device | str = "cpu",
) -> CTranslate2Model:
    """Load the network into CTranslate2, converted if necessary.

    The converted model is stored in a folder of ``exports``. An existing conversion there is used again. With
    quantization "none" it computes in float32.

    Raises:
        PhmrunError: The library is missing, or the network is not a Transformer.
    """
    directory = exports / ("ctranslate2" if quantization == "none" else f"ctranslate2-{quantization}")
    return CTranslate2Model(
        converted(network, vocabularies, directory, quantization),
        token_names(vocabularies.target),
        token_names(vocabularies.source),
        longest=longest_line(network),
        arithmetic="float32" if quantization == "none" else quantization,
        device=device,
    )
