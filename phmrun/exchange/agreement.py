"""Export of a translator to CTranslate2, and comparison of both engines' translations.

Both engines translate the same split. Lines that differ are listed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from phmrun.config import decoding_section
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError, unknown
from phmrun.exchange import check_out
from phmrun.exchange.ctranslate2 import converted, library
from phmrun.exchange.pages import ctranslate2_page
from phmrun.files import cache_dir, write_text
from phmrun.metrics import Score
from phmrun.models.transformer import EncoderDecoder
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel

SHOWN = 5
"""Number of differing lines to print."""


@dataclass(frozen=True)
class Agreement:
    """BLEU of both engines on the same sentences.

    Both use the length penalty ``power``, which both support.

    Attributes:
        split: Name of the split.
        sentences: Number of its sentences.
        ours: BLEU of phmrun's search.
        theirs: BLEU of CTranslate2.
        differences: Line number from 1, output of phmrun and output of CTranslate2, of all lines that differ.
    """

    split: str
    sentences: int
    ours: Score
    theirs: Score
    differences: Sequence[tuple[int, str, str]]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {
            "split": self.split,
            "sentences": self.sentences,
            "identical": self.sentences - len(self.differences),
            "bleu": self.ours.to_json(),
            "bleu_ctranslate2": self.theirs.to_json(),
            "differences": [{"line": line, "ours": ours, "theirs": theirs} for line, ours, theirs in self.differences],
        }


def export_to_ctranslate2(
    trained: TrainedModel, out: Path | None, quantization: str, split: str | None, checkpoint: str | None = None
) -> tuple[Path, Agreement | None]:
    """Convert a run for CTranslate2 and compare both engines on a split.

    Return the directory and the comparison.

    Args:
        trained: The opened run.
        out: Directory to write besides ``exports/ctranslate2`` in the run directory, whose name ends with the
            quantization if there is one; None for that alone.
        quantization: "none", "int8", "int8_float32", "bfloat16" or "float16".
        split: Split of the run's data to translate with both engines; None skips the comparison.
        checkpoint: "best", "last" or a file; None: those that training scored.

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
    engine: Any = trained.predictor(decoding=decoding, checkpoint=checkpoint, device="cpu")
    network = cast(EncoderDecoder, trained.module.network)
    path = engine.directory
    if out is not None:
        check_out(out, "model.bin")
        path = converted(network, engine.vocabularies, out, engine.search.quantization)
    search: Any = decoding_section(trained.config)
    for directory in {engine.directory, path}:
        page = ctranslate2_page(engine.vocabularies, beam=search.beam, alpha=search.alpha)
        write_text(directory / "README.md", page)
    if split is None:
        return path, None
    usual = {"engine": "torch", "quantization": "none", "penalty": "power"}
    ours = trained.predictor(decoding=usual, checkpoint=checkpoint, device="cpu")
    sources, references = (list(side) for side in zip(*read_parallel(*files[split]), strict=True))
    return path, agreement(ours, engine, sources, references, split)


def agreement(ours: Any, theirs: Any, sources: Sequence[str], references: Sequence[str], split: str) -> Agreement:
    """Compare two translators with the same weights on the same sentences.

    Each source is translated by both, and the best output counts. Lines differ if their token ids do. The score
    is BLEU, or chrF if BLEU does not fit the language. ``split`` is a label only.
    """
    hypotheses = [side.hypotheses(sources, f"{side.search.engine}: {split}") for side in (ours, theirs)]
    texts = [[ours.vocabularies.target.decode(best[0].tokens) for best in outputs] for outputs in hypotheses]
    differences = [
        (row + 1, texts[0][row], texts[1][row])
        for row in range(len(sources))
        if hypotheses[0][row][0].tokens != hypotheses[1][row][0].tokens
    ]
    measure = next(iter(ours.fitting(references).values()))
    scores = [measure(side, references) for side in texts]
    return Agreement(split, len(sources), scores[0], scores[1], differences)
