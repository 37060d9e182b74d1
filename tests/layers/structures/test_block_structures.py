"""Monarch, BLAST, block circulant, sparse plus low rank: against matrices built entry by entry; as special cases."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.errors import PhmrunError
from phmrun.layers import build_structure
from phmrun.layers.block_matrix import choose_blocks
from phmrun.layers.structures.sparse_low_rank import draw_places
from phmrun.registry import STRUCTURES

NEW = ("monarch", "blast", "block-circulant", "sparse-low-rank")
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


def test_one_block_is_the_circulant_matrix():
    structure, circulant = drawn("block-circulant", 9, 9, size=9), drawn("circulant", 9, 9)
    structure.columns.data = circulant.column.data.view(1, 1, 9)
    torch.testing.assert_close(structure.materialize(), circulant.materialize())
    inputs = torch.randn(4, 9).double()
    torch.testing.assert_close(structure.apply_factored(inputs), circulant.apply_factored(inputs))


@pytest.mark.parametrize(("size", "rank"), [((5, 7), 2), ((12, 8), 3)])
def test_sparse_plus_low_rank_has_numbers_at_its_places(size, rank):
    structure = drawn("sparse-low-rank", *size, rank=rank, density=0.3, seed=4)
    expected = structure.u @ structure.v
    for row in range(size[0]):
        assert len(set(structure.places[row].tolist())) == round(0.3 * size[1])
        for place, value in zip(structure.places[row], structure.s[row], strict=True):
            expected[row, place] += value
    torch.testing.assert_close(structure.materialize(), expected)


def test_places_depend_on_the_seed_alone_and_are_not_stored():
    torch.manual_seed(1)
    first = build_structure("sparse-low-rank", 30, 40, seed=3)
    torch.manual_seed(2)
    assert torch.equal(first.places, build_structure("sparse-low-rank", 30, 40, seed=3).places)
    assert not torch.equal(first.places, build_structure("sparse-low-rank", 30, 40, seed=4).places)
    assert "places" not in first.state_dict()
    counts = torch.bincount(draw_places(4000, 10, 3, 0).flatten(), minlength=10)
    assert counts.min() > 0.9 * counts.float().mean()


def test_drawing_places_leaves_the_random_numbers_of_a_run_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_structure("sparse-low-rank", 8, 8)
    torch.testing.assert_close(torch.rand(3), expected)


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("size", [(6, 4), (5, 7)])
def test_gradients_by_finite_differences(name, size):
    structure = drawn(name, *size)
    names, parameters = zip(*structure.named_parameters(), strict=True)
    inputs = torch.randn(3, size[1], dtype=torch.float64, requires_grad=True)

    def outputs(inputs, *values):
        return torch.func.functional_call(_Applied(structure), dict(zip(_within(names), values, strict=True)), inputs)

    assert torch.autograd.gradcheck(outputs, (inputs, *parameters))


class _Applied(torch.nn.Module):
    def __init__(self, structure):
        super().__init__()
        self.structure = structure

    def forward(self, inputs):
        return self.structure.apply_factored(inputs)


def _within(names):
    return [f"structure.{name}" for name in names]


def test_blast_contains_low_rank():
    low_rank, blast = drawn("low-rank", 12, 8, rank=3), drawn("blast", 12, 8, blocks=2, rank=3)
    blast.d.data.fill_(1.0)
    blast.b.data = low_rank.u.data.view(2, 6, 3)
    blast.c.data = low_rank.v.data.view(3, 2, 4).transpose(0, 1).contiguous()
    torch.testing.assert_close(blast.materialize(), low_rank.materialize())


def test_blast_contains_block_diagonal():
    group, blast = drawn("group", 12, 8, groups=2), drawn("blast", 12, 8, blocks=2, rank=4)
    blast.d.data = torch.eye(2).double().expand(4, 2, 2).clone()
    blast.b.data = group.block.data
    blast.c.data = torch.eye(4).double().expand(2, 4, 4).clone()
    torch.testing.assert_close(blast.materialize(), group.materialize())


def test_blast_contains_monarch():
    blocks, rank = 3, 2
    monarch = drawn("monarch", 12, 9, blocks=blocks, rank=rank)
    blast = drawn("blast", 12, 9, blocks=blocks, rank=blocks * blocks * rank)
    for factor in (blast.b, blast.c, blast.d):
        factor.data.zero_()
    for i in range(blocks):
        for j in range(blocks):
            for r in range(rank):
                ours = (i * blocks + j) * rank + r
                blast.b.data[i, :, ours] = monarch.left.data[i, :, j * rank + r]
                blast.c.data[j, ours] = monarch.right.data[j, i * rank + r]
                blast.d.data[ours, i, j] = 1.0
    torch.testing.assert_close(blast.materialize(), monarch.materialize())


def test_monarch_of_one_block_is_low_rank():
    low_rank, monarch = drawn("low-rank", 7, 5, rank=2), drawn("monarch", 7, 5, blocks=1, rank=2)
    monarch.left.data, monarch.right.data = low_rank.u.data.unsqueeze(0), low_rank.v.data.unsqueeze(0)
    torch.testing.assert_close(monarch.materialize(), low_rank.materialize())


def test_phm_is_a_tensor_train_of_two_cores():
    phm = drawn("phm", 12, 8, n=4)
    train = torch.einsum("iab,ipq->apbq", phm.a, phm.s)  # cores [1, a, b, i] and [i, p, q, 1], joined over i
    torch.testing.assert_close(phm.materialize(), train.reshape(12, 8))


@pytest.mark.parametrize("name", ["monarch", "blast"])
def test_of_rank_one_every_block_has_rank_one(name):
    weight = drawn(name, 12, 8, blocks=2, rank=1).materialize()
    for rows in weight.split(6):
        for block in rows.split(4, dim=1):
            assert torch.linalg.matrix_rank(block) == 1


def test_the_default_monarch_has_full_rank_within_its_budget():
    for size in ((512, 512), (512, 2048), (2048, 512), (300, 300)):
        structure = drawn("monarch", *size)
        assert structure.kept() <= size[0] * size[1] / 4
        assert structure.blocks**2 * structure.rank >= 0.75 * min(size)
    assert torch.linalg.matrix_rank(drawn("monarch", 64, 64).materialize()) == 64
    assert torch.linalg.matrix_rank(drawn("low-rank", 64, 64).materialize()) == 8


@pytest.mark.parametrize("name", [*NEW, "guided"])
def test_defaults_serve_a_common_map_at_a_quarter(name):
    assert 0.2 < STRUCTURES.get(name).count(2048, 512) / (2048 * 512) < 0.2502
    assert 0.2 < STRUCTURES.get(name).count(512, 2048) / (2048 * 512) < 0.2502


def test_blocks_are_those_that_full_rank_takes():
    assert choose_blocks(512, 512, "1/4") == 8
    assert choose_blocks(650, 650, "1/4") == 10  # divides, and costs no padding
    assert choose_blocks(3, 512, "1/4") == 1
    assert choose_blocks(8001, 512, "1/8") == 16


def test_normalized_cores_stay_within_what_they_were_drawn_with():
    structure = drawn("monarch", 16, 16, normalize=True)
    weight = structure.materialize()
    structure.left.data.mul_(50.0)
    torch.testing.assert_close(structure.materialize(), weight, rtol=0.05, atol=0.01)
    structure.left.data.div_(500.0)
    torch.testing.assert_close(structure.materialize(), weight / 10, rtol=0.1, atol=0.01)
    structure.gain.data.mul_(2.0)
    torch.testing.assert_close(structure.materialize(), weight * 4 / 10, rtol=0.1, atol=0.01)


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


def test_multiplications_that_build_w_count_once():
    structure = build_structure("phm", 2048, 512, n=4)
    assert structure.multiplications(100) == (100 + 4) * 2048 * 512
    assert structure.multiplications(1, "factored") < 2 * 2048 * 512
