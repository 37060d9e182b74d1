"""A trained network as one function of tensors: what is handed over to tools that know nothing of phmrun."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from phmrun.text.vocabulary import EOS

LONGEST = 512  # most tokens of an input of an exported graph: the length of its position table
MOST = 4096  # largest batch of an exported graph
UNROLLED = "its LSTMs read to the end of each sentence, and a graph of them has a part for every step"

Run = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class ExportGraph:
    """One function of tensors, in evaluation mode, with every structure folded into plain dense layers."""

    network: nn.Module  # the folded network; what a file of weights holds
    function: nn.Module  # what maps the inputs, in their order, to the outputs by means of `network`
    reference: Run  # the same by the trained network itself
    # the inputs' names, and the names of their sizes: `{"source": ("batch", "source_length")}`. The same name is the
    # same size; a number is a size that is fixed.
    inputs: Mapping[str, Sequence[str | int]]
    outputs: Sequence[str]
    largest: Mapping[str, int]  # the most that each named size can be
    # inputs of several sizes, on which both functions must agree; a graph is traced with the first ones
    examples: Sequence[tuple[Tensor, ...]]
    # what a reader of the file must know, such as the number of the padding token
    facts: Mapping[str, str] = field(default_factory=dict)
    untraceable: str = ""  # why there is no graph of it, only weights; empty where there is one
    # the functions that a search calls step by step, by name; ONNX has them in the place of the whole
    parts: Mapping[str, "ExportGraph"] = field(default_factory=dict)


def outputs_of(run: Run, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """All outputs of a function, also where there is one only."""
    outputs = run(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def random_tokens(generator: torch.Generator, vocabulary: int, batch: int, length: int) -> Tensor:
    """Tokens that are not special, ``[batch, length]``."""
    return torch.randint(EOS + 1, vocabulary, (batch, length), generator=generator)
