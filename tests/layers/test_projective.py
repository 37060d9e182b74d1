"""Projective embeddings: rows of a product of two matrices."""

import torch

from phmrun.layers import ProjectiveEmbedding, folded


def test_rows_of_the_product():
    torch.manual_seed(0)
    table = ProjectiveEmbedding(50, 12, 5)
    tokens = torch.randint(0, 50, (3, 7))
    product = table.table.structure.matrix @ table.project.structure.matrix.t()
    torch.testing.assert_close(table(tokens), product[tokens])
    torch.testing.assert_close(table.weight, product)
    torch.testing.assert_close(folded(table)(tokens), table(tokens))


def test_count_and_scale():
    table = ProjectiveEmbedding(4000, 64, 16)
    assert sum(parameter.numel() for parameter in table.parameters()) == 4000 * 16 + 16 * 64
    assert 0.9 < table.weight.std() < 1.1


def test_structure_in_both_matrices():
    table = ProjectiveEmbedding(48, 12, 6, structure="phm", n=2)
    assert sum(parameter.numel() for parameter in table.parameters()) == (48 * 6 + 6 * 12) // 2 + 16
    table(torch.arange(48)).sum().backward()
    assert all(parameter.grad is not None for parameter in table.parameters())
