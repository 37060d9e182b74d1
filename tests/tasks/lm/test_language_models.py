"""Language models: text in pieces equals text at once, the future is hidden, sizes by hand."""

import itertools

import pytest
import torch
from built_networks import built

from phmrun.errors import PhmrunError
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.transformer_xl import TransformerXL

TOKENS = torch.randint(0, 40, (2, 9), generator=torch.Generator().manual_seed(1))
DEFINE = {"structure": "define", "depth": 2, "expansion": 32, "max_groups": 2, "multiple_of": 4}
TABLES = [
    {},
    {"structure": "adaptive", "cutoffs": [10, 20]},
    {"structure": "projective", "cutoffs": [10, 20], "width": 4},
    DEFINE,
    {**DEFINE, "cutoffs": [10, 20], "div_value": 2, "width": 4},
    {**DEFINE, "reduce": False},
]


def lstm(**options):
    torch.manual_seed(0)
    return built(LSTMLanguageModel, 40, width=16, hidden=24, layers=3, **options).double().eval()


def xl(**options):
    torch.manual_seed(0)
    sizes = {"width": 16, "inner": 24, "heads": 2, "head_width": 8, "layers": 3, "memory": 30}
    network = built(TransformerXL, 40, **sizes, **{"output_bias": True, **options})
    with torch.no_grad():
        for bias in network.context_bias.parameters():
            bias.normal_()
    return network.double().eval()


@torch.no_grad()
@pytest.mark.parametrize("build", [lstm, xl])
@pytest.mark.parametrize("tables", TABLES)
def test_text_in_pieces_equals_text_at_once(build, tables):
    if build is xl and tables.get("reduce") is False:
        with pytest.raises(PhmrunError, match="vectors of 32 numbers, but the network reads 16"):
            build(embedding=tables)
        return
    network = build(embedding=tables)
    whole = network(TOKENS).hidden
    state, parts = None, []
    for start, end in itertools.pairwise((0, 4, 5, 9)):
        part, _, state = network(TOKENS[:, start:end], state)
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts, 1), whole)


@torch.no_grad()
@pytest.mark.parametrize("build", [lstm, xl])
def test_the_future_is_hidden(build):
    network = build()
    changed = TOKENS.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 40
    first, second = network(TOKENS).hidden, network(changed).hidden
    torch.testing.assert_close(first[:, :5], second[:, :5])
    assert not torch.allclose(first[:, 5:], second[:, 5:])


@pytest.mark.parametrize("build", [lstm, xl])
@pytest.mark.parametrize("tables", TABLES[:5])
def test_every_parameter_learns(build, tables):
    network = build(embedding=tables, output_bias=True).train()
    targets = torch.arange(18).view(2, 9) * 2  # words of every cluster
    hidden = network(targets.flip(1)).hidden
    network.loss(hidden, targets).loss.backward()
    assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []


@torch.no_grad()
def test_relative_scores_term_by_term():
    """Equations (a) to (d) of section 3.3, one pair of positions at a time."""
    network = xl()
    layer, bias = network.context[0].attention, network.context_bias
    inputs, memory = torch.randn(1, 3, 16).double(), torch.randn(1, 2, 16).double()
    distances = torch.randn(5, 16).double()  # row r is the distance 4 - r
    actual = layer(inputs, memory, distances, bias)
    everything = torch.cat([memory, inputs], 1)[0]
    query, key, value = layer.project.weight.split(16)
    heads = []
    for head in range(2):
        part = slice(8 * head, 8 * head + 8)
        rows = []
        for i in range(3):
            scores = torch.full((5,), float("-inf")).double()
            for j in range(2 + i + 1):
                q = query[part] @ inputs[0, i]
                r = layer.distance.weight[part] @ distances[4 - (2 + i - j)]
                scores[j] = ((q + bias.u[head]) @ (key[part] @ everything[j]) + (q + bias.v[head]) @ r) / 8**0.5
            rows.append(scores.softmax(0) @ (everything @ value[part].t()))
        heads.append(torch.stack(rows))
    expected = torch.cat(heads, 1) @ layer.output.weight.t()
    torch.testing.assert_close(actual[0], expected, rtol=1e-6, atol=1e-6)


def size(network):
    return sum(parameter.numel() for parameter in network.parameters())


def test_sizes_by_hand():
    embedding = {"structure": "adaptive", "cutoffs": [20_000, 40_000, 200_000]}
    with torch.device("meta"):
        adaptive = built(LSTMLanguageModel, 267_735, width=256, hidden=1024, layers=4, embedding=embedding)
    clusters = 20_000 * 256 + 20_000 * 64 + 160_000 * 16 + 67_735 * 4
    context = sum(4 * out * (into + out + 2) for into, out in ((256, 1024), (1024, 1024), (1024, 1024), (1024, 256)))
    assert size(adaptive) == clusters + 256 * (64 + 16 + 4) + 3 * 256 + context


def test_words_dropped_whole():
    torch.manual_seed(0)
    network = lstm(word_dropout=0.5).train()
    vectors = network._words(TOKENS)
    gone = (vectors == 0).all(-1)
    assert gone.any()
    assert not gone.all()
    by_word = {}
    for word, zero in zip(TOKENS.flatten().tolist(), gone.flatten().tolist(), strict=True):
        assert by_word.setdefault(word, zero) == zero


def by_hand_of_the_original(network, memory, length, attribute):
    """Attended positions, from the masks of Dai et al.'s code: ones above and below two diagonals are left out."""
    total = memory + length
    ones = torch.ones(length, total)
    beyond = total - network.memory
    shift = length - beyond if beyond > 0 else length
    return (ones.triu(1 + memory) + ones.tril(-shift)).bool() if attribute else ones.triu(1 + memory).bool()


@pytest.mark.parametrize("before", [0, 3, 6])
def test_same_length_masks_as_the_original_does(before, monkeypatch):
    network = xl().eval()
    network.memory, network.same_length = 6, True
    seen = []
    attend = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda query, key, value, scores, *_, **options: (
            seen.append(scores.isinf()[0, 0]) or attend(query, key, value, scores)
        ),
    )
    state = network(torch.randint(0, 40, (1, before)), None).state if before else None
    seen.clear()
    network(torch.randint(0, 40, (1, 4)), state)
    assert all(torch.equal(mask, by_hand_of_the_original(network, before, 4, True)) for mask in seen)
