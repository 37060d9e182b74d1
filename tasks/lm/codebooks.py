"""Word vectors as sums of codewords: M codebooks of K codewords, one code per word and codebook.

Formula:        E[v] ≈ Σ_m C_m[code[v, m]], m = 1 … M, C_m [K, width]
Memory:         V·M·log₂(K) bits of codes, M·K·width numbers
Learned codes:  h = tanh(W E[v] + b);  α_m = softplus(W_m h + b_m);  d_m = softmax(log α_m + G), G drawn from
                Gumbel(0, 1);  E'[v] = Σ_m d_m C_m, trained on ‖E'[v] - E[v]‖² / 2;  finally code[v, m] = argmax α_m
Source:         Shu and Nakayama, "Compressing Word Embeddings via Deep Compositional Code Learning", ICLR 2018,
                section 4. Settings of section 5: temperature 1, Adam at 0.0001, 128 words a step, 200,000 steps
                (32 codebooks of 16 codewords in Table 5 of Mehta et al. 2020).

The table is scaled to a mean square of 1 (ours).
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.progress import progress

BATCH = 128  # words per gradient step
RATE = 1e-4  # learning rate of Adam


class CodebookEmbedding(nn.Module):
    """Embedding of summed codewords, not trainable.

    Args:
        codes: Codes ``[words, M]``, each below K.
        codewords: Codewords ``[M, K, width]``.
    """

    codes: Tensor
    codewords: Tensor

    def __init__(self, codes: Tensor, codewords: Tensor) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = len(codes), codewords.shape[2]
        self.register_buffer("codes", codes.to(torch.uint8 if codewords.shape[1] <= 256 else torch.int32))
        self.register_buffer("codewords", codewords)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up the vectors of token ids: ``[…] -> […, width]``.

        Each is the sum of its M codewords.
        """
        return _decoded(self.codes[tokens], self.codewords)

    @property
    def weight(self) -> Tensor:
        """Table of all vectors ``[words, width]``."""
        return _decoded(self.codes, self.codewords)

    @property
    def bytes(self) -> int:
        """Size in bytes of the codes, packed to bits, and the codewords.

        A code takes log₂ K bits, rounded up.
        """
        books, size, _ = self.codewords.shape
        bits = self.num_embeddings * books * math.ceil(math.log2(size))
        return math.ceil(bits / 8) + self.codewords.numel() * self.codewords.element_size()


class CodeLearner(nn.Module):
    """Encoder that selects codewords softly; its codewords are trained, too."""

    def __init__(self, width: int, codebooks: int, codewords: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, max(codebooks * codewords // 2, 1))
        self.choice = nn.Linear(self.hidden.out_features, codebooks * codewords)
        self.books = nn.Parameter(torch.randn(codebooks, codewords, width) * codebooks**-0.5)

    def strengths(self, vectors: Tensor) -> Tensor:
        """Return log α, ``[words, width] -> [words, M, K]``.

        α is softplus(W_m h + b_m), at least 1e-20.
        """
        chosen = F.softplus(self.choice(torch.tanh(self.hidden(vectors))))
        return chosen.clamp_min(1e-20).log().unflatten(1, self.books.shape[:2])

    def forward(self, vectors: Tensor, noise: Tensor) -> Tensor:
        """Return vectors rebuilt from soft codes, ``[words, width]``.

        Codes are softmax(log α + noise).

        Args:
            vectors: ``[words, width]``.
            noise: ``[words, M, K]``, drawn from Gumbel(0, 1).
        """
        return torch.einsum("vmk,mkd->vd", (self.strengths(vectors) + noise).softmax(-1), self.books)


def learn_codes(
    table: Tensor, codebooks: int, codewords: int, *, steps: int, rate: float = RATE, seed: int = 0
) -> CodebookEmbedding:
    """Approximate a table, with codes learned by gradient descent.

    Runs on the CPU and shows progress. The global random state is unchanged. A step has :data:`BATCH` random words. In
    training the table is scaled to a mean square of 1; the codewords are scaled back. A word's code is at last the
    strongest codeword of each codebook, without noise.

    Args:
        table: Vectors ``[words, width]``; unchanged.
        codebooks: M.
        codewords: K.
        steps: Steps of Adam.
        rate: Adam's learning rate.
        seed: Seed of the initial weights, batches and noise.

    Returns:
        The embedding, on the table's device.
    """
    scale = table.detach().float().square().mean().sqrt().clamp_min(1e-12).cpu()
    rows = table.detach().float().cpu() / scale
    with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        # Autograd refuses tensors created in the caller's inference mode, but not a copy created here.
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


def _decoded(codes: Tensor, books: Tensor) -> Tensor:
    """Return sums of codewords, ``[…, M] -> […, width]``.

    They are added in the order of the codebooks.
    """
    total = books[0][codes[..., 0].long()]
    for book in range(1, len(books)):
        total = total + books[book][codes[..., book].long()]
    return total
