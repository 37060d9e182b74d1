"""Small language model of plain torch modules, for tests that convert, store and merge it."""

import torch
from torch import Tensor, nn

TOKENS = torch.arange(20).view(2, 10)


class Reader(nn.Module):
    """A tied language model with attention, an LSTM and a buffer."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.table = nn.Embedding(48, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.output = nn.Linear(16, 48)
        self.output.weight = self.table.weight
        self.register_buffer("scale", torch.ones(()))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.scale * self.output(self.block(self.lstm(self.table(tokens))[0]))
