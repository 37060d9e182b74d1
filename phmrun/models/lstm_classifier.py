"""Two sentences read by one LSTM and compared: natural language inference (Zhang et al. 2021, section 4.1)."""

import itertools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phmrun.layers import LSTM, Embedding, Linear
from phmrun.layers.lstm import GateMapping


class SentencePairClassifier(nn.Module):
    """softmax(MLP([max_t a_t, mean_t a_t, max_t b_t, mean_t b_t])), a and b the LSTM's outputs on the two sentences.

    Args:
        vocabulary: Vocabulary entries.
        classes: Classes to tell apart.
        width: Size of a word vector.
        hidden: Size of the LSTM's hidden vector.
        mlp: Size of the hidden vectors of the MLP.
        mlp_layers: Hidden layers of the MLP.
        dropout: Share of word vectors and of the MLP's inputs dropped in training.
        train_embedding: Whether word vectors are learnt; the paper's are GloVe's and stay.
        maps: LSTM gates as eight maps ("gate") or two ("stacked").
        layer: Structure of the LSTM's maps and its options.
        embedding: The same for the word vectors.
        output: The same for the MLP.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """

    def __init__(
        self,
        vocabulary: int,
        classes: int = 3,
        *,
        width: int = 300,
        hidden: int = 300,
        mlp: int = 300,
        mlp_layers: int = 2,
        dropout: float = 0.0,
        train_embedding: bool = False,
        maps: GateMapping = "gate",
        layer: Mapping[str, Any] | None = None,
        embedding: Mapping[str, Any] | None = None,
        output: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.embedding = Embedding(vocabulary, width, **(embedding or {}))
        self.embedding.requires_grad_(train_embedding)
        self.lstm = LSTM(width, hidden, batch_first=True, maps=maps, **(layer or {}))
        sizes = [4 * hidden, *[mlp] * mlp_layers]
        self.mlp = nn.ModuleList(Linear(wide, narrow, **(output or {})) for wide, narrow in itertools.pairwise(sizes))
        self.output = Linear(sizes[-1], classes)

    def forward(self, first: Tensor, first_lengths: Tensor, second: Tensor, second_lengths: Tensor) -> Tensor:
        """Logits of the classes.

        Args:
            first: ``[batch, length]`` of tokens, the premise.
            first_lengths: ``[batch]``, tokens of each.
            second: ``[batch, other length]`` of tokens, the hypothesis.
            second_lengths: ``[batch]``.

        Returns:
            ``[batch, classes]``.
        """
        # One run over both sentences, so that the gate matrices are built once.
        length = max(first.shape[1], second.shape[1])
        tokens = torch.cat([F.pad(part, (0, length - part.shape[1])) for part in (first, second)])
        summary = self.summarise(tokens, torch.cat([first_lengths, second_lengths]))
        hidden = torch.cat(summary.chunk(2), dim=1)
        for linear in self.mlp:
            hidden = F.relu(linear(F.dropout(hidden, self.dropout, self.training)))
        return self.output(F.dropout(hidden, self.dropout, self.training))

    def summarise(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Maximum and mean of the LSTM's outputs, ``[sentences, length] -> [sentences, 2·hidden]``."""
        vectors = F.dropout(self.embedding(tokens), self.dropout, self.training)
        packed = pack_padded_sequence(vectors, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        padding = torch.arange(outputs.shape[1], device=lengths.device) >= lengths[:, None]  # [sentences, length]
        highest = outputs.masked_fill(padding[..., None], float("-inf")).amax(1)
        return torch.cat([highest, outputs.sum(1) / lengths[:, None]], dim=1)
