"""A trained language model at work: how well it predicts a text, word by word, and how it continues one."""

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from phmrun.engine.data import DOUBTFUL
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import Answer, Evaluation
from phmrun.layers import for_inference
from phmrun.metrics import Score
from phmrun.tasks.lm.codebooks import CodebookEmbedding, compress, learn_codes
from phmrun.tasks.lm.config import LanguageModelExperiment
from phmrun.tasks.lm.data import StreamData, evaluation_batches
from phmrun.tasks.lm.language_model import LanguageModel, State
from phmrun.tasks.lm.module import perplexity
from phmrun.tasks.lm.ngrams import KneserNey
from phmrun.tasks.lm.preparation import Tally, text_lines
from phmrun.tasks.lm.segments import parts
from phmrun.tasks.lm.transformer_xl import TransformerXL
from phmrun.tasks.lm.vocabulary import UNKNOWN, StreamVocabulary, chunks_of_words

SAMPLES = 8
ORDER = 5  # words of the longest sequences that the baseline counts
MOST = 20_000_000  # words of the training text that it counts, the first ones
NAT = 1 / math.log(2)


@dataclass(frozen=True)
class Scoring:
    """How a text is read to be scored."""

    streams: int = 10  # equal parts of the text that are read side by side, each from nothing remembered; 1: one piece
    length: int = 70  # words read at a time
    batch: int = 100  # most parts read at a time; does not change the scores
    characters: bool = False  # whether bits per character are wanted as well


@dataclass(frozen=True)
class Choice:
    """How a word is chosen."""

    # "greedy": the most probable word; "sample": one drawn by its probability
    kind: Literal["greedy", "sample"] = "greedy"
    temperature: float = 1.0  # log-probabilities are divided by this before a word is drawn
    top_k: int = 0  # only the most probable words, so many, can be drawn; 0: all
    top_p: float = 1.0  # only the fewest words that have this share of the probability can be drawn (nucleus sampling)

    def choose(self, log_probs: Tensor, generator: torch.Generator) -> int:
        """One word by its number, of the log-probabilities of all, ``[words]``; draws come from a CPU generator."""
        if self.kind == "greedy":
            return int(log_probs.argmax())
        return int(torch.multinomial(self.distribution(log_probs).cpu(), 1, generator=generator))

    def distribution(self, log_probs: Tensor) -> Tensor:
        """What a word is drawn from, ``[words]``, in double precision."""
        probabilities, order = (log_probs.double() / self.temperature).softmax(0).sort(descending=True, stable=True)
        before = probabilities.cumsum(0) - probabilities
        kept = before < self.top_p
        if self.top_k:
            kept[self.top_k :] = False
        chosen = torch.where(kept, probabilities, 0.0)
        return torch.zeros_like(chosen).scatter(0, order, chosen / chosen.sum())


@dataclass(frozen=True)
class Prompting:
    """What becomes of a line of the user's."""

    # "continue" it, or say how many bits each of its words takes ("surprisal")
    mode: Literal["continue", "surprisal"] = "continue"
    words: int = 50  # most words of a continuation; it also stops at the end of a line
    choice: Choice = field(default_factory=Choice)  # how the next word is chosen
    seed: int = 1  # seed of the first line's draws; each further line has the next number
    nbest: int = 1  # continuations of each line
    across_lines: bool = True  # whether lines whose surprisal is asked for are one text


class LanguageModelPredictor:
    """Reads and continues text with a trained language model.

    Args:
        network: The trained network; it is copied, not changed.
        memory: Words before the segment that a Transformer-XL's attention reaches; the network's own unless given.
        clamp_len: Words from whose distance on a Transformer-XL counts all as equally far.
        same_length: Whether each word in a Transformer-XL attends to as many.
        compression: Codebooks, and codewords in each, that the table of input vectors is compressed into, and the
            gradient steps in which they are learnt; 0: by least squares.
        weights: Which of the run's weights these are, for the signature of a score.
    """

    def __init__(
        self,
        network: nn.Module,
        vocabulary: StreamVocabulary,
        scoring: Scoring,
        prompting: Prompting,
        *,
        memory: int | None = None,
        clamp_len: int | None = None,
        same_length: bool = False,
        compression: tuple[int, int, int] | None = None,
        weights: str = "given",
        device: torch.device | str = "cpu",
    ) -> None:
        self.vocabulary, self.scoring, self.prompting = vocabulary, scoring, prompting
        self.weights, self.device = weights, torch.device(device)
        copied = for_inference(network, "dense").to(device)
        self.network = cast(LanguageModel, copied)
        self.table: CodebookEmbedding | None = None
        self.code_steps = 0
        if compression is not None:
            *sizes, self.code_steps = compression
            inputs = cast(nn.Module, copied.embedding if copied.define is None else copied.define)
            vectors, steps = cast(Tensor, inputs.weight), self.code_steps
            self.table = learn_codes(vectors, *sizes, steps=steps) if steps else compress(vectors, *sizes)
            copied.define = self.table  # what looks the inputs up, where there is one
        self.reach = "state"
        if isinstance(copied, TransformerXL):
            copied.memory = copied.memory if memory is None else memory
            copied.clamp_len, copied.same_length = clamp_len, same_length
            self.reach = str(copied.memory) + (f"|clamp:{clamp_len}" if clamp_len else "")
            self.reach += "|reach:same" if same_length else ""
        self.prompt = "a line of text" if prompting.mode == "surprisal" else "the beginning of a text"

    def predict(self, lines: Iterable[str]) -> Iterator[Answer]:
        """A continuation of each line, or its surprisal."""
        return self._surprisals(lines) if self.prompting.mode == "surprisal" else self._continuations(lines)

    def evaluate(self, data: StreamData, split: str) -> Evaluation:
        """Perplexity of a split: "perplexity", "…-of-unigram", "…-of-5-gram", and "bits_per_character" if asked for."""
        tally = Tally(text_lines(data.files[split], "reading"))
        ids, unknown = self.vocabulary.ids, self.vocabulary.unknown
        chunks = chunks_of_words(tally, self.vocabulary.splitting)
        tokens = np.fromiter((ids.get(word, unknown) for words in chunks for word in words), dtype=np.int64)
        began = time.perf_counter()
        nats = self.surprisal(tokens)
        seconds = time.perf_counter() - began
        # Behind each end of a line but the last, after which there is nothing.
        by_line = np.split(nats * NAT, np.flatnonzero(tokens == self.vocabulary.end)[:-1] + 1)
        first = itertools.islice(text_lines(data.files[split], "reading"), SAMPLES)
        return Evaluation(
            self._scores(tokens, nats, tally, data),
            predictions="".join(" ".join(f"{bits:.3f}" for bits in line) + "\n" for line in by_line),
            columns=("text", "bits per word"),
            samples=[(line, f"{bits.mean():.3f}") for line, bits in zip(first, by_line, strict=False)],
            items=tally.lines,
            units=len(tokens),
            unit="words",
            seconds=seconds,
            signature=f"{self._signature()}|batch:{self.scoring.batch}",
        )

    @torch.inference_mode()
    def surprisal(self, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
        """-log p of every word given those before it, in nats, ``[tokens]``; an end of line stands before the first."""
        nats = np.zeros(len(tokens), dtype=np.float64)
        count = len(parts(len(tokens), self.scoring.streams))
        for first in range(0, count, self.scoring.batch):
            state: State | None = None
            # These parts are read to their end before the next ones begin: the state that is carried on is theirs.
            rows = range(first, min(first + self.scoring.batch, count))
            for batch, where in evaluation_batches(
                tokens,
                before=self.vocabulary.end,
                streams=self.scoring.streams,
                length=self.scoring.length,
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
        mean, count = float(nats.mean()), len(tokens)
        signature = f"{self._signature()}|weights:{self.weights}"
        unknown = int((tokens == self.vocabulary.unknown).sum())
        extras: dict[str, float] = {"bits_per_word": mean * NAT, "unknown_words": unknown}
        if self.table is not None:
            extras["table_bytes"] = self.table.bytes
        mostly = f"{unknown / count:.0%} of the words are unknown: the perplexity is mostly that of {UNKNOWN}"
        warnings = (mostly,) if unknown >= DOUBTFUL * count else ()
        # by its frequency in the training text, one added to each
        frequency = np.array(self.vocabulary.counts, dtype=np.float64) + 1
        by_frequency = perplexity(float(-np.log(frequency / frequency.sum())[tokens].mean()))
        score = Score("perplexity", perplexity(mean), signature, count, "words", extras=extras, warnings=warnings)
        unigram = Score("perplexity", by_frequency, self._unit(), count, "words")
        scores = {"perplexity": score, "perplexity-of-unigram": unigram}
        if self.scoring.characters:
            value = float(nats.sum()) * NAT / tally.characters
            scores["bits_per_character"] = Score("BPC", value, signature, tally.characters, "characters")
        if "train" in data.files and data.vocabulary.sha256 == self.vocabulary.sha256:
            train = np.asarray(data.prepared.stores["train"].tokens[:MOST], dtype=np.int64)
            model = KneserNey(train, len(self.vocabulary.tokens), order=ORDER, before=self.vocabulary.end)
            by_sequences = perplexity(float(model.surprisal(tokens).mean()))
            signature = f"{self._unit()}|smoothing:modified-kneser-ney|train-words:{len(train)}"
            scores[f"perplexity-of-{ORDER}-gram"] = Score("perplexity", by_sequences, signature, count, "words")
        return scores

    def _unit(self) -> str:
        """What is predicted."""
        return f"unit:word|split:{self.vocabulary.splitting}|vocabulary:{len(self.vocabulary)}|end:counted"

    def _signature(self) -> str:
        scoring = self.scoring
        codes = "" if self.table is None else "|codebooks:{}x{}".format(*self.table.codewords.shape)
        codes += f"|learnt:{self.code_steps}" if self.code_steps else ""
        return f"{self._unit()}|streams:{scoring.streams}|length:{scoring.length}|memory:{self.reach}{codes}"

    def _read(self, tokens: Sequence[int], state: State | None) -> tuple[Tensor, State]:
        """Hidden vectors ``[length, width]`` of further words, and what to remember of them."""
        reading = self.network(torch.tensor([list(tokens)], device=self.device), state)
        return reading.hidden[0], reading.state

    @torch.inference_mode()
    def _surprisals(self, lines: Iterable[str]) -> Iterator[Answer]:
        end, state, before = self.vocabulary.end, None, self.vocabulary.end
        for line in lines:
            tokens = [*self.vocabulary.encode(line), end]
            if not self.prompting.across_lines:
                state = None
            hidden, state = self._read([before, *tokens[:-1]], state)
            nats = self.network.output.nll(hidden, torch.tensor(tokens, device=self.device)).double()
            bits = (nats * NAT).tolist()
            words = [self.vocabulary.tokens[token] for token in tokens]
            yield Answer(
                " ".join(f"{word}:{bit:.2f}" for word, bit in zip(words, bits, strict=True)),
                {"words": words, "bits": bits, "perplexity": perplexity(float(nats.mean()))},
            )

    @torch.inference_mode()
    def _continuations(self, lines: Iterable[str]) -> Iterator[Answer]:
        for number, line in enumerate(lines):
            generator = torch.Generator().manual_seed(self.prompting.seed + number)
            prompt = self.vocabulary.encode(line)
            hidden, state = self._read([self.vocabulary.end, *prompt], None)
            found = [self._continued(hidden[-1], state, generator) for _ in range(self.prompting.nbest)]
            texts = [self.vocabulary.decode([*prompt, *tokens]) for tokens in found]
            yield Answer("\n".join(texts), {"prediction": texts if len(texts) > 1 else texts[0]})

    def _continued(self, hidden: Tensor, state: State, generator: torch.Generator) -> list[int]:
        """The words after a prompt, without the end of the line."""
        tokens: list[int] = []
        while len(tokens) < self.prompting.words:
            known = self.network.output.log_prob(hidden)[: len(self.vocabulary.tokens)]
            token = self.prompting.choice.choose(known, generator)
            if token == self.vocabulary.end:
                break
            tokens.append(token)
            vectors, state = self._read([token], state)
            hidden = vectors[-1]
        return tokens


def build_predictor(
    config: LanguageModelExperiment,
    module: TrainingModule,
    vocabulary: StreamVocabulary,
    *,
    batch_size: int | None,
    **options: str,
) -> LanguageModelPredictor:
    """The predictor of a trained module; ``options`` are ``weights`` and ``device``."""
    decoding = config.decoding
    choice = Choice(decoding.choice, decoding.temperature, decoding.top_k, decoding.top_p)
    return LanguageModelPredictor(
        module.network,
        vocabulary,
        Scoring(decoding.streams, config.evaluation_length, batch_size or decoding.batch, decoding.characters),
        Prompting(decoding.mode, decoding.words, choice, decoding.seed, decoding.nbest, decoding.across_lines),
        memory=decoding.memory,
        clamp_len=decoding.clamp_len,
        same_length=decoding.same_length,
        compression=(decoding.codebooks, decoding.codewords, decoding.code_steps) if decoding.codebooks else None,
        **options,
    )
