"""Maps of one network that share parameters: what is shared, counted, copied, saved and trained."""

import copy

import pytest
import torch
from built_networks import built
from torch import nn

from phmrun.engine.counting import count_network
from phmrun.layers import FeedForward, share_parameters
from phmrun.models.transformer import Transformer


def network(share, dual=False, **options):
    layer = {"structure": "phm", "n": 4, "share": share, "dual": dual}
    sizes = {"width": 16, "feedforward": 32, "heads": 2, "encoder_layers": 2, "decoder_layers": 2}
    return built(Transformer, 24, 24, layer=layer, **sizes, **options)


def maps(model):
    return [module for module in model.modules() if getattr(module, "name", None) == "phm"]


@pytest.mark.parametrize("dual", [False, True])
def test_shared_parameters_are_counted_once(dual):
    whole = {share: count_network(network(share, dual))["total"] for share in ("none", "model", "kind")}
    mixers = (2 if dual else 1) * 4**3
    several = len(maps(network("none")))
    assert several == 2 * 4 + 2 * 6
    kinds = 4 + 6
    assert whole["none"] - whole["model"] == (several - 1) * mixers
    assert whole["none"] - whole["kind"] == (several - kinds) * mixers
    for share in whole:
        assert whole[share] == sum(parameter.numel() for parameter in network(share, dual).parameters())


def test_maps_of_other_options_do_not_share():
    pair = nn.ModuleList(FeedForward(16, 32, structure="phm", n=n, share="model") for n in (2, 4))
    share_parameters(pair)
    assert pair[0].expand.structure.a is pair[0].contract.structure.a
    assert pair[0].expand.structure.a is not pair[1].expand.structure.a
    share_parameters(pair)
    assert len(list(pair.parameters())) == 2 * (1 + 2 + 2)


def test_copies_and_loaded_states_stay_tied():
    torch.manual_seed(0)
    model = network("model", dual=True)
    twin = copy.deepcopy(model)
    assert len({id(part.a) for part in maps(twin)}) == 1
    other = network("model", dual=True)
    other.load_state_dict(model.state_dict())
    assert len({id(part.b) for part in maps(other)}) == 1
    tokens = torch.tensor([[4, 5, 3]])
    for item in (twin, other):
        torch.testing.assert_close(item.eval()(tokens, None, tokens), model.eval()(tokens, None, tokens))
    half = model.to(torch.bfloat16)
    assert len({id(part.a) for part in maps(half)}) == 1
