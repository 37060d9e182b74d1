"""Decoding step by step against the whole network run on every prefix, whatever the search does with the beam."""

import itertools
import random

import pytest
import torch
from built_networks import built
from structure_cases import CASES
from torch.nn import functional as F

from phmrun.decoding.beam import length_penalty
from phmrun.decoding.search import translate
from phmrun.kernels.packed import KERNELS, FewRows
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.transformer import Transformer

PAD, UNK, BOS, EOS = 0, 1, 2, 3
VOCABULARY = 32


def network_of(seed=0, *, dtype=torch.float64, **options):
    torch.manual_seed(seed)
    sizes = {"width": 16, "feedforward": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    network = built(Transformer, VOCABULARY, VOCABULARY, **{**sizes, **options}).to(dtype).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
            elif "norm" not in name:
                parameter.mul_(2.0)  # far from the uniform distribution, so that sentences end at different places
    return network


def sources(count, seed=0, longest=9):
    draw = random.Random(seed)
    return [[*(draw.randrange(4, VOCABULARY) for _ in range(draw.randrange(1, longest))), EOS] for _ in range(count)]


def padded(rows):
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def full_logits(network, source, prefixes):
    """Logits after each prefix of one sentence, by the whole network; all prefixes have one length."""
    rows = torch.tensor([source] * len(prefixes))
    return network.output(network(rows, None, torch.tensor(prefixes))[:, -1])


def walk(network, decoder, *, widths, seed, batch=4, selections=True):
    """Drives the decoder as a search would, at random, and compares every step with the whole network."""
    draw = random.Random(seed)
    rows = sources(batch, seed)
    state = decoder.start(padded(rows))
    kept = list(range(batch))
    prefixes = [[[BOS]] for _ in rows]  # by sentence, by hypothesis
    for width in widths:
        logits = decoder.step(torch.tensor([[prefix[-1] for prefix in beam] for beam in prefixes]), state)
        for row, sentence in enumerate(kept):
            torch.testing.assert_close(logits[row], full_logits(network, rows[sentence], prefixes[row]))
        if selections and len(kept) > 1 and draw.random() < 0.3:
            staying = sorted(draw.sample(range(len(kept)), len(kept) - 1))
            state = decoder.select(state, torch.tensor(staying))
            kept, prefixes = [kept[row] for row in staying], [prefixes[row] for row in staying]
        parents = [[draw.randrange(len(prefixes[0])) for _ in range(width)] for _ in kept]
        state = decoder.reorder(state, torch.tensor(parents))
        prefixes = [
            [[*beam[parent], draw.randrange(4, VOCABULARY)] for parent in row]
            for beam, row in zip(prefixes, parents, strict=True)
        ]
    return state


LAYOUTS = [
    {"norm": norm, "attention_maps": maps, "bias": bias, "tie": tie}
    for norm, (maps, bias, tie) in itertools.product(
        ("pre", "post"), (("joint", False, "all"), ("separate", True, "decoder"), ("joint", True, "none"))
    )
]
NETWORKS = [
    pytest.param(options, *case.values, id="-".join([*map(str, options.values()), str(case.id)]))
    for number, case in enumerate(CASES)
    for options in (LAYOUTS if case.values[0] == "dense" or case.id == "phm-2" else [LAYOUTS[number % len(LAYOUTS)]])
]
"""Every layout of a network with two structures, and every structure in one layout."""


@torch.inference_mode()
@pytest.mark.parametrize("application", ["dense", "factored"])
@pytest.mark.parametrize(("options", "name", "structure"), NETWORKS)
def test_every_step_equals_the_whole_network(application, options, name, structure):
    arguments = {"structure": name, **structure}
    network = network_of(layer=arguments, embedding=arguments, output=arguments, **options)
    walk(network, IncrementalTransformer(network, PAD, application), widths=[3, 2, 4, 1, 3], seed=1, batch=3)


@torch.inference_mode()
@pytest.mark.parametrize("options", LAYOUTS[:2])
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_every_step_by_any_kernel(monkeypatch, kernel, options):
    monkeypatch.setattr(FewRows, "for_rows", lambda few, rows: KERNELS[kernel](few.weight, few.bias))
    network = network_of(dtype=torch.float32, **options)
    decoder = IncrementalTransformer(network, PAD)
    decoder.measured_kernels = True
    walk(network, decoder, widths=[3, 3, 2, 4], seed=1)
    assert decoder._few_rows
    assert not decoder.to(torch.float64)._few_rows


def test_the_trained_network_is_left_alone():
    network = network_of(layer={"structure": "phm", "n": 2}).train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    decoder = IncrementalTransformer(network, PAD, "factored")
    assert network.training
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert not any(parameter.requires_grad for parameter in decoder.parameters())
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.zero_()
    assert all(torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def search(network, source, *, beam, alpha, limit):
    """Beam search by the whole network, and the least gap between two candidates that any decision hung on."""
    live, ended, gap = [([BOS], 0.0)], [], float("inf")
    for step in range(1, limit + 1):
        log_probs = full_logits(network, source, [prefix for prefix, _ in live])
        log_probs[:, [PAD, BOS]] = float("-inf")
        log_probs = F.log_softmax(log_probs, dim=-1)
        candidates = sorted(
            (
                (score + float(log_probs[row, token]), prefix, token)
                for row, (prefix, score) in enumerate(live)
                for token in ([EOS] if step == limit else range(VOCABULARY))
                if token not in (PAD, BOS)
            ),
            key=lambda candidate: -candidate[0],
        )
        gap = min([gap, *(a[0] - b[0] for a, b in itertools.pairwise(candidates[: 2 * beam + 1]))])
        live = []
        for place, (score, prefix, token) in enumerate(candidates[: 2 * beam]):
            if token == EOS and place < beam:
                ended.append((score / length_penalty(step, alpha), prefix[1:]))
            elif token != EOS and len(live) < beam:
                live.append(([*prefix, token], score))
        if len(ended) >= beam or step == limit:
            break
    ended.sort(key=lambda ending: -ending[0])
    return ended[0][1], min([gap, *(a[0] - b[0] for a, b in itertools.pairwise(ended))])


def translations(network, rows, *, batch, application="dense"):
    decoder = IncrementalTransformer(network, PAD, application)
    actual = translate(decoder, rows, beam=4, alpha=0.6, batch=batch, max_length_offset=6)
    return [hypotheses[0].tokens for hypotheses in actual]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "application"), list(enumerate(["dense", "factored", "factored"])))
def test_batches_of_64_and_of_1_translate_alike_in_double_precision(seed, application):
    network = network_of(seed, layer={"structure": "phm", "n": 2})
    rows = sources(72, seed)
    together = translations(network, rows, batch=64, application=application)
    assert together == translations(network, rows, batch=1, application=application)
    assert together == translations(network, rows[::-1], batch=7, application=application)[::-1]
    assert len({len(tokens) for tokens in together}) > 3, "sentences of many lengths leave the batch at many times"


@torch.inference_mode()
def test_the_search_equals_one_by_the_whole_network():
    network = network_of(5)
    rows = sources(6, 5, longest=5)
    expected = [search(network, row, beam=4, alpha=0.6, limit=int(1.5 * len(row)) + 6) for row in rows]
    assert translations(network, rows, batch=6) == [tokens for tokens, _ in expected]
