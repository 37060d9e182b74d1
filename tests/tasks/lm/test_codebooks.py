"""Tables as sums of codewords: what is looked up, how near it comes, and what it takes."""

import torch
from torch import nn

from phmrun.tasks.lm.codebooks import CodebookEmbedding, learn_codes


def test_a_lookup_is_a_sum_of_codewords():
    codes = torch.tensor([[0, 2], [1, 1], [1, 0]])
    words = torch.randn(2, 3, 4)
    table = CodebookEmbedding(codes, words)
    tokens = torch.tensor([[2, 0]])
    expected = torch.stack([words[0, 1] + words[1, 0], words[0, 0] + words[1, 2]])[None]
    torch.testing.assert_close(table(tokens), expected)
    torch.testing.assert_close(table.weight[tokens], expected)


def test_it_stands_for_an_embedding():
    torch.manual_seed(0)
    plain = nn.Embedding(50, 8)
    table = learn_codes(plain.weight, 6, 8, steps=2)
    assert (table.num_embeddings, table.embedding_dim) == (50, 8)
    assert table(torch.tensor([3, 4])).shape == (2, 8)
    assert table(torch.tensor([3])).dtype == torch.float32
    assert not list(table.parameters())


def test_codes_are_learnt_by_gradient_steps():
    """16 sums of one of four vectors in each of two groups."""
    torch.manual_seed(0)
    first, second = torch.randn(4, 8), torch.randn(4, 8)
    table = 0.01 * (first[:, None] + second[None]).flatten(0, 1)

    def error(steps):
        learnt = learn_codes(table, 4, 4, steps=steps, rate=0.01, seed=1)
        return float((learnt.weight - table).square().mean() / table.square().mean())

    assert error(400) < 0.2 < error(1)
    before = torch.get_rng_state()
    again = [learn_codes(table, 4, 4, steps=3, seed=2) for _ in range(2)]
    assert torch.equal(again[0].codes, again[1].codes)
    assert torch.equal(torch.get_rng_state(), before)
