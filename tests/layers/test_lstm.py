"""LSTM: outputs and gradients of ``torch.nn.LSTM`` with the same dense weights; dropout; folding."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from phmrun.errors import PhmrunError
from phmrun.kernels.dropout import dropout_mask
from phmrun.layers import LSTM, folded
from phmrun.layers.lstm import outputs, packed_rows


def reference(lstm):
    """``nn.LSTM`` with the dense weights of ``lstm`` as its own leaves."""
    built = nn.LSTM(
        lstm.input_size,
        lstm.hidden_size,
        lstm.num_layers,
        lstm.bias,
        lstm.batch_first,
        bidirectional=lstm.bidirectional,
    )
    weights = lstm.dense_weights()
    assert weights.keys() == dict(built.named_parameters()).keys()
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            parameter.copy_(weights[name])
    return built.train(lstm.training)


CASES = [
    {},
    {"maps": "stacked"},
    {"structure": "phm", "n": 3},
    {"structure": "phm", "n": 3, "maps": "stacked", "bidirectional": True, "num_layers": 2},
    {"structure": "phm", "n": 3, "num_layers": 3, "batch_first": True, "bias_vectors": 2},
    {"bias": False, "bidirectional": True},
    {"coupled": True, "num_layers": 2, "bidirectional": True},
    {"coupled": True, "maps": "stacked", "bias_vectors": 2, "structure": "phm", "n": 3},
]


@pytest.mark.parametrize("options", CASES, ids=str)
@pytest.mark.parametrize("packed", [False, True])
def test_outputs_and_gradients_equal_the_dense_lstm(options, packed):
    torch.manual_seed(0)
    lstm = LSTM(15, 9, **options)
    dense = reference(lstm)
    layers = lstm.num_layers * lstm.directions
    inputs = torch.randn(4, 6, 15) if lstm.batch_first else torch.randn(6, 4, 15)
    state = (torch.randn(layers, 4, 9), torch.randn(layers, 4, 9))
    results = []
    for module in (lstm, dense):
        leaf = inputs.clone().requires_grad_()
        initial = tuple(part.clone().requires_grad_() for part in state)
        fed = leaf
        if packed:
            fed = pack_padded_sequence(leaf, torch.tensor([3, 6, 1, 5]), lstm.batch_first, enforce_sorted=False)
        outputs, (h, c) = module(fed, initial)
        if packed:
            outputs, _ = pad_packed_sequence(outputs, lstm.batch_first)
        loss = (outputs * torch.arange(outputs.numel()).view_as(outputs).cos()).sum() + h.sum() + (c * c).sum()
        loss.backward()
        results.append((outputs, h, c, leaf.grad, *(part.grad for part in initial)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
    # Gradients of the parameters: the dense ones pulled back through the build.
    fresh = lstm.dense_weights()
    names = [name for name, weight in fresh.items() if weight.requires_grad]
    seeds = [dict(dense.named_parameters())[name].grad for name in names]
    pulled = torch.autograd.grad([fresh[name] for name in names], list(lstm.parameters()), seeds)
    for parameter, gradient in zip(lstm.parameters(), pulled, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)


def constant_input(lstm, length=5, batch=3):
    return torch.ones(length, batch, lstm.input_size)


def test_variational_masks_are_constant_over_time():
    """With the recurrence cut off and constant inputs, a constant mask gives constant outputs."""
    torch.manual_seed(0)
    lstm = LSTM(8, 6, 2, dropout=0.5, variational=True, input_dropout=0.5)
    outputs = first_gates(lstm, constant_input(lstm))
    assert torch.equal(outputs[0], outputs[-1])
    assert not torch.equal(outputs[:, 0], outputs[:, 1])
    lstm.variational = False
    outputs = first_gates(lstm, constant_input(lstm))
    assert not torch.equal(outputs[0], outputs[-1])


def first_gates(lstm, inputs):
    """Outputs without memory: recurrent maps zero, forget gate shut."""
    with torch.no_grad():
        for cell in lstm.cells:
            for structure in cell.recurrent:
                structure.matrix.zero_()
            for structure in cell.input[1:2]:
                structure.matrix.zero_()
            cell.bias[0, lstm.hidden_size : 2 * lstm.hidden_size] = -1e9
        return lstm(inputs)[0]


def test_packed_rows():
    assert packed_rows(torch.tensor([3, 3, 1])).tolist() == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("coupled", [False, True])
def test_outputs_over_padding_equal_those_of_packed_sequences(bidirectional, coupled):
    torch.manual_seed(0)
    options = {"bidirectional": bidirectional, "coupled": coupled, "bias_vectors": 2, "structure": "phm", "n": 2}
    lstm = LSTM(6, 4, 3, batch_first=True, dtype=torch.float64, **options)
    lengths = torch.tensor([3, 5, 1, 4])
    inputs = torch.randn(4, 5, 6, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(4, 5, 4 * lstm.directions, dtype=torch.float64)
    actual = []
    for run in (lambda: outputs(lstm, inputs, lengths), lambda: packed_outputs(lstm, inputs, lengths)):
        inputs.grad = None
        lstm.zero_grad()
        messages = run()
        (messages * weights).sum().backward()
        actual.append([messages, inputs.grad, *(parameter.grad for parameter in lstm.parameters())])
    torch.testing.assert_close(actual[0], actual[1])
    torch.testing.assert_close(outputs(folded(lstm), inputs, lengths), actual[0][0])


def packed_outputs(lstm, inputs, lengths):
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(lstm(packed)[0], batch_first=True)[0]


@pytest.mark.parametrize("coupled", [False, True])
def test_weight_dropout_thins_the_recurrent_matrix_only(coupled):
    torch.manual_seed(0)
    lstm = LSTM(10, 20, weight_dropout=0.5, coupled=coupled)
    dense = lstm.cells[0].build()
    thinned = lstm.cells[0].build(0.5)
    assert torch.equal(thinned.input, dense.input)
    kept = thinned.recurrent != 0
    assert 0.4 < kept.float().mean() < 0.6
    torch.testing.assert_close(thinned.recurrent[kept], 2 * dense.recurrent[kept])
    if coupled:  # input and forget gate stay coupled
        assert torch.equal(thinned.recurrent[:20], -thinned.recurrent[20:40])
    inputs = torch.randn(4, 2, 10)
    assert not torch.equal(lstm(inputs)[0], lstm(inputs)[0])
    lstm.eval()
    assert torch.equal(lstm(inputs)[0], lstm(inputs)[0])


def test_autocast_runs_in_bfloat16_near_the_dense_lstm():
    lstm = LSTM(8, 12, 2, structure="phm", n=2)
    inputs = torch.randn(5, 3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        ours, _ = lstm(inputs)
        lstm(inputs.bfloat16())[0].float().sum().backward()
    theirs, _ = reference(lstm)(inputs)  # in 32 bits: torch's own 16-bit LSTM differs from processor to processor
    assert ours.dtype is torch.bfloat16
    torch.testing.assert_close(ours.float(), theirs, rtol=0, atol=0.02)


def test_lstm_refuses_sizes_gate_maps_and_inputs_that_do_not_fit():
    with pytest.raises(PhmrunError, match="does not divide"):
        LSTM(10, 9, structure="phm", n=4)
    with pytest.raises(PhmrunError, match="gate"):
        LSTM(10, 9, maps="joint")
    with pytest.raises(PhmrunError, match="four gates"):
        LSTM(3, 4, cell="parser-v2", coupled=True, structure="low-rank", rank=1)
    with pytest.raises(PhmrunError, match="three dimensions"):
        LSTM(3, 3)(torch.zeros(2, 3))


def test_each_direction_has_a_mask_of_its_own_if_configured():
    """Every direction of a layer is a one-way LSTM of its own, which reads its own dropped copy of the inputs."""
    lstm = LSTM(6, 5, 2, batch_first=True, bidirectional=True, cell="parser-v2", direction_masks=True)
    lstm.variational, lstm.input_dropout, lstm.dropout = True, 0.5, 0.5
    inputs, lengths = torch.randn(3, 4, 6), torch.tensor([4, 4, 4])
    torch.manual_seed(0)
    read = outputs(lstm, inputs, lengths)
    torch.manual_seed(0)
    masks = [dropout_mask(torch.empty(3, 1, width), 0.5) for width in (6, 6, 10, 10)]
    wanted = inputs
    for layer in range(2):
        directions = []
        for direction in range(2):
            alone = LSTM(wanted.shape[-1], 5, batch_first=True, cell="parser-v2")
            alone.cells[0] = lstm.cells[2 * layer + direction]
            dropped = wanted * masks[2 * layer + direction]
            hidden = outputs(alone.eval(), dropped.flip(1) if direction else dropped, lengths)
            directions.append(hidden.flip(1) if direction else hidden)
        wanted = torch.cat(directions, -1)
    torch.testing.assert_close(read, wanted)
    assert not torch.equal(masks[0], masks[1])
    with pytest.raises(PhmrunError, match="one mask"):
        LSTM(6, 5, direction_masks=True)


@pytest.mark.parametrize("options", [{}, {"structure": "phm", "n": 3, "bidirectional": True, "num_layers": 2}], ids=str)
def test_a_cell_with_linear_output_is_the_printed_one(options):
    """Zhang et al. 2021, section 3.1, step by step; the second direction reads each sentence from its end."""
    torch.manual_seed(0)
    lstm = LSTM(6, 9, batch_first=True, cell="linear-output", **options)
    inputs, lengths = torch.randn(3, 5, 6), torch.tensor([5, 2, 4])
    weights, wanted = lstm.dense_weights(), inputs
    for layer in range(lstm.num_layers):
        read, wanted = wanted, torch.zeros(3, 5, 9 * lstm.directions)
        for sentence, length in enumerate(lengths.tolist()):
            for direction in range(lstm.directions):
                kind = f"l{layer}{'_reverse' if direction else ''}"
                h = c = torch.zeros(9)
                for step in range(length)[:: -1 if direction else 1]:
                    y = weights[f"weight_ih_{kind}"] @ read[sentence, step] + weights[f"weight_hh_{kind}"] @ h
                    i, f, g, o = (y + weights[f"bias_ih_{kind}"]).chunk(4)
                    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                    h = o * c
                    wanted[sentence, step, 9 * direction : 9 * direction + 9] = h
    actual = outputs(lstm, inputs, lengths)
    torch.testing.assert_close(actual, wanted)
    torch.testing.assert_close(outputs(folded(lstm), inputs, lengths), wanted)
    actual.square().sum().backward()
    assert all(parameter.grad.any() for parameter in lstm.parameters())
    with pytest.raises(PhmrunError, match="reads padded sequences alone"):
        lstm(inputs)
