"""Scores and continuations of a trained language model against the softmax over the whole vocabulary, word by word."""

import math
from itertools import chain

import numpy as np
import pytest
import torch
from built_networks import built

from phmrun.tasks.lm.config import LanguageDecodingConfig, LanguageModelExperiment
from phmrun.tasks.lm.data import StreamData
from phmrun.tasks.lm.lstm import LSTMLanguageModel
from phmrun.tasks.lm.predictor import LanguageModelPredictor
from phmrun.tasks.lm.preparation import StreamSettings
from phmrun.tasks.lm.transformer_xl import TransformerXL
from phmrun.tasks.lm.vocabulary import count_words

WORDS = [f"w{number:02}" for number in range(38)]
LINES = [" ".join(WORDS[(3 * number + step) % 38] for step in range(number % 7)) for number in range(30)]
DEFINE = {"structure": "define", "depth": 2, "expansion": 32, "max_groups": 2, "multiple_of": 4}
EMBEDDINGS = [
    {},
    {"structure": "adaptive", "cutoffs": (8, 20), "div_value": 2},
    {**DEFINE, "cutoffs": (8, 20), "div_value": 2, "width": 8},
]


@pytest.fixture(scope="module")
def vocabulary():
    return count_words(LINES, multiple_of=8)


def lstm(vocabulary, embedding=None):
    torch.manual_seed(0)
    return (
        built(LSTMLanguageModel, len(vocabulary), width=16, hidden=24, layers=2, output_bias=True, embedding=embedding)
        .double()
        .eval()
    )


def xl(vocabulary, memory, embedding=None):
    torch.manual_seed(0)
    sizes = {"width": 16, "inner": 24, "heads": 2, "head_width": 8, "layers": 2, "memory": memory, "output_bias": True}
    return built(TransformerXL, len(vocabulary), embedding=embedding, **sizes).double().eval()


def teller(network, vocabulary, length=70, weights="given", **decoding):
    return LanguageModelPredictor(network, vocabulary, LanguageDecodingConfig(**decoding), length, weights=weights)


def encoded(vocabulary):
    return np.array([token for line in LINES for token in (*vocabulary.encode(line), vocabulary.end)])


def log_probabilities(softmax, hidden):
    """Reference for one vector: a product with each word's vector, and one normalization per cluster."""
    clusters = []
    for table, projection in zip(softmax.tables, softmax.projections, strict=True):
        inner = hidden if isinstance(projection, torch.nn.Identity) else projection.weight.t() @ hidden
        clusters.append(table.weight @ inner + table.bias)
    if softmax.cluster_weight is None:
        return clusters[0] - torch.logsumexp(clusters[0], 0)
    head = hidden
    if not isinstance(softmax.projections[0], torch.nn.Identity):
        head = softmax.projections[0].weight.t() @ hidden
    gates = softmax.cluster_weight @ head + softmax.cluster_bias
    normaliser = torch.logsumexp(torch.cat([clusters[0], gates]), 0)
    parts = [clusters[0] - normaliser]
    parts += [
        gate - normaliser + tail - torch.logsumexp(tail, 0) for gate, tail in zip(gates, clusters[1:], strict=True)
    ]
    return torch.cat(parts)


@torch.no_grad()
def one_by_one(network, tokens, before, begins):
    """Each word's surprisal, its whole part of the text read anew for it."""
    actual = []
    for place, token in enumerate(tokens):
        begin = max(begin for begin in begins if begin <= place)
        context = [before, *tokens.tolist()][begin : place + 1]
        hidden = network(torch.tensor([context])).hidden[0, -1]
        reference = log_probabilities(network.output, hidden)
        assert reference.exp().sum().item() == pytest.approx(1)
        actual.append(-reference[token].item())
    return np.array(actual)


@pytest.mark.parametrize(
    ("embedding", "streams"), list(zip(EMBEDDINGS, (1, 4, 3), strict=True)), ids=["dense", "adaptive", "define"]
)
@pytest.mark.parametrize("build", [lstm, lambda *args: xl(args[0], 200, *args[1:])], ids=["lstm", "xl"])
def test_surprisal_is_that_of_the_whole_softmax(build, embedding, streams, vocabulary):
    network, tokens = build(vocabulary, embedding), encoded(vocabulary)
    actual = teller(network, vocabulary, streams=streams, length=7).surprisal(tokens)
    begins = [len(tokens) * part // streams for part in range(streams)]
    np.testing.assert_allclose(actual, one_by_one(network, tokens, vocabulary.end, begins), rtol=1e-9)


@pytest.mark.parametrize("build", [lstm, lambda vocabulary: xl(vocabulary, 5)], ids=["lstm", "xl"])
def test_scores_do_not_depend_on_how_much_is_read_at_a_time(build, vocabulary):
    network, tokens = build(vocabulary), encoded(vocabulary)
    whole = teller(network, vocabulary, streams=5, length=9).surprisal(tokens)
    for batch in (1, 2, 5):
        part = teller(network, vocabulary, streams=5, length=9, batch=batch).surprisal(tokens)
        np.testing.assert_allclose(part, whole, rtol=1e-9)


@pytest.fixture
def data(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.txt").write_text("".join(f"{line}\n" for line in LINES))
    (tmp_path / "test.txt").write_text("w01 w05 strange\n\nw02\n")
    files = {split: tmp_path / f"{split}.txt" for split in ("train", "dev", "test")}
    config = LanguageModelExperiment(batch={"size": 2, "length": 5}, decoding={"streams": 2})
    return StreamData(config, files, {}, StreamSettings(multiple_of=8), tmp_path)


def test_evaluation_scores_the_text_by_hand(data, vocabulary):
    network = lstm(vocabulary)
    scorer = teller(network, vocabulary, streams=2, length=5, characters=True, weights="best@7")
    evaluation = scorer.evaluate(data, "test")
    tokens = np.array([*vocabulary.encode("w01 w05 strange"), vocabulary.end, vocabulary.end])
    tokens = np.array([*tokens, *vocabulary.encode("w02"), vocabulary.end])
    nats = teller(network, vocabulary, streams=2, length=5).surprisal(tokens)
    score = evaluation.scores["perplexity"]
    assert score.value == pytest.approx(math.exp(nats.mean()))
    assert (score.n, score.unit, evaluation.units, evaluation.items) == (7, "words", 7, 3)
    assert score.signature == (
        "unit:word|split:space|vocabulary:40|end:counted|streams:2|length:5|memory:state|cut:2x3|unknown:14.29%|weights:best@7"
    )
    assert score.extras == {"bits_per_word": pytest.approx(nats.mean() / math.log(2)), "unknown_words": 1}
    (warning,) = score.warnings
    hidden = tokens == vocabulary.unknown
    of_known = evaluation.scores["perplexity-known"]
    assert (of_known.value, of_known.n) == (pytest.approx(math.exp(nats[~hidden].mean())), 6)
    assert warning.startswith("14.3% of the words are unknown (<unk>): perplexity ")
    assert warning.endswith(f"{math.exp(nats[hidden].mean()):,.1f} on these, {of_known.value:,.1f} on all others")
    size = data.files["test"].stat().st_size
    per_byte = evaluation.scores["bits_per_byte"]
    assert (per_byte.n, per_byte.unit) == (size, "bytes")
    assert per_byte.value == pytest.approx(nats.sum() / math.log(2) / size)
    characters = evaluation.scores["bits_per_character"]
    assert characters.n == len("w01 w05 strange\n\nw02\n")
    assert characters.value == pytest.approx(nats.sum() / math.log(2) / characters.n)
    lines = [[float(bits) for bits in line.split()] for line in evaluation.predictions.splitlines()]
    assert [len(line) for line in lines] == [4, 1, 2]
    assert list(chain(*lines)) == pytest.approx((nats / math.log(2)).tolist(), abs=6e-4)
    assert [text for text, _ in evaluation.samples] == ["w01 w05 strange", "", "w02"]
    del data.files["train"]  # as for another file
    assert scorer.evaluate(data, "test").scores["perplexity-of-unigram"] == evaluation.scores["perplexity-of-unigram"]


def test_surprisal_of_lines(vocabulary):
    network = lstm(vocabulary)
    lines = ["w01 w05 strange <eos>", "w02"]
    answers = list(teller(network, vocabulary, mode="surprisal").predict(lines))
    tokens = np.array([*vocabulary.encode(lines[0]), vocabulary.end, *vocabulary.encode(lines[1]), vocabulary.end])
    bits = teller(network, vocabulary, streams=1).surprisal(tokens) / math.log(2)
    assert [answer.values["words"] for answer in answers] == [["w01", "w05", "<unk>", "<eos>"], ["w02", "<eos>"]]
    assert list(chain(*(answer.values["bits"] for answer in answers))) == pytest.approx(bits.tolist())
    assert answers[1].text == f"w02:{bits[4]:.2f} <eos>:{bits[5]:.2f}"
    assert answers[0].values["perplexity"] == pytest.approx(2 ** bits[:4].mean())


@torch.no_grad()
@pytest.mark.parametrize("build", [lstm, lambda vocabulary: xl(vocabulary, 50)], ids=["lstm", "xl"])
def test_greedy_continuations_are_the_most_probable_words(build, vocabulary):
    network = build(vocabulary)
    output = teller(network, vocabulary, words=6)
    for prompt, answer in zip(["w01 w04", ""], output.predict(["w01 w04", ""]), strict=True):
        tokens = vocabulary.encode(prompt)
        for _ in range(6):
            hidden = network(torch.tensor([[vocabulary.end, *tokens]])).hidden[0, -1]
            best = int(log_probabilities(network.output, hidden)[: len(vocabulary.tokens)].argmax())
            if best == vocabulary.end:
                break
            tokens.append(best)
        assert answer.text == vocabulary.decode(tokens)
        assert answer.values == {"prediction": answer.text}
