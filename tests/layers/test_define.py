"""DeFINE embeddings: the paper's nearest counts, the cached table, tying with an adaptive softmax, folding."""

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import AdaptiveInput, AdaptiveSoftmax, DeFINE

SMALL = {"max_groups": 4, "multiple_of": 4}


def small(**options):
    torch.manual_seed(0)
    return DeFINE(30, 12, 8, 32, 3, **SMALL, **options)


def size_of(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(
    ("depth", "width", "options", "count"),
    [
        (3, 256, {}, 403_584),
        (3, 256, {"schedule": "cycle", "norm": True}, 408_704),
        (7, 384, {"schedule": "cycle", "norm": True}, 1_827_298),
        (11, 512, {"schedule": "cycle", "norm": True}, 3_912_742),
    ],
)
def test_define_parameter_count_is_near_the_papers(depth, width, options, count):
    """The paper prints 0.41, 1.83 and 3.89 million; with a cycle of groups and norms the numbers come nearest."""
    with torch.device("meta"):
        mapping = nn.Embedding(10, width)
        assert size_of(DeFINE(10, width, width, 1024, depth, mapping=mapping, **options)) - 10 * width == count


def test_the_last_map_sees_expansion_and_mapping():
    module = small(norm=False)
    tokens = torch.tensor([3, 29])
    vectors = module.mapping(tokens)
    joined = torch.cat([module.expand(vectors), vectors], 1)
    torch.testing.assert_close(module(tokens), joined @ module.reduce.weight.t() + module.reduce.bias)
    assert small(connection="plain").reduce.in_features == 32


@pytest.mark.parametrize(
    "options", [{}, {"connection": "plain"}, {"connection": "residual"}, {"shared": False, "bias": False}], ids=str
)
def test_every_parameter_gets_a_gradient(options):
    module = small(**options)
    module(torch.arange(30).view(5, 6)).square().sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0 or name.endswith("norm.bias"), name


def test_the_cached_table_gives_the_computed_embeddings():
    module = small().eval()
    tokens = torch.randint(0, 30, (4, 5))
    computed = module(tokens)
    with torch.no_grad():
        torch.testing.assert_close(module(tokens), computed)
        torch.testing.assert_close(module(tokens), module.weight[tokens])
    assert computed.requires_grad
    assert not [name for name in module.state_dict() if name.startswith(("table", "_table"))]


def test_repeated_tokens_are_computed_once_and_sum_their_gradients(monkeypatch):
    module = small()
    tokens = torch.tensor([[4, 7, 4], [4, 9, 7]])
    weights = torch.randn(2, 3, 12)
    (module(tokens) * weights).sum().backward()
    actual = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    (module.embed(tokens.flatten()).view(2, 3, 12) * weights).sum().backward()
    for ours, parameter in zip(actual, module.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-4, atol=1e-5)
    embed, calls = module.embed, []
    monkeypatch.setattr(module, "embed", lambda tokens: calls.append(len(tokens)) or embed(tokens))
    module(tokens)
    assert calls == [3]


def changed_by_step(module):
    with torch.no_grad():
        module.reduce.bias.add_(1.0)


def changed_by_assigning(module):
    module.load_state_dict({name: value + 1 for name, value in module.state_dict().items()}, assign=True)


def changed_by_replacing(module):
    module.reduce.bias = torch.nn.Parameter(module.reduce.bias.detach() + 1.0)


def changed_by_type(module):
    module.double()


@pytest.mark.parametrize(
    "change",
    [
        changed_by_step,
        changed_by_assigning,
        changed_by_replacing,
        changed_by_type,
    ],
)
def test_the_table_follows_the_parameters(change):
    module = small().eval()
    tokens = torch.arange(30)
    with torch.no_grad():
        before = module(tokens)
    change(module)
    with torch.no_grad():
        after = module(tokens)
        torch.testing.assert_close(after, module.embed(tokens))
    assert not torch.equal(before.double(), after.double())


def test_an_adaptive_input_as_mapping_shared_with_the_output():
    torch.manual_seed(0)
    mapping = AdaptiveInput(30, 16, (5, 12))
    embedding = DeFINE(30, 16, 16, 32, 3, mapping=mapping, **SMALL)
    output = AdaptiveSoftmax(16, 30, tied=mapping)
    both = nn.ModuleList([embedding, output])
    assert size_of(both) == size_of(embedding) + 2 * 16
    loss = output(embedding(torch.randint(0, 30, (4, 6))), torch.randint(0, 30, (4, 6))).loss
    loss.backward()
    assert all(parameter.grad is not None for parameter in both.parameters())


def test_define_refuses_options_that_do_not_fit():
    with pytest.raises(PhmrunError, match="layer 'dense' has no option"):
        DeFINE(30, 12, 8, 32, 3, groups=4)
