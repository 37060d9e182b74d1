"""Translation step by step with the ONNX graphs of ``phmrun export --format onnx``, for phmrun's own search."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

Array = np.ndarray[Any, Any]


@dataclass
class OnnxState:
    """State of decoding; ``rows`` are all hypotheses, sentence by sentence.

    Attributes:
        beam: Hypotheses of each sentence.
        source: Source tokens, ``[rows, source]``.
        tensors: Keys and values of the source, and of the target so far, ``[layers, rows, heads, length, head_width]``.
    """

    beam: int
    source: Array
    tensors: list[Array]


class OnnxModel:
    """Exported translator in onnxruntime, with the interface of beam search.

    Args:
        directory: Directory with ``encoder.onnx`` and ``decoder.onnx``.
    """

    measured_kernels = False
    """Ignored: onnxruntime chooses its kernels."""

    def __init__(self, directory: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(str(directory / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
            for name in ("encoder", "decoder")
        )

    def start(self, source: Tensor) -> OnnxState:
        """Encode ``source [batch, source]``; return a state with beam 1 and no target tokens."""
        tokens = source.numpy()
        keys, values = self.encoder.run(None, {"source": tokens})
        past = keys[:, :, :, :0]
        return OnnxState(1, tokens, [keys, values, past, past])

    def step(self, tokens: Tensor, state: OnnxState) -> Tensor:
        """Read the newest tokens, and return logits of the next token.

        The state is updated in place; ``tokens`` are ``[batch, beam]``.

        Returns:
            ``[batch, beam, vocabulary]``.
        """
        names = ("memory_keys", "memory_values", "past_keys", "past_values")
        inputs = {"tokens": tokens.reshape(-1).numpy(), "source": state.source}
        logits, *past = self.decoder.run(None, inputs | dict(zip(names, state.tensors, strict=True)))
        state.tensors[2:] = past
        return torch.from_numpy(logits).view(*tokens.shape, -1)

    def reorder(self, state: OnnxState, beams: Tensor) -> OnnxState:
        """Return the state in which the hypotheses continue ``beams``.

        They are numbers within a sentence, ``[batch, new_beam]``. The tensors are copied.
        """
        first = np.arange(len(beams))[:, None] * state.beam
        return _taken(state, (first + beams.numpy()).reshape(-1), beams.shape[1])

    def select(self, state: OnnxState, sentences: Tensor) -> OnnxState:
        """Return the state of the sentences with numbers ``sentences [kept]``."""
        rows = sentences.numpy()[:, None] * state.beam + np.arange(state.beam)
        return _taken(state, rows.reshape(-1), state.beam)


def _taken(state: OnnxState, rows: Array, beam: int) -> OnnxState:
    """Return a state of these rows, with ``beam`` hypotheses per sentence."""
    return OnnxState(beam, state.source[rows], [tensor[:, rows] for tensor in state.tensors])
