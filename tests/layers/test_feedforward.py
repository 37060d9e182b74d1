import pytest
import torch
from structure_cases import CASES

from phmrun.layers import FeedForward


@pytest.mark.parametrize(("name", "options"), CASES)
def test_two_maps_with_a_rectifier_between(name, options):
    torch.manual_seed(0)
    block = FeedForward(16, 32, structure=name, **options)
    with torch.no_grad():
        block.expand.bias.normal_()
        block.contract.bias.normal_()
    inputs = torch.randn(2, 3, 16)
    hidden = (inputs @ block.expand.weight.t() + block.expand.bias).clamp(min=0)
    torch.testing.assert_close(block(inputs), hidden @ block.contract.weight.t() + block.contract.bias)


def test_dropout_thins_the_hidden_vector_in_training():
    torch.manual_seed(0)
    block = FeedForward(8, 4096, 0.25)
    with torch.no_grad():
        block.expand.structure.matrix.zero_()
        block.expand.bias.fill_(1.0)
        block.contract.structure.matrix.fill_(1.0)
    # 4096 hidden units of 1, of which three quarters are left and scaled by 4/3.
    total = float(block(torch.zeros(8)).detach()[0])
    assert total != 4096
    assert total == pytest.approx(4096, rel=0.05)
    assert float(block.eval()(torch.zeros(8)).detach()[0]) == 4096
