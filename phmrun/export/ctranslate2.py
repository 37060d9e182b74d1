"""Export of a translator to CTranslate2, and comparison of both engines' translations.

Both engines translate the same split. Lines that differ are listed with the trained network's score of each output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch

from phmrun.decoding.beam import length_penalty
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError, unknown
from phmrun.export import check_out
from phmrun.export.pages import ctranslate2_page
from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.files import cache_dir, write_text
from phmrun.metrics import Score
from phmrun.models.ctranslate2 import converted, library
from phmrun.models.transformer import EncoderDecoder, padding_mask
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel
from phmrun.text.vocabulary import BOS, EOS, PAD

SHOWN = 5
"""Number of differing lines to print."""


@dataclass(frozen=True)
class OutputDifference:
    """A line that the two engines translate differently.

    Attributes:
        line: Line number, from 1.
        ours: Output of phmrun's search, as text.
        theirs: Output of CTranslate2, as text.
        margin: The trained network's score of phmrun's output minus that of the other. About 0 is a tie that rounding
            decides; below 0, the other engine found the better output.
    """

    line: int
    ours: str
    theirs: str
    margin: float


@dataclass(frozen=True)
class Agreement:
    """BLEU of both engines on the same sentences.

    Both use the length penalty ``power``, which both support.

    Attributes:
        split: Name of the split.
        sentences: Number of its sentences.
        ours: BLEU of phmrun's search.
        theirs: BLEU of CTranslate2.
        differences: All lines whose outputs differ.
    """

    split: str
    sentences: int
    ours: Score
    theirs: Score
    differences: Sequence[OutputDifference]


@dataclass(frozen=True)
class EngineExport:
    """A converted model and, if requested, its agreement with the trained network.

    Attributes:
        path: Directory of the model.
        bytes: Total size of its files.
        quantization: Type of the weights, as requested.
        agreement: Comparison with phmrun's search; None if no split was given.
    """

    path: Path
    bytes: int
    quantization: str
    agreement: Agreement | None


def export_to_ctranslate2(
    trained: TrainedModel, out: Path | None, quantization: str, split: str | None, **weights: Any
) -> EngineExport:
    """Convert a run for CTranslate2 and compare both engines on a split.

    Args:
        trained: The opened run.
        out: Directory to write besides ``exports/ctranslate2`` in the run directory, whose name ends with the
            quantization if there is one; None for that alone.
        quantization: "none", "int8", "int8_float32", "bfloat16" or "float16".
        split: Split of the run's data to translate with both engines; None skips the comparison.
        **weights: Choice of weights: the arguments of ``TrainedModel.load``.

    Raises:
        PhmrunError: (exit 2) The run is not a sequence-to-sequence network, the library or the data are missing, or
            ``out`` holds other files.
        PhmrunError: (exit 2) The split or the quantization is unknown.
    """
    task = TASKS.get(trained.config.task)
    if not task.converts:
        raise PhmrunError(
            f"CTranslate2 exports translation models only; {trained.config.task} is not a sequence-to-sequence task",
            where=trained.run.id,
            hint=f"phmrun export {trained.run.reference} --format onnx",
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
        check_out(out, "model.bin")
        path = converted(network, engine.vocabularies, out, engine.search.quantization)
    search = cast(SequenceToSequenceExperiment, trained.config).decoding
    for directory in {engine.directory, path}:
        page = ctranslate2_page(engine.vocabularies, beam=search.beam, alpha=search.alpha)
        write_text(directory / "README.md", page)
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
    """Compare two translators with the same weights on the same sentences.

    Each source is translated by both, and the best output counts. Lines differ if their token ids do. ``network``
    scores the outputs that differ, with the length penalty of ``ours``. BLEU, or chrF if BLEU does not fit the
    language, is that of all lines against ``references``; differences are in the order of the lines. ``split`` is a
    label only.
    """
    hypotheses = [side.hypotheses(sources, f"{side.search.engine}: {split}") for side in (ours, theirs)]
    texts = [[ours.vocabularies.target.decode(best[0].tokens) for best in outputs] for outputs in hypotheses]
    differing = [row for row in range(len(sources)) if hypotheses[0][row][0].tokens != hypotheses[1][row][0].tokens]
    encoded = ours.vocabularies.source.encode_all([sources[row] for row in differing])
    measure = next(iter(ours.fitting(references).values()))
    scores = [
        forced_scores(network, encoded, [outputs[row][0].tokens for row in differing], ours.search.alpha)
        for outputs in hypotheses
    ]
    return Agreement(
        split,
        len(sources),
        measure(texts[0], references),
        measure(texts[1], references),
        [
            OutputDifference(row + 1, texts[0][row], texts[1][row], scores[0][place] - scores[1][place])
            for place, row in enumerate(differing)
        ],
    )


@torch.inference_mode()
def forced_scores(
    network: EncoderDecoder, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], alpha: float
) -> list[float]:
    """Return log-probability / length^α of fixed outputs by teacher forcing.

    Neither search nor cache is used; lengths include the end token.

    Args:
        network: The network on the CPU; set to eval mode, and left so.
        sources: Token ids without the end token.
        outputs: Token ids without beginning and end tokens.
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
