"""Comparison of an imported run's outputs with those of the library that the checkpoint comes from."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch

from phmrun.decoding.beam import length_penalty
from phmrun.decoding.search import max_length
from phmrun.engine.trained_model import TrainedModel, open_run
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.importing.checkpoint import read_checkpoint
from phmrun.importing.huggingface import describe
from phmrun.ledger import Run
from phmrun.models.transformer import Transformer
from phmrun.progress import progress
from phmrun.text.lines import raw_lines
from phmrun.text.vocabulary import BOS, EOS, PAD

BATCH = 16  # sentences that transformers searches at a time
LONGEST = 512  # output tokens after which transformers' search ends
Kind = Literal["equal", "cut", "different"]


@dataclass(frozen=True)
class Pair:
    """Outputs for one line that differ between phmrun and transformers."""

    line: int  # from 1
    kind: Kind
    phmrun: str
    transformers: str
    gain: float  # score of phmrun's output minus that of transformers', both by phmrun; 0 for equal scores


@dataclass(frozen=True)
class Verification:
    """Numbers of equal and unequal outputs."""

    sentences: int
    equal: int
    cut: int  # phmrun's output ended at its length limit, and that of transformers is longer
    different: int
    pairs: tuple[Pair, ...]  # all unequal outputs

    def to_json(self) -> dict[str, Any]:
        """Return the fields as a dictionary for JSON."""
        return asdict(self)


def verify(run: Run, directory: Path, text: Path) -> Verification:
    """Compare the outputs of an imported run with those of transformers.

    Transformers' own search runs on the same tokens. Both use the run's beam and exponent of the length penalty;
    transformers takes all else from the checkpoint's generation settings, with at most 512 output tokens.

    Args:
        run: Run imported from ``directory``.
        directory: The checkpoint.
        text: Sentences, one a line, plain or .gz.

    Raises:
        PhmrunError: The package transformers is missing (exit 2), or a file is damaged (exit 3).
    """
    lines = [raw.decode("utf-8", "replace").rstrip("\r\n") for raw in raw_lines(text)]
    trained = open_run(run)
    translator = cast(Translator, trained.predictor(device="cpu"))
    best = [hypotheses[0] for hypotheses in translator.hypotheses(lines)]
    sources = [[*tokens, EOS] if tokens else [] for tokens in translator.vocabularies.source.encode_all(lines)]
    search, decode = translator.search, translator.vocabularies.target.decode
    pairs = []
    for number, theirs in enumerate(_their_outputs(directory, sources, search.beam, search.alpha)):
        ours = best[number].tokens
        if ours == theirs:
            continue
        limit = max_length(len(sources[number]), search.max_length_ratio, search.max_length_offset)
        kind: Kind = "cut" if len(ours) + 1 >= limit and len(theirs) > len(ours) else "different"
        gain = best[number].score - _score(trained, sources[number], theirs, search.alpha)
        pairs.append(Pair(number + 1, kind, decode(ours), decode(theirs), gain))
    cut = sum(pair.kind == "cut" for pair in pairs)
    return Verification(len(lines), len(lines) - len(pairs), cut, len(pairs) - cut, tuple(pairs))


def _their_outputs(directory: Path, sources: Sequence[list[int]], beam: int, alpha: float) -> list[list[int]]:
    """Return the outputs of transformers' search as phmrun's tokens, by source.

    The checkpoint is read from ``directory`` again. Sentences are searched in batches of 16, longest first, by beam
    search without sampling, with at most 512 tokens. End token and padding are left out; an empty source has an empty
    output.

    Raises:
        PhmrunError: The package transformers is missing.
    """
    try:
        from transformers import AutoModelForSeq2SeqLM
    except ImportError as error:
        hint = 'Run: pip install "phmrun[transformers]"'
        raise PhmrunError("the package 'transformers' is not installed", where="--verify", hint=hint) from error
    order = torch.tensor(describe(read_checkpoint(directory)).order)
    ours = {int(theirs): number for number, theirs in reversed(list(enumerate(order.tolist())))}
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(directory, use_safetensors=True).eval()
    outputs: list[list[int]] = [[] for _ in sources]
    rows = sorted((row for row, tokens in enumerate(sources) if tokens), key=lambda row: -len(sources[row]))
    with torch.inference_mode(), progress("transformers searches", len(rows), "sentences") as advance:
        for begin in range(0, len(rows), BATCH):
            some = rows[begin : begin + BATCH]
            tokens = torch.full((len(some), len(sources[some[0]])), PAD)
            for place, row in zip(tokens, some, strict=True):
                place[: len(sources[row])] = torch.tensor(sources[row])
            generated = model.generate(
                order[tokens],
                attention_mask=tokens.ne(PAD).long(),
                num_beams=beam,
                length_penalty=alpha,
                do_sample=False,
                max_new_tokens=LONGEST,
            )
            for row, output in zip(some, generated[:, 1:].tolist(), strict=True):
                end = int(order[EOS])
                kept = output[: output.index(end)] if end in output else output
                outputs[row] = [ours[token] for token in kept if token != int(order[PAD])]
            advance(len(some))
    return outputs


@torch.inference_mode()
def _score(trained: TrainedModel, source: Sequence[int], output: Sequence[int], alpha: float) -> float:
    """Return the ranking score of an output: log-probability / length^alpha.

    Both include the end token. The log-probability is that of the run's network, which is set to eval mode.
    """
    network = cast(Transformer, trained.module.network).eval()
    target = torch.tensor([[BOS, *output]])
    log_probs = network.output(network(torch.tensor([list(source)]), None, target)).log_softmax(-1)
    total = float(log_probs[0].gather(1, torch.tensor([*output, EOS])[:, None]).sum())
    return total / length_penalty(len(output) + 1, alpha, "power")
