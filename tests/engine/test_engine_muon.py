"""Muon for matrices and AdamW for the rest, beside torch's own two optimizers."""

import pytest
import torch
from torch import nn

from phmrun.engine.optimizers import build_optimizer

pytestmark = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")


class Net(nn.Module):
    """Table, map with bias, norm, output."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 6)
        self.map = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(5)
        self.output = nn.Linear(5, 7)

    def forward(self, tokens):
        return self.output(self.norm(self.map(self.embedding(tokens))))


def network():
    torch.manual_seed(1)
    return Net()


def advance(net, *optimizers, steps=4):
    for step in range(steps):
        tokens = torch.arange(7) if step % 2 else torch.arange(3)
        net.zero_grad()
        nn.functional.cross_entropy(net(tokens), tokens).backward()
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = 0.01 / (step + 1)
            optimizer.step()


def build(net):
    return build_optimizer(net, name="muon", betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)


def test_a_step_is_torchs_muon_for_maps_and_adamw_for_the_rest():
    ours, theirs = network(), network()
    rest = [parameter for parameter in theirs.parameters() if parameter is not theirs.map.weight]
    muon = torch.optim.Muon([theirs.map.weight], lr=1.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(rest, lr=1.0, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, fused=True)
    advance(ours, build(ours))
    advance(theirs, muon, adamw)
    for (name, weight), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        assert torch.equal(weight, other), name


def test_the_update_of_a_map_is_orthogonal_and_scaled_by_its_sides():
    net = network()
    before = net.map.weight.detach().clone()
    advance(net, build_optimizer(net, name="muon"), steps=1)
    update = (before - net.map.weight.detach()) / 0.01
    singular = torch.linalg.svdvals(update) / (0.2 * 6**0.5)
    # The gradient of three tokens has rank three; five iterations of Newton and Schulz end between 0.7 and 1.2.
    assert 0.5 < singular[2] <= singular[0] < 1.3
