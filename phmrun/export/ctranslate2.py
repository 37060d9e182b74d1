"""A trained translator in CTranslate2, compared with the trained network on the data that it was trained for.

Outputs of both searches stand beside each other, line by line, with the trained network's scores of those that differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from phmrun.decoding.beam import length_penalty
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError, unknown
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.files import cache_dir
from phmrun.metrics import Score, bleu
from phmrun.models.ctranslate2 import converted, library
from phmrun.models.transformer import EncoderDecoder, padding_mask
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel
from phmrun.text.vocabulary import BOS, EOS, PAD

SHOWN = 5
"""Differing lines that are shown."""


@dataclass(frozen=True)
class OutputDifference:
    """A line that the two engines translate differently.

    Attributes:
        line: Its number, from 1.
        margin: Our score of our output minus our score of the other: about 0 is a tie that rounding decides, below 0
            the other engine's search found the better one.
    """

    line: int
    ours: str
    theirs: str
    margin: float


@dataclass(frozen=True)
class Agreement:
    """Two engines on the same sentences: the BLEU of both, with the penalty that the other one knows."""

    split: str
    sentences: int
    ours: Score
    theirs: Score
    differences: Sequence[OutputDifference]


@dataclass(frozen=True)
class EngineExport:
    """A converted model, and what it makes of a split of the data, if that was asked for."""

    path: Path
    bytes: int
    quantization: str
    agreement: Agreement | None


def export_to_ctranslate2(
    trained: TrainedModel, out: Path | None, quantization: str, split: str | None, **weights: Any
) -> EngineExport:
    """Converts a run for CTranslate2 and compares what both make of a split.

    Args:
        trained: The opened run.
        out: The directory to write; unless given, ``exports/ctranslate2`` in the run directory.
        quantization: "none", "int8", "int8_float32", "bfloat16" or "float16".
        split: A split of the run's data to decode with both; ``None``: no comparison.
        **weights: Which weights: the arguments of ``TrainedModel.load``.

    Raises:
        PhmrunError: The run is no sequence-to-sequence network, the library or the data are missing, or ``out`` is a
            directory of something else.
    """
    task = TASKS.get(trained.config.task)
    if not task.converts:
        raise PhmrunError(
            f"CTranslate2 translates, and {trained.config.task} is no sequence-to-sequence task",
            where=trained.run.id,
            hint=f"phmrun export {trained.run.id} --format onnx",
        )
    library()
    decoding = {"engine": "ctranslate2", "quantization": quantization}
    files: dict[str, tuple[Path, Path]] = task.load("data")(trained.config, cache_dir()).files if split else {}
    if split and split not in files:
        raise unknown("split", split, [*files, "none"], where="--split")
    engine = cast(Translator, trained.predictor(decoding=decoding, device="cpu", **weights))
    network = cast(EncoderDecoder, trained.module.network)
    path = engine.directory
    if out is not None:
        # An earlier export may be written over, anything else of the user's may not.
        if out.exists() and not (out / "model.bin").is_file() and any(out.iterdir() if out.is_dir() else [out]):
            raise PhmrunError("there is something else here, which would be overwritten", where=str(out))
        path = converted(network, engine.vocabularies, out, engine.search.quantization)
    size = sum(file.stat().st_size for file in path.iterdir())
    if split is None:
        return EngineExport(path, size, quantization, None)
    usual = {"engine": "torch", "quantization": "none", "penalty": "power"}
    ours = cast(Translator, trained.predictor(decoding=usual, device="cpu", **weights))
    sources, references = (list(side) for side in zip(*read_parallel(*files[split]), strict=True))
    return EngineExport(path, size, quantization, agreement(network, ours, engine, sources, references, split))


def agreement(
    network: EncoderDecoder,
    ours: Translator,
    theirs: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    split: str,
) -> Agreement:
    """What two translators with the same weights and the same search make of the same sentences.

    The trained network judges between outputs that differ.
    """
    found = [side.hypotheses(sources, f"{side.search.engine}: {split}") for side in (ours, theirs)]
    texts = [[ours.vocabularies.target.decode(best[0].tokens) for best in outputs] for outputs in found]
    # Where both say the same there is nothing to judge: only outputs that differ are scored by the network.
    differing = [row for row in range(len(sources)) if found[0][row][0].tokens != found[1][row][0].tokens]
    encoded = ours.vocabularies.source.encode_all([sources[row] for row in differing])
    scores = [
        forced_scores(network, encoded, [outputs[row][0].tokens for row in differing], ours.search.alpha)
        for outputs in found
    ]
    return Agreement(
        split,
        len(sources),
        bleu(texts[0], references),
        bleu(texts[1], references),
        [
            OutputDifference(row + 1, texts[0][row], texts[1][row], scores[0][place] - scores[1][place])
            for place, row in enumerate(differing)
        ],
    )


@torch.inference_mode()
def forced_scores(
    network: EncoderDecoder, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], alpha: float
) -> list[float]:
    """log-probability / length^α of given outputs, by the network without any search or cache.

    Args:
        network: The network.
        sources: Token numbers without the end.
        outputs: Token numbers without beginning and end.
        alpha: Exponent of the length penalty.
    """
    network = network.eval()
    scores = []
    for source, output in zip(sources, outputs, strict=True):
        tokens = torch.tensor([[*source, EOS]])
        hidden = network(tokens, padding_mask(tokens, PAD), torch.tensor([[BOS, *output]]))
        chances = torch.log_softmax(network.output(hidden)[0].float(), dim=-1)
        total = float(chances.gather(1, torch.tensor([*output, EOS]).unsqueeze(1)).sum())
        scores.append(total / length_penalty(len(output) + 1, alpha, "power"))
    return scores
