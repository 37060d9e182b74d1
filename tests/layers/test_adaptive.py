"""Adaptive input and output against torch's own adaptive softmax, a dense softmax, and the papers' counts."""

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import AdaptiveInput, AdaptiveSoftmax, Linear, folded, for_inference

CUTOFFS = (7, 12, 29)


def size_of(module):
    return sum(parameter.numel() for parameter in module.parameters())


def torchs(softmax):
    """torch's adaptive softmax with the same weights."""
    bias = softmax.tables[0].bias is not None
    built = nn.AdaptiveLogSoftmaxWithLoss(
        softmax.in_features, softmax.n_classes, CUTOFFS, div_value=4.0, head_bias=bias
    )
    with torch.no_grad():
        built.head.weight.copy_(torch.cat([softmax.tables[0].weight, softmax.cluster_weight]))
        if bias:
            built.head.bias.copy_(torch.cat([softmax.tables[0].bias, softmax.cluster_bias]))
        for tail, table, projection in zip(built.tail, softmax.tables[1:], softmax.projections[1:], strict=True):
            tail[0].weight.copy_(projection.weight.t())
            tail[1].weight.copy_(table.weight)
    return built


def dense_log_prob(softmax, hidden):
    """Reference for one word at a time, in plain Python."""
    rows = []
    for vector in hidden:
        inner = [p.weight.t() @ vector if isinstance(p, Linear) else vector for p in softmax.projections]
        logits = []
        for table, entered in zip(softmax.tables, inner, strict=True):
            part = table.weight @ entered
            logits.append(part if table.bias is None else part + table.bias)
        clusters = softmax.cluster_weight @ inner[0]
        if softmax.cluster_bias is not None:
            clusters = clusters + softmax.cluster_bias
        normaliser = torch.cat([logits[0], clusters]).exp().sum().log()
        row = list(logits[0] - normaliser)
        for cluster, part in zip(clusters, logits[1:], strict=True):
            row += list(part - part.exp().sum().log() + cluster - normaliser)
        rows.append(torch.stack(row))
    return torch.stack(rows)


def test_equals_torchs_adaptive_softmax_with_gradients():
    torch.manual_seed(0)
    softmax = AdaptiveSoftmax(64, 41, CUTOFFS)
    theirs = torchs(softmax)
    hidden = torch.randn(50, 64)
    targets = torch.randint(0, 41, (50,))
    ours_in, theirs_in = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
    ours = softmax(ours_in, targets)
    reference = theirs(theirs_in, targets)
    torch.testing.assert_close(ours.loss / 50, reference.loss)
    torch.testing.assert_close(ours.nll / 50, reference.loss)
    torch.testing.assert_close(softmax.nll(hidden, targets), -reference.output, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(softmax.log_prob(hidden), theirs.log_prob(hidden), rtol=1e-5, atol=1e-5)
    ours.loss.backward()
    (reference.loss * 50).backward()
    torch.testing.assert_close(ours_in.grad, theirs_in.grad, rtol=1e-4, atol=1e-5)
    head = torch.cat([softmax.tables[0].structure.matrix.grad, softmax.cluster_weight.grad])
    torch.testing.assert_close(head, theirs.head.weight.grad, rtol=1e-4, atol=1e-5)
    for number, tail in enumerate(theirs.tail, start=1):
        table, projection = softmax.tables[number].structure.matrix, softmax.projections[number].structure.matrix
        torch.testing.assert_close(table.grad, tail[1].weight.grad, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(projection.grad.t(), tail[0].weight.grad, rtol=1e-4, atol=1e-5)


OPTIONS = [
    {"bias": True},
    {"width": 16, "div_value": 1.0, "bias": True},
    {"width": 16, "div_value": 2.0},
    {"structure": "phm", "n": 1},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("tied", [False, True])
def test_log_probabilities_equal_a_dense_softmax(options, tied):
    torch.manual_seed(1)
    options = dict(options)
    bias = options.pop("bias", False)
    if tied:
        softmax = AdaptiveSoftmax(64, 41, bias=bias, tied=AdaptiveInput(41, 64, CUTOFFS, **options))
    else:
        softmax = AdaptiveSoftmax(64, 41, CUTOFFS, bias=bias, **options)
    for table in softmax.tables:
        if table.bias is not None:
            nn.init.normal_(table.bias)
    if softmax.cluster_bias is not None:
        nn.init.normal_(softmax.cluster_bias)
    hidden = torch.randn(3, 41, 64)
    actual = softmax.log_prob(hidden)
    torch.testing.assert_close(actual.exp().sum(-1), torch.ones(3, 41))
    torch.testing.assert_close(actual.view(-1, 41), dense_log_prob(softmax, hidden.view(-1, 64)), rtol=1e-4, atol=1e-5)
    targets = torch.stack([torch.randperm(41) for _ in range(3)])
    picked = actual.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(softmax.nll(hidden, targets), -picked)
    torch.testing.assert_close(softmax(hidden, targets).loss, -picked.sum())


@pytest.mark.parametrize("options", [{}, {"width": 12, "div_value": 1.0}], ids=str)
def test_lookup_equals_the_dense_table(options):
    torch.manual_seed(0)
    table = AdaptiveInput(41, 64, CUTOFFS, **options)
    tokens = torch.randint(0, 41, (5, 9))
    rows = []
    for token in tokens.flatten().tolist():
        number = sum(token >= cutoff for cutoff in CUTOFFS)
        vector = table.tables[number].weight[token - (0, *CUTOFFS)[number]]
        projection = table.projections[number]
        rows.append(projection.weight @ vector if isinstance(projection, Linear) else vector)
    torch.testing.assert_close(table(tokens), torch.stack(rows).view(5, 9, 64))
    torch.testing.assert_close(table.weight[tokens], table(tokens))
    assert table.weight.std().item() == pytest.approx(1 / 8, rel=0.15)


def test_tied_tables_share_their_parameters_and_stay_shared_when_folded():
    table = AdaptiveInput(41, 64, CUTOFFS)
    softmax = AdaptiveSoftmax(64, 41, tied=table)
    both = nn.ModuleDict({"input": table, "output": softmax})
    assert size_of(both) == size_of(table) + 3 * 64
    copy = folded(both)
    assert size_of(copy) == size_of(both)
    hidden = torch.randn(4, 64)
    torch.testing.assert_close(copy["output"].log_prob(hidden), softmax.log_prob(hidden))
    torch.testing.assert_close(copy["input"](torch.arange(41)), table.weight)


@pytest.mark.parametrize("structure", ["phm", "low-rank"])
@pytest.mark.parametrize("application", ["dense", "factored"])
def test_copies_for_inference_keep_the_weights_that_the_output_reads(structure, application):
    torch.manual_seed(0)
    table = AdaptiveInput(64, 32, (16, 32), 2.0, structure=structure)
    both = nn.ModuleDict({"input": table, "output": AdaptiveSoftmax(32, 64, bias=True, tied=table)})
    copy = for_inference(both, application)
    hidden, tokens = torch.randn(4, 32), torch.arange(64)
    torch.testing.assert_close(copy["output"].log_prob(hidden), both["output"].log_prob(hidden))
    torch.testing.assert_close(copy["input"](tokens), table(tokens))


@pytest.mark.parametrize(("width", "count"), [(256, 9_253_212), (384, 13_895_946), (512, 18_549_432)])
def test_counts_of_the_wikitext_103_language_models(width, count):
    """9.25M, 13.90M and 18.55M in the paper's Table 1a."""
    table = AdaptiveInput(267_735, width, (20_000, 40_000, 200_000), device="meta")
    output = AdaptiveSoftmax(width, 267_735, tied=table, device="meta")
    assert size_of(nn.ModuleList([table, output])) == count


def test_adaptive_tables_refuse_bad_cutoffs_and_sizes():
    with pytest.raises(PhmrunError, match="leaves nothing"):
        AdaptiveInput(10, 8, [5], 0.0)
    with pytest.raises(PhmrunError, match="must rise"):
        AdaptiveInput(10, 4, (5, 5))
    with pytest.raises(PhmrunError, match="must rise"):
        AdaptiveSoftmax(4, 10, (5, 12))
    with pytest.raises(PhmrunError, match="cannot be tied"):
        AdaptiveSoftmax(4, 12, tied=AdaptiveInput(10, 4, ()))
