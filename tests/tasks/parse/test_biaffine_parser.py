"""The parser: shapes, padding, gradients, and the components' counts by hand."""

import numpy
import pytest
import torch
from built_networks import built

from phmrun.layers import LSTM, folded
from phmrun.tasks.parse.biaffine_parser import BiaffineParser

SIZES = {
    "word_width": 6,
    "tag_width": 4,
    "character_width": 4,
    "character_hidden": 4,
    "hidden": 8,
    "layers": 2,
    "arc_width": 8,
    "label_width": 4,
}
WORDS = torch.tensor([[2, 5, 6, 7], [2, 8, 9, 0]])
TAGS = torch.tensor([[2, 3, 4, 5], [2, 4, 2, 0]])
CHARACTERS = torch.randint(1, 9, (5, 5), generator=torch.Generator().manual_seed(0))
COUNTS = torch.tensor([5, 4, 3, 2, 1])
SPELLINGS = torch.tensor([[4, 2, 0, 3], [4, 0, 1, 4]])
LENGTHS = torch.tensor([4, 3])
BATCH = (WORDS, TAGS, CHARACTERS, COUNTS, SPELLINGS, LENGTHS)


def build(**options):
    torch.manual_seed(0)
    return built(BiaffineParser, 12, 6, 9, 5, **{**SIZES, **options}).double().eval()


def test_a_map_of_a_fixed_vector_is_added_to_the_word_s_own():
    """Ids from 12 on are three rare words, whose own vector is the unknown word's; special ids have a vector of 0."""
    torch.manual_seed(0)
    options = {**SIZES, "start": "parser-v2", "word_start": "zero", "fixed_width": 5}
    network = built(BiaffineParser, 12, 6, 9, 5, 3, **options).double().eval()
    table = dict(network.named_parameters())["embedding.structure.matrix"]
    assert table.count_nonzero() == 0
    assert network.fixed.shape == (15, 5)
    assert "fixed" not in dict(network.named_parameters())
    reach = (3 / 5) ** 0.5  # uniform, of standard deviation 1/√width
    assert 0.5 * reach < network.fixed.abs().max() <= reach
    assert network.fixed[:3].count_nonzero() == 0
    assert network.fixed[3:].all()
    torch.nn.init.normal_(table)
    weight, bias = network.fixed_map.weight, network.fixed_map.bias
    torch.testing.assert_close(weight.T @ weight, torch.eye(5).double(), rtol=0, atol=1e-5)  # drawn in single precision
    assert bias.count_nonzero() == 0
    words = torch.tensor([[2, 1, 7, 11, 12, 14]])
    wanted = [
        table[row] + weight @ network.fixed[word] for row, word in zip((2, 1, 7, 11, 1, 1), words[0], strict=True)
    ]
    torch.testing.assert_close(network._word_vectors(words)[0], torch.stack(wanted))
    drawn = build(fixed_width=5)
    drawn(*BATCH).arcs.sum().backward()
    assert drawn.fixed_map.bias.grad.abs().max() > 0


def test_the_penalty_keeps_the_map_of_fixed_vectors_orthonormal():
    network = build(start="parser-v2", fixed_width=SIZES["word_width"])
    assert network.penalty().item() == pytest.approx(0, abs=1e-9)
    weight = network.fixed_map.structure.matrix
    torch.nn.init.normal_(weight)
    columns = weight.detach().numpy()
    gram = columns @ columns.T - numpy.eye(len(columns))
    assert network.penalty().item() == pytest.approx((gram**2).sum() / 2)
    assert build().penalty().item() == 0


@pytest.mark.parametrize("structure", ["dense", "symmetric", "circulant"])
def test_scores_of_arcs_and_labels(structure):
    network = build(output={"structure": structure})
    scores = network(*BATCH)
    assert scores.arcs.shape == (2, 4, 4)
    heads = torch.tensor([[0, 0, 1, 1], [0, 2, 0, 0]])
    labels = network.label_scores(scores, heads)
    assert labels.shape == (2, 4, 5)
    pair = network.label_classifier(scores.dependents, scores.heads)  # all pairs
    torch.testing.assert_close(labels[0, 2], pair[0, :, 2, 1])
    torch.testing.assert_close(labels[1, 1], pair[1, :, 1, 2])
    picked = network.label_scores(scores, heads, torch.tensor([2, 5]))
    torch.testing.assert_close(picked, torch.stack([labels[0, 2], labels[1, 1]]))
    (scores.arcs.sum() + labels.sum()).backward()
    silent = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    assert silent == []


def test_the_symmetric_arc_form_is_equation_6():
    """A triple inner product, and one linear term of head and dependent side by side."""
    network = build(output={"structure": "symmetric"})
    form = network.arc_classifier
    torch.nn.init.normal_(form.u)
    torch.nn.init.normal_(form.v)
    dependent, head = torch.randn(2, 1, 3, 8, dtype=torch.float64)
    linear = torch.cat([form.v, form.u], dim=1)[0]
    expected = [
        [(form.maps[0].diagonal * h * d).sum() + (linear * torch.cat([h, d])).sum() for h in head[0]]
        for d in dependent[0]
    ]
    torch.testing.assert_close(form(dependent, head)[0], torch.stack([torch.stack(row) for row in expected]))


def test_dropped_embeddings_leave_the_others_scaled():
    network = build(embedding_dropout=0.3, word_dropout=0.2).train()
    words, tags = torch.full((400, 50), 5), torch.full((400, 50), 3)
    inputs = network._inputs(words, tags, torch.zeros(400, 50, 6, dtype=torch.float64))
    word, unknown, tag = (
        network.embedding(torch.tensor(5)),
        network.embedding(torch.tensor(1)),
        network.tags(tags[0, 0]),
    )

    def share(start, end, vector):
        return (inputs[..., start:end] - vector).abs().amax(dim=-1).lt(1e-9).double().mean().item()

    seen = [share(0, 6, word), share(0, 6, 2 * word), share(0, 6, unknown), share(0, 6, 2 * unknown)]
    seen += [share(6, 10, tag), share(6, 10, 2 * tag), share(0, 10, torch.zeros(10))]
    expected = [0.8 * 0.49, 0.8 * 0.21, 0.2 * 0.49, 0.2 * 0.21, 0.49, 0.21, 0.09]
    assert seen == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("structure", ["symmetric", "circulant"])
def test_released_classifiers_start_as_released_beside_parser_v2(structure):
    network = build(start="parser-v2", output={"structure": structure, "variant": "released"})
    arc, label = network.arc_classifier.weight, network.label_classifier.weight
    assert torch.equal(label, label[:1].expand_as(label))
    if structure == "symmetric":
        torch.testing.assert_close(torch.stack([arc[0].norm(), label[0].norm()]), torch.ones(2, dtype=arc.dtype))
    else:  # d times a vector that is uniform on [0, 1)
        assert all(weight.min() >= 0 and weight.max() < len(weight[0]) for weight in (arc, label))
    assert not build(start="parser-v2", output={"structure": structure}).arc_classifier.weight.any()


@pytest.mark.parametrize("structure", ["dense", "symmetric", "circulant"])
@pytest.mark.parametrize("cell", ["parser-v2", "plain", "coupled"])
def test_the_folded_parser_scores_the_same(structure, cell):
    pooling = "attention-cell" if cell == "parser-v2" else "last"
    layer = {"structure": "phm", "n": 2}
    network = build(output={"structure": structure}, cell=cell, character_pooling=pooling, layer=layer)
    for module in network.modules():
        if isinstance(getattr(module, "state", None), torch.nn.Parameter):  # learnt, and no longer at 0
            torch.nn.init.normal_(module.state)
    plain = folded(network)
    torch.testing.assert_close(plain(*BATCH).arcs, network(*BATCH).arcs)
    kinds = {type(module) for module in plain.modules()}
    assert torch.nn.LSTM in kinds
    assert LSTM not in kinds


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("structure", "arc", "label"),
    [
        ({"structure": "dense"}, 400**2 + 400, 37 * (100**2 + 2 * 100 + 1)),
        ({"structure": "symmetric", "variant": "released"}, 400 * 3, 37 * 300),
        ({"structure": "circulant", "variant": "released"}, 1_600, 14_800),
        ({"structure": "circulant"}, 400 * 3, 37 * 300),
    ],
    ids=str,
)
def test_the_papers_components(structure, arc, label):
    with torch.device("meta"):
        sizes = {"character_width": 100, "cell": "parser-v2", "output": structure}
        network = built(BiaffineParser, 10, 10, 10, 37, **sizes)
    assert size(network.arc_classifier) == arc
    assert size(network.label_classifier) == label
    assert size(network.letter_lstm) == 4 * 200 * (100 + 200) + 4 * 200 + 2 * 200 == 241_200
    assert size(network.lstm) == 2 * (4 * 200 * 400 + 1_200) + 4 * (4 * 200 * 600 + 1_200) == 2_567_200
    # The paper prints what layers 2 and 3 would have with half of their inputs.
    assert size(network.lstm) - 4 * 4 * 200 * 200 == 1_927_200
    assert size(network.arc_mlp) == 2 * 400 * 401
    assert size(network.label_mlp) == 2 * 100 * 401
