"""Codes and codewords of a table learnt by gradient steps, with Gumbel-softmax in the place of a choice.

Formula:        h = tanh(W E[v] + b);  α_m = softplus(W_m h + b_m);  d_m = softmax(log α_m + G), G drawn from
                Gumbel(0, 1);  E'[v] = Σ_m d_m C_m, trained on ‖E'[v] - E[v]‖² / 2;  in the end code[v, m] = argmax α_m
Source:         Shu and Nakayama, "Compressing Word Embeddings via Deep Compositional Code Learning", ICLR 2018,
                section 4 and the settings of section 5: temperature 1, Adam at 0.0001, 128 words a step, 200,000 steps

Entries of the table are brought to a mean square of 1 for the learning, which is ours.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.progress import progress
from phmrun.tasks.lm.codebooks import CodebookEmbedding, check_codes

BATCH = 128  # words in a step
RATE = 1e-4  # learning rate of Adam


class CodeLearner(nn.Module):
    """Sums of codewords whose codes an encoder chooses softly.

    Args:
        width: Size of a vector.
        codebooks: M.
        codewords: K.
    """

    def __init__(self, width: int, codebooks: int, codewords: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, max(codebooks * codewords // 2, 1))
        self.choice = nn.Linear(self.hidden.out_features, codebooks * codewords)
        self.books = nn.Parameter(torch.randn(codebooks, codewords, width) * codebooks**-0.5)

    def strengths(self, vectors: Tensor) -> Tensor:
        """The logarithm of α, ``[words, width] -> [words, M, K]``."""
        chosen = F.softplus(self.choice(torch.tanh(self.hidden(vectors))))
        return chosen.clamp_min(1e-20).log().unflatten(1, self.books.shape[:2])

    def forward(self, vectors: Tensor, noise: Tensor) -> Tensor:
        """Vectors rebuilt from soft codes, ``noise [words, M, K]`` of Gumbel's distribution."""
        return torch.einsum("vmk,mkd->vd", (self.strengths(vectors) + noise).softmax(-1), self.books)


def learn_codes(
    table: Tensor, codebooks: int, codewords: int, *, steps: int, rate: float = RATE, seed: int = 0
) -> CodebookEmbedding:
    """Codes and codewords whose sums come near the rows of a table, learnt.

    Args:
        table: ``[words, width]``.
        codebooks: M.
        codewords: K.
        steps: Gradient steps.
        rate: Adam's.
        seed: Of everything that is drawn.

    Raises:
        PhmrunError: There is nothing to choose among.
    """
    check_codes(codebooks, codewords)
    scale = table.detach().float().square().mean().sqrt().clamp_min(1e-12).cpu()
    rows = table.detach().float().cpu() / scale
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        rows = rows.clone()
        learner = CodeLearner(rows.shape[1], codebooks, codewords)
        optimizer = torch.optim.Adam(learner.parameters(), rate)
        with progress("learning codes", steps, "steps") as advance:
            for _ in range(steps):
                vectors = rows[torch.randint(len(rows), (BATCH,))]
                noise = -torch.empty(len(vectors), codebooks, codewords).exponential_().log()
                loss = F.mse_loss(learner(vectors, noise), vectors, reduction="sum") / (2 * len(vectors))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                advance(1)
    with torch.no_grad():
        codes = torch.cat([learner.strengths(part).argmax(-1) for part in rows.split(BATCH)])
        books = learner.books * scale
    return CodebookEmbedding(codes.to(table.device), books.to(table.device, table.dtype))
