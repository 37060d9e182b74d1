"""Scoring and continuation of text with a trained language model."""

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from phmrun.engine.predictor import Answer, Evaluation, Predictor
from phmrun.errors import data_error
from phmrun.layers import for_inference
from phmrun.metrics import Score
from phmrun.tasks.lm.codebooks import CodebookEmbedding, learn_codes
from phmrun.tasks.lm.config import LanguageDecodingConfig, LanguageModelExperiment
from phmrun.tasks.lm.data import StreamData, stream_batches
from phmrun.tasks.lm.hugging_face import HuggingFaceLanguageModel
from phmrun.tasks.lm.language_model import LanguageModel, State
from phmrun.tasks.lm.module import perplexity
from phmrun.tasks.lm.ngrams import KneserNey
from phmrun.tasks.lm.pairs import MinimalPairs, judged
from phmrun.tasks.lm.preparation import Tally, text_lines
from phmrun.tasks.lm.segments import parts
from phmrun.tasks.lm.transformer_xl import TransformerXL
from phmrun.tasks.lm.vocabulary import UNKNOWN, StreamVocabulary, without_end
from phmrun.text.batches import evaluation_batches
from phmrun.text.coverage import MENTIONED
from phmrun.text.tokenizer import TokenizerVocabulary
from phmrun.text.words import spaced

SAMPLES = 8
ORDER = 5  # order of the n-gram baseline
MOST = 20_000_000  # first words of the training text that the baseline counts
NAT = 1 / math.log(2)
FEW = 128  # tokens at a time that are few for a network with a folder's weights


def next_word(decoding: LanguageDecodingConfig, log_probs: Tensor, generator: torch.Generator) -> int:
    """Return a word id from log-probabilities ``[words]``.

    "greedy": the most probable one; "sample": one drawn with a CPU generator, after division by the temperature.
    """
    if decoding.choice == "greedy":
        return int(log_probs.argmax())
    probabilities = (log_probs.double() / decoding.temperature).softmax(0)
    return int(torch.multinomial(probabilities.cpu(), 1, generator=generator))


class LanguageModelPredictor(
    Predictor[LanguageModel, StreamVocabulary | TokenizerVocabulary, StreamData | MinimalPairs]
):
    """Scorer and generator of text with a trained language model.

    Unknown words of prompts are in ``coverage``, those of a scored text in its scores.

    Args:
        network: The trained network; it is copied, not changed.
        vocabulary: Its vocabulary.
        decoding: Settings of scoring, of input lines, and of the network's memory.
        length: Words read at a time in scoring.
        weights: Name of the run's weights, for the signature of a score.
        device: Device of the copy.
    """

    def __init__(
        self,
        network: nn.Module,
        vocabulary: StreamVocabulary | TokenizerVocabulary,
        decoding: LanguageDecodingConfig,
        length: int = 70,
        *,
        weights: str = "given",
        device: torch.device | str = "cpu",
    ) -> None:
        copied = for_inference(network).to(device)
        super().__init__(cast(LanguageModel, copied), vocabulary, weights, device)
        self.decoding, self.length = decoding, length
        self.units = "words" if isinstance(vocabulary, StreamVocabulary) else "tokens"
        self.table: CodebookEmbedding | None = None
        if decoding.codebooks:
            inputs = cast(nn.Module, copied.embedding if copied.define is None else copied.define)
            sizes = decoding.codebooks, decoding.codewords
            self.table = learn_codes(cast(Tensor, inputs.weight), *sizes, steps=decoding.code_steps)
            copied.define = self.table  # replaces the lookup of inputs
        self.reach = "state"
        if isinstance(copied, TransformerXL):
            copied.memory = copied.memory if decoding.memory is None else decoding.memory
            copied.clamp_len, copied.same_length = decoding.clamp_len, decoding.same_length
            self.reach = str(copied.memory) + (f"|clamp:{decoding.clamp_len}" if decoding.clamp_len else "")
            self.reach += "|reach:same" if decoding.same_length else ""
        elif isinstance(copied, HuggingFaceLanguageModel):
            # The network reads no more than its positions, those of a segment among them.
            self.reach = str(min(decoding.memory or 0, max(copied.positions - length, 0)))
        self.prompt = "a line of text" if decoding.mode == "surprisal" else "the beginning of a text"

    @classmethod
    def settings(cls, config: LanguageModelExperiment, batch_size: int | None) -> dict[str, Any]:
        """Return the decoding section and the length of scoring; see :meth:`Predictor.settings`."""
        return {**super().settings(config, batch_size), "length": config.evaluation_length}

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield the answer to each line.

        It is its continuations, or the surprisal of its words, by ``decoding.mode``.
        """
        if isinstance(self.network, HuggingFaceLanguageModel):
            self.network.memory = None
        return self._surprisals(lines) if self.decoding.mode == "surprisal" else self._continuations(lines)

    def evaluate(self, data: StreamData | MinimalPairs, split: str) -> Evaluation:
        """Return the perplexity of a split, with those of the baselines; of minimal pairs, the accuracy.

        Scores: "bits_per_byte" and "perplexity", both "-of-unigram", and both "-of-5-gram" if the training text is
        available with the same vocabulary; "perplexity-known" if there are known and unknown words. All except the last
        include the unknown words, as one word. The predictions are the surprisals of a line's words in bits, one line
        each. The seconds are those of the network alone. A warning tells if the tokenizer drops a part of the text.
        """
        if isinstance(data, MinimalPairs):
            return self._judged(data)
        if isinstance(self.network, HuggingFaceLanguageModel):
            self.network.memory = self.decoding.memory or 0
        tally = Tally(text_lines(data.files[split], "reading"))
        coded = [np.array(line, dtype=np.int32) for line in self.vocabulary.stream(tally)]
        tokens = np.concatenate([np.zeros(0, np.int64), *coded])
        if not len(tokens):
            raise data_error("there is no token to score", data.files[split])
        began = time.perf_counter()
        nats = self.surprisal(tokens)
        seconds = time.perf_counter() - began
        by_line = np.split(nats * NAT, np.cumsum([len(line) for line in coded])[:-1]) if coded else []
        first = list(itertools.islice(text_lines(data.files[split], "reading"), SAMPLES))
        scores = self._scores(tokens, nats, tally, data)
        words = self.vocabulary
        lost = [line for line in first if isinstance(words, TokenizerVocabulary) and not words.keeps(f"{line}\n")]
        if lost:
            text = f"the tokenizer drops a part of {lost[0]!r:.60} and its line end: bits per byte is too low"
            scores["bits_per_byte"] = replace(scores["bits_per_byte"], warnings=(text,))
        return Evaluation(
            scores,
            predictions="".join(" ".join(f"{bits:.3f}" for bits in line) + "\n" for line in by_line),
            columns=("text", "bits per word"),
            samples=[(line, f"{bits.mean():.3f}") for line, bits in zip(first, by_line, strict=False)],
            items=tally.lines,
            units=len(tokens),
            unit=self.units,
            seconds=seconds,
            signature=f"{self._signature()}|batch:{self.decoding.batch}",
        )

    def _judged(self, data: MinimalPairs) -> Evaluation:
        """Return the accuracy of minimal pairs, by phenomenon."""
        began = time.perf_counter()
        scores, rows, count = judged(data, self.sentence_nats)
        signature = f"{self.vocabulary.unit}|sum:tokens-after-begin|weights:{self.weights}"
        scores = {name: score if "-of-" in name else score.signed(f"|{signature}") for name, score in scores.items()}
        seconds = time.perf_counter() - began
        batch = f"batch:{self.decoding.batch}"
        return Evaluation(scores, "".join(rows), (), (), 2 * count, 2 * count, "sentences", seconds, batch, "tsv")

    @torch.inference_mode()
    def sentence_nats(self, sentences: Sequence[str], places: Sequence[str] = ()) -> NDArray[np.float64]:
        """Return -log p of sentences, ``[sentences]``, in nats, each from the beginning of a text, without its end.

        Marks are split from words, where the vocabulary has words. ``places`` are those of the sentences, for errors.

        Raises:
            PhmrunError: (exit 3) A sentence is longer than the network's positions.
        """
        words = isinstance(self.vocabulary, StreamVocabulary)
        coded = [self.vocabulary.encode(spaced(text, False, "punctuation") if words else text) for text in sentences]
        for text, where in itertools.zip_longest(coded, places):
            self._check_length(len(text), where)
        nats = np.zeros(len(coded))
        for rows in evaluation_batches([len(text) for text in coded], unit="sentences", size=self.decoding.batch):
            texts = [torch.tensor([self.vocabulary.end, *coded[row]]) for row in rows]
            lengths = torch.tensor([len(text) - 1 for text in texts])
            tokens = pad_sequence(texts, batch_first=True, padding_value=self.vocabulary.end).to(self.device)
            hidden = self.network(tokens[:, :-1], None).hidden
            inside = torch.arange(hidden.shape[1]) < lengths[:, None]
            losses = self.network.output.nll(hidden[inside], tokens[:, 1:][inside]).double().cpu()
            nats[rows] = torch.zeros(inside.shape, dtype=torch.double).masked_scatter(inside, losses).sum(1).numpy()
        return nats

    @torch.inference_mode()
    def surprisal(self, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return -log p of every word, in nats, ``[tokens] -> [tokens]``.

        An end of line precedes the first. ``decoding.batch`` parts are read at a time. Words depend on those before
        them in the same part (``decoding.streams``).
        """
        nats = np.zeros(len(tokens), dtype=np.float64)
        count = len(parts(len(tokens), self.decoding.streams))
        for first in range(0, count, self.decoding.batch):
            state: State | None = None
            # These parts are read to their end before the next ones, since the state is theirs.
            rows = range(first, min(first + self.decoding.batch, count))
            for batch, where in stream_batches(
                tokens,
                before=self.vocabulary.end,
                streams=self.decoding.streams,
                length=self.length,
                rows=lambda _, rows=rows: rows,  # type: ignore[misc]
            ):
                reading = self.network(batch.tokens.to(self.device), state)
                state = reading.state
                hidden, targets = reading.hidden.flatten(0, 1), batch.targets.reshape(-1).to(self.device)
                if batch.places is not None:
                    places = batch.places.to(self.device)
                    hidden, targets = hidden.index_select(0, places), targets.index_select(0, places)
                nats[where] = self.network.output.nll(hidden, targets).double().cpu().numpy()
        return nats

    def _scores(
        self, tokens: NDArray[np.int64], nats: NDArray[np.float64], tally: Tally, data: StreamData
    ) -> dict[str, Score]:
        """Return the scores of a text by name.

        ``nats`` are the surprisals of its words ``tokens``. "perplexity-known" is scored if some, but not all, words
        are unknown; the 5-gram baseline if the training text is here with the same
        vocabulary. The unigram baseline adds 1 to each count; counts of tokens are those of the training text, if it is
        here. Bits per byte, which do not depend on the vocabulary, come first. A warning tells if at least 1 % of the
        words are unknown beside known ones.
        """
        mean, count = float(nats.mean()), len(tokens)
        hidden = tokens == self.vocabulary.unknown
        unknown = int(hidden.sum())
        cut = len(parts(count, self.decoding.streams))
        signature = f"{self._signature()}|cut:{cut}x{count // cut}|unknown:{unknown / count:.2%}|weights:{self.weights}"
        extras: dict[str, float] = {"bits_per_word": mean * NAT, "unknown_words": unknown}
        if self.table is not None:
            extras["table_bytes"] = self.table.bytes
        warnings: tuple[str, ...] = ()
        of_known: dict[str, Score] = {}
        if 0 < unknown < count:
            value = perplexity(float(nats[~hidden].mean()))
            of_known["perplexity-known"] = Score("perplexity", value, signature, count - unknown, self.units)
            of_unknown = perplexity(float(nats[hidden].mean()))
            text = f"{unknown / count:.1%} of the words are unknown ({UNKNOWN}): "
            text += f"perplexity {of_unknown:,.1f} on these, {value:,.1f} on all others"
            warnings = (text,) if unknown >= MENTIONED * count else ()
        if isinstance(self.network, HuggingFaceLanguageModel) and self.network.folder:
            positions = self.network.positions
            if self.length < min(FEW, positions):
                text = f"{self.length} tokens are read at a time, without the text before them; the network can read "
                warnings = (*warnings, f"{text}{positions:,}: --set decoding.length={min(2 * FEW, positions)}")

        def scored(nats: NDArray[np.float64], signature: str, of: str = "") -> dict[str, Score]:
            """Return bits per byte and perplexity of words with these surprisals; names end with ``of``."""
            by_byte = Score("bits per byte", float(nats.sum()) * NAT / tally.bytes, signature, tally.bytes, "bytes")
            by_word = Score("perplexity", perplexity(float(nats.mean())), signature, count, self.units)
            return {f"bits_per_byte{of}": by_byte, f"perplexity{of}": by_word}

        scores = scored(nats, signature)
        scores["perplexity"] = replace(scores["perplexity"], extras=extras, warnings=warnings)
        scores |= of_known
        here = "train" in data.files and data.vocabulary.sha256 == self.vocabulary.sha256
        train = np.asarray(data.prepared.stores["train"].tokens[:MOST] if here else [], dtype=np.int64)
        counts: Sequence[int] | NDArray[np.int64] = self.vocabulary.counts
        if here and (data.given is not None or not counts):  # a given vocabulary has the counts of another text
            counts = np.bincount(train, minlength=self.vocabulary.entries)
        if np.any(counts):  # frequencies in the training text, with add-one smoothing
            frequency = np.array(counts, dtype=np.float64) + 1
            scores |= scored(-np.log(frequency / frequency.sum())[tokens], self.vocabulary.unit, "-of-unigram")
        if self.decoding.characters:
            value = float(nats.sum()) * NAT / tally.characters
            scores["bits_per_character"] = Score("BPC", value, signature, tally.characters, "characters")
        if here:
            model = KneserNey(train, len(self.vocabulary.tokens), order=ORDER, before=self.vocabulary.end)
            signature = f"{self.vocabulary.unit}|smoothing:modified-kneser-ney|train-words:{len(train)}"
            scores |= scored(model.surprisal(tokens), signature, f"-of-{ORDER}-gram")
        return scores

    def _signature(self) -> str:
        """Return the signature of the units and of the settings of scoring.

        These are streams, length, memory and, if compressed, codebooks and gradient steps.
        """
        decoding = self.decoding
        codes = f"|codebooks:{decoding.codebooks}x{decoding.codewords}|learnt:{decoding.code_steps}"
        codes = "" if self.table is None else codes
        return f"{self.vocabulary.unit}|streams:{self.decoding.streams}|length:{self.length}|memory:{self.reach}{codes}"

    def _read(self, tokens: Sequence[int], state: State | None) -> tuple[Tensor, State]:
        """Return hidden vectors ``[length, width]`` of further words, and the state.

        The state is that after the words. ``state`` is None at the beginning of a text.
        """
        reading = self.network(torch.tensor([list(tokens)], device=self.device), state)
        return reading.hidden[0], reading.state

    @torch.inference_mode()
    def _surprisals(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield each line's words with their surprisal in bits.

        The end of line is included. The state is carried across lines. A line's answer has "word:bits" with 2 decimals,
        and a backslash and n for a line feed of tokens; its values are "words", "bits" and "perplexity".
        """
        state, before = None, self.vocabulary.end
        for number, line in enumerate(lines, 1):
            self._encoded(line)
            (tokens,) = self.vocabulary.stream([without_end(line)])
            if not tokens:  # a tokenizer may drop line feeds
                yield Answer("", {"words": [], "bits": [], "perplexity": None})
                continue
            self._check_length(len(tokens), f"{self.source}:{number}")
            hidden, state = self._read([before, *tokens[:-1]], state)
            before = tokens[-1]
            nats = self.network.output.nll(hidden, torch.tensor(tokens, device=self.device)).double()
            bits = (nats * NAT).tolist()
            # A token's text, with the space before it; special tokens have no text, but a name.
            names, decode = self.vocabulary.tokens, self.vocabulary.decode
            words = [(self.units == "tokens" and decode([it])) or names[it] for it in tokens]
            yield Answer(
                " ".join(f"{word}:{bit:.2f}".replace("\n", r"\n") for word, bit in zip(words, bits, strict=True)),
                {"words": words, "bits": bits, "perplexity": perplexity(float(nats.mean()))},
            )

    @torch.inference_mode()
    def _continuations(self, lines: Iterable[str]) -> Iterator[Answer]:
        """Yield the continuation of each line, with the line itself in front.

        The random numbers of line k have the seed ``decoding.seed`` + k. Unknown words of the line appear as the
        unknown word.
        """
        for number, line in enumerate(lines):
            generator = torch.Generator().manual_seed(self.decoding.seed + number)
            prompt = self._encoded(line)
            self._check_length(len(prompt) + 1, f"{self.source}:{number + 1}")
            hidden, state = self._read([self.vocabulary.end, *prompt], None)
            text = self.vocabulary.decode([*prompt, *self._continued(hidden[-1], state, generator)])
            yield Answer(text, {"prediction": text})

    def _check_length(self, length: int, where: str | None) -> None:
        """Check that a line fits into the network's positions; ``where`` is its place.

        Raises:
            PhmrunError: (exit 3) It has more tokens.
        """
        if isinstance(self.network, HuggingFaceLanguageModel) and length > self.network.positions:
            what = f"{length:,} tokens are more than the network's {self.network.positions:,} positions"
            raise data_error(what, where, "Shorten the line, or leave it out.")

    def _encoded(self, line: str) -> list[int]:
        """Return the ids of a line's words, and count them in ``coverage``."""
        tokens = self.vocabulary.encode(line)
        self.coverage.add(token != self.vocabulary.unknown for token in tokens)
        return tokens

    def _continued(self, hidden: Tensor, state: State, generator: torch.Generator) -> list[int]:
        """Return the words after a prompt.

        They end at ``decoding.words`` words or at an end of line, which is left out. Padding of the vocabulary is
        never chosen.
        """
        tokens: list[int] = []
        while len(tokens) < self.decoding.words:
            log_probs = self.network.output.log_prob(hidden)[: len(self.vocabulary.tokens)]
            token = next_word(self.decoding, log_probs, generator)
            if self.vocabulary.ends_line(token):
                break
            tokens.append(token)
            vectors, state = self._read([token], state)
            hidden = vectors[-1]
        return tokens
