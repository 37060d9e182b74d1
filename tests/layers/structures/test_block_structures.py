"""Monarch, BLAST, block circulant, sparse plus low rank: against matrices built entry by entry; as special cases."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.errors import PhmrunError
from phmrun.layers import build_structure
from phmrun.registry import STRUCTURES

SIZES = st.tuples(st.integers(1, 30), st.integers(1, 30))


def drawn(name, *size, **options):
    torch.manual_seed(0)
    structure = build_structure(name, *size, **options)
    structure.reset_parameters(0.5)
    return structure.double()


def from_blocks(blocks, size):
    """A matrix of blocks ``blocks[i][j]``, cut to its size."""
    return torch.cat([torch.cat(row, 1) for row in blocks])[: size[0], : size[1]]


@settings(max_examples=40, deadline=None)
@given(size=SIZES, blocks=st.integers(1, 4), rank=st.integers(1, 2))
def test_monarch_is_a_matrix_of_blocks_of_rank_r(size, blocks, rank):
    if STRUCTURES.get("monarch").misfit(*size, blocks=blocks, rank=rank):
        return
    structure = drawn("monarch", *size, blocks=blocks, rank=rank)
    left, right = structure.left.detach(), structure.right.detach()
    created = [
        [sum(torch.outer(left[i, :, j * rank + r], right[j, i * rank + r]) for r in range(rank)) for j in range(blocks)]
        for i in range(blocks)
    ]
    torch.testing.assert_close(structure.materialize(), from_blocks(created, size))


@settings(max_examples=40, deadline=None)
@given(size=SIZES, blocks=st.integers(1, 4), rank=st.integers(1, 5))
def test_blast_is_a_matrix_of_coupled_blocks(size, blocks, rank):
    if STRUCTURES.get("blast").misfit(*size, blocks=blocks, rank=rank):
        return
    structure = drawn("blast", *size, blocks=blocks, rank=rank)
    b, c, d = structure.b.detach(), structure.c.detach(), structure.d.detach()
    created = [[b[i] @ torch.diag(d[:, i, j]) @ c[j] for j in range(blocks)] for i in range(blocks)]
    torch.testing.assert_close(structure.materialize(), from_blocks(created, size))


@settings(max_examples=40, deadline=None)
@given(size=SIZES, block=st.integers(1, 9))
def test_block_circulant_is_a_matrix_of_circulant_blocks(size, block):
    if STRUCTURES.get("block-circulant").misfit(*size, size=block):
        return
    structure = drawn("block-circulant", *size, size=block)
    columns = structure.columns.detach()

    def circulant(column):
        return torch.stack([column.roll(place) for place in range(block)], 1)

    created = [[circulant(column) for column in row] for row in columns]
    torch.testing.assert_close(structure.materialize(), from_blocks(created, size))


@pytest.mark.parametrize(("size", "rank"), [((5, 7), 2), ((12, 8), 3)])
def test_sparse_plus_low_rank_has_numbers_at_its_places(size, rank):
    structure = drawn("sparse-low-rank", *size, rank=rank, density=0.3, seed=4)
    expected = structure.u @ structure.v
    for row in range(size[0]):
        assert len(set(structure.places[row].tolist())) == round(0.3 * size[1])
        for place, value in zip(structure.places[row], structure.s[row], strict=True):
            expected[row, place] += value
    torch.testing.assert_close(structure.materialize(), expected)


def test_the_default_monarch_has_full_rank_within_its_budget():
    for size in ((512, 512), (512, 2048), (2048, 512), (300, 300)):
        structure = drawn("monarch", *size)
        assert structure.kept() <= size[0] * size[1] / 4
        assert structure.blocks**2 * structure.rank >= 0.75 * min(size)
    assert torch.linalg.matrix_rank(drawn("monarch", 64, 64).materialize()) == 64
    assert torch.linalg.matrix_rank(drawn("low-rank", 64, 64).materialize()) == 8


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("monarch", {"blocks": 9}, "valid blocks: 1 to 8"),
        ("monarch", {"blocks": 4, "rank": 3}, "valid rank: 1 to 2"),
        ("blast", {"budget": "2"}, "valid: above 0 and at most 1"),
        ("block-circulant", {"size": 17}, "valid size: 1 to 16"),
        ("sparse-low-rank", {"density": 0.0}, "valid density: above 0"),
        ("guided", {"of": "guided"}, "any structure but"),
        ("guided", {"of": "added"}, "any structure but"),
        ("added", {"of": "guided"}, "any structure but"),
        ("added", {"scale": 0.0}, "any number but 0"),
        ("added", {"options": "rank=9"}, "valid rank: 1 to 8"),
        ("guided", {"of": "phm", "options": "m=2"}, "no option 'm'"),
        ("guided", {"of": "phm", "options": "n=3"}, "valid n: 1, 2, 4, 8"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_the_valid_ones(name, options, said):
    with pytest.raises(PhmrunError, match=said):
        build_structure(name, 16, 8, **options)


@pytest.mark.parametrize(
    ("name", "options", "per_token"),
    [
        ("dense", {}, 2048 * 512),
        ("low-rank", {"rank": 10}, 10 * 2560),
        ("monarch", {"blocks": 8, "rank": 3}, 24 * 2560),
        ("blast", {"blocks": 8, "rank": 30}, 30 * (2560 + 64)),
        ("group", {"groups": 4}, 2048 * 512 // 4),
    ],
)
def test_multiplications_per_token(name, options, per_token):
    structure = build_structure(name, 2048, 512, **options)
    assert structure.multiplications(100) == 100 * per_token
