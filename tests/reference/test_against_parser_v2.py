"""The parser computes what tdozat/Parser-v2 computes, in float64."""

import pytest
import torch
from built_networks import built
from recording import default_double, largest_difference, part, recorded

from phmrun.decoding.spanning_tree import spanning_trees
from phmrun.engine.optimizers import build_optimizer
from phmrun.kernels.dropout import dropout_mask
from phmrun.layers.lstm import LSTM
from phmrun.layers.recurrence import Plan, stepped
from phmrun.tasks.parse.biaffine_parser import BiaffineParser, spelling_groups
from phmrun.tasks.parse.data import TreeBatch
from phmrun.tasks.parse.module import ParserModule

SIZES = {"word_width": 6, "tag_width": 6, "fixed_width": 5, "layers": 2}
SIZES |= {"character_width": 4, "character_hidden": 4, "hidden": 4}


@pytest.fixture(scope="module")
def numbers():
    return recorded("parser-v2")


def parser(numbers, **options):
    usual = {"arc_width": 5, "label_width": 3, "dropout": 0.0, "character_pooling": "attention-cell"}
    usual |= {"cell": "parser-v2", "recurrent_dropout": 0.0, "embedding_dropout": 0.0, **options}
    before = part(numbers, "before/")
    tables = [len(before[f"{name}.structure.matrix"]) for name in ("embedding", "tags", "letters")]
    network = built(BiaffineParser, *tables, len(before["label_classifier.c"]), **SIZES, **usual).double()
    network.load_state_dict(before)
    return network


def batch(numbers, number):
    """A recorded batch as the task reads it: each spelling once, the longest first."""
    words, tags, heads, labels, spelled = (
        numbers[f"batch{number}/{name}"] for name in ("words", "tags", "heads", "labels", "spellings")
    )
    distinct, spellings = spelled.flatten(0, 1).unique(dim=0, return_inverse=True)
    counts = (distinct > 0).sum(1)
    order = counts.argsort(descending=True, stable=True)
    ranks = order.argsort()[spellings].view_as(words)
    lengths = torch.full((len(words),), words.shape[1])
    inputs = (words, tags, distinct[order], counts[order], ranks, lengths)
    positions = torch.arange(words.numel()).view_as(words)[:, 1:].flatten()
    groups = spelling_groups(counts[order].tolist())
    return TreeBatch(inputs, heads, labels, positions, len(positions), len(positions), groups)


def gradient(network, example):
    network.zero_grad()
    module = ParserModule(network, None, None, smoothing=0.0)
    loss = module.loss(example).total / example.units
    loss.backward()
    return float(loss.detach())


def test_scores_loss_and_gradient_are_those_of_the_authors_code(numbers):
    with default_double():
        network, example = parser(numbers), batch(numbers, 0)
        actual = network(*example.inputs)
        labels = network.label_classifier(actual.dependents, actual.heads).permute(0, 2, 1, 3)
        torch.testing.assert_close(actual.arcs, numbers["arcs"], atol=1e-12, rtol=0)
        torch.testing.assert_close(labels, numbers["labels"], atol=1e-12, rtol=0)
        assert gradient(network, example) == pytest.approx(float(numbers["loss"]), abs=1e-12)
        gradients = {name: value.grad for name, value in network.named_parameters()}
        assert largest_difference(gradients, part(numbers, "gradient/")) < 1e-12


def test_two_steps_of_the_optimizer_are_those_of_the_authors_code(numbers):
    """The second batch lacks words, tags and characters of the first, whose rows then wait."""
    with default_double():
        network = parser(numbers)
        optimizer = build_optimizer(network, name="lazy-adam", betas=(0.9, 0.9), eps=1e-12, clip_update=0.01)
        for group in optimizer.param_groups:
            group["lr"] = 0.002
        for number in range(2):
            gradient(network, batch(numbers, number))
            optimizer.step()
            after = part(numbers, f"after{number + 1}/")
            assert largest_difference(dict(network.named_parameters()), after) < 1e-11


def test_trees_are_never_worse_than_those_of_the_authors_search(numbers):
    """Theirs breaks cycles one by one, the least certain word first; ours is exact."""
    scores, theirs = numbers["search/scores"].log_softmax(dim=2), numbers["search/heads"]
    ours = spanning_trees(scores, torch.full((len(scores),), scores.shape[1]))

    def totals(heads):
        return scores.gather(2, heads.unsqueeze(2)).squeeze(2)[:, 1:].sum(1)

    same = (ours == theirs).all(1)
    assert 20 < same.sum() < len(same)
    assert (totals(ours)[~same] > totals(theirs)[~same]).all()


def test_steps_taken_one_by_one_are_those_of_the_fused_kernel(numbers):
    """With dropout of hidden vectors in training the LSTMs go step by step."""
    with default_double():
        network, example = parser(numbers, recurrent_dropout=1e-12), batch(numbers, 0)
        torch.testing.assert_close(network.train()(*example.inputs).arcs, numbers["arcs"], atol=1e-10, rtol=0)


def test_hidden_vectors_are_dropped_alike_at_all_steps_and_scaled():
    torch.manual_seed(1)
    lstm = LSTM(3, 5, cell="parser-v2", hidden_dropout=0.4)
    built, inputs = lstm.cells[0].build(), torch.randn(2, 4, 3)
    torch.manual_seed(2)
    mask = dropout_mask(torch.empty(1, 2, 5), 0.4)[0]
    torch.manual_seed(2)
    hidden, _ = stepped([inputs], [lstm.cells[0].initial(2)], [built], 0.4, Plan.of(torch.tensor([4, 4]), 4, 1))
    for row in range(2):
        thinned = built._replace(recurrent=built.recurrent * mask[row])
        plan = Plan.of(torch.tensor([4]), 4, 1)
        alone, _ = stepped([inputs[row : row + 1]], [lstm.cells[0].initial(1)], [thinned], 0.0, plan)
        torch.testing.assert_close(hidden[row : row + 1], alone)


def test_weights_begin_as_released():
    torch.manual_seed(1)
    network = built(BiaffineParser, 50, 20, 30, 7, **BiaffineParser.options.presets["paper"])
    at_zero = [network.tags, network.letter_map, network.letter_attention, network.arc_classifier]
    at_zero += [network.label_classifier]
    assert not any(parameter.any() for module in at_zero for parameter in module.parameters())
    assert float(network.letters.weight.detach().std()) == pytest.approx(1, abs=0.05)
    assert torch.equal(network.arc_mlp[0].weight, network.arc_mlp[1].weight)
    joined = torch.cat([network.arc_mlp[0].weight, network.label_mlp[0].weight]).detach()
    torch.testing.assert_close(joined.t() @ joined, torch.eye(400), atol=1e-4, rtol=0)
    cell = network.lstm.cells[0]
    i, f, g, o = (torch.cat([a.matrix, b.matrix], 1).detach() for a, b in zip(cell.input, cell.recurrent, strict=True))
    torch.testing.assert_close(i @ i.t(), torch.eye(200), atol=1e-4, rtol=0)
    assert all(torch.equal(part, i) for part in (-f, g, o))
    assert not cell.state.any()
    assert not cell.bias.any()
