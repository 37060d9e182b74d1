"""Trained network as a function of tensors, for export to other tools."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from phmrun.text.vocabulary import EOS

UNROLLED = "its LSTMs read to the end of each sentence, and a graph of them has a part for every step"

Run = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class ExportGraph:
    """Function of tensors in evaluation mode, with all structures folded into dense layers.

    Attributes:
        network: Folded network, whose weights are exported.
        function: Module that maps the inputs, in order, to the outputs by ``network``.
        reference: Same function by the trained network.
        inputs: Names of the inputs' dimensions: ``{"source": ("batch", "source_length")}``. Equal names are equal
            sizes; a number is a fixed size.
        outputs: Names of the outputs.
        examples: Inputs of several sizes, on which both functions must agree; the first are used for tracing.
        facts: Metadata for the exported file, such as the id of the padding token.
        untraceable: Reason why only weights can be exported; empty if there is a graph.
        parts: Functions of single search steps by name; ONNX files have them instead of the whole.
        trained: Trained network, for exports with factors; None: folded exports only.
    """

    network: nn.Module
    function: nn.Module
    reference: Run
    inputs: Mapping[str, Sequence[str | int]]
    outputs: Sequence[str]
    examples: Sequence[tuple[Tensor, ...]]
    facts: Mapping[str, str] = field(default_factory=dict)
    untraceable: str = ""
    parts: Mapping[str, "ExportGraph"] = field(default_factory=dict)
    trained: nn.Module | None = None


def outputs_of(run: Run, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the outputs of a function as a tuple, even if there is only one."""
    outputs = run(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def random_tokens(generator: torch.Generator, vocabulary: int, batch: int, length: int) -> Tensor:
    """Return random ids above those of special tokens, ``[batch, length]``."""
    return torch.randint(EOS + 1, vocabulary, (batch, length), generator=generator)
