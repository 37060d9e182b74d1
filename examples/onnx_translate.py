"""Translate with a model that `phmrun export RUN --format onnx` has written: beam search over onnxruntime, no torch.

    pip install numpy onnxruntime sentencepiece
    python onnx_translate.py runs/RUN/exports/onnx < input.txt

Beam, length penalty and length limit are those of the run, from tokens.json. The search is phmrun's own: each beam
offers its 2·beam best continuations. Those that end among the first `beam` are outputs; the best `beam` others live on.
Outputs are ranked by log-probability / ((5 + length) / 6)^alpha (penalty "gnmt") or / length^alpha ("power").
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import sentencepiece

PAD, UNK, BOS, EOS = range(4)


class Model:
    """The two graphs, and the tokens' names."""

    def __init__(self, directory: Path) -> None:
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(directory / f"{name}.onnx", providers=["CPUExecutionProvider"])
            for name in ("encoder", "decoder")
        )
        names = json.loads((directory / "tokens.json").read_text(encoding="utf-8"))
        self.numbers = {name: number for number, name in enumerate(names["source"])}
        self.names = names["target"]
        self.search_settings = names.get("search", {})
        self.pieces = [
            sentencepiece.SentencePieceProcessor(model_file=str(path)) if path.is_file() else None
            for side in ("source", "target")
            for path in [next((p for p in directory.glob("*.model") if p.stem in (side, "subwords")), Path("-"))]
        ]

    def translate(self, line: str, **settings: Any) -> str:
        """The best output for a line; ``settings`` replace those of the run (see `search`)."""
        source_pieces, target_pieces = self.pieces
        words = source_pieces.encode(line, out_type=str) if source_pieces else line.split()
        if not words:
            return ""
        numbers = [*(self.numbers.get(word, UNK) for word in words), EOS]
        tokens = self.search(numbers, **{**self.search_settings, **settings})
        actual = [self.names[token] for token in tokens]
        return target_pieces.decode(actual).replace("▁", " ").strip() if target_pieces else " ".join(actual)

    def search(
        self,
        tokens: list[int],
        beam: int = 5,
        alpha: float = 0.6,
        penalty: str = "gnmt",
        max_length_ratio: float = 1.5,
        max_length_offset: int = 10,
    ) -> list[int]:
        """The best output of a source, as token numbers without the end."""
        if penalty not in ("gnmt", "power"):
            raise ValueError(f"this search has the penalties gnmt and power, not {penalty}")
        source = np.array([tokens])
        memory = self.encoder.run(None, {"source": source})
        source, (memory_keys, memory_values) = source.repeat(beam, 0), (item.repeat(beam, 1) for item in memory)
        keys = values = memory_keys[:, :, :, :0]
        prefixes: list[list[int]] = [[]] * beam
        totals = np.array([0.0] + [-np.inf] * (beam - 1))  # at first all hypotheses are one
        newest, endings = np.full(beam, BOS), []
        limit = max(1, int(max_length_ratio * len(tokens) + max_length_offset))
        for length in range(1, limit + 1):
            inputs = {"memory_keys": memory_keys, "memory_values": memory_values, "past_keys": keys}
            inputs |= {"tokens": newest, "source": source, "past_values": values}
            logits, keys, values = self.decoder.run(None, inputs)
            scores = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
            scores[:, [PAD, BOS]] = -np.inf
            if length == limit:
                scores[:, [token for token in range(scores.shape[1]) if token != EOS]] = -np.inf
            scores += totals[:, None]
            best = np.argsort(-scores, axis=None, kind="stable")[: 2 * beam]
            parents, chosen = np.divmod(best, scores.shape[1])
            for parent, token in list(zip(parents, chosen, strict=True))[:beam]:
                if token == EOS and scores[parent, token] > -np.inf:
                    divisor = (length if penalty == "power" else (5 + length) / 6) ** alpha
                    endings.append((scores[parent, token] / divisor, prefixes[parent]))
            alive = np.flatnonzero(chosen != EOS)[:beam]
            if len(endings) >= beam or len(alive) < beam:
                break
            parents, newest = parents[alive], chosen[alive]
            totals = scores[parents, newest]
            prefixes = [[*prefixes[parent], int(token)] for parent, token in zip(parents, newest, strict=True)]
            keys, values = keys[:, parents], values[:, parents]
        return max(endings, key=lambda ending: ending[0])[1]


if __name__ == "__main__":
    model = Model(Path(sys.argv[1]))
    for text in sys.stdin:
        print(model.translate(text.rstrip("\n")))
