"""Text in, text out: order, chunks, blank lines, parts of a test set, signatures."""

from typing import Any, NamedTuple

import pytest
import sacrebleu
import torch
from built_networks import built

from phmrun.decoding.beam import Hypothesis
from phmrun.families.sequence_to_sequence import predictor as translation
from phmrun.families.sequence_to_sequence.config import DecodingConfig
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.metrics import Score
from phmrun.models.transformer import Transformer
from phmrun.text.vocabularies import Vocabularies, train_vocabulary

LINES = ["a b c", "d", "", "e f", "a a a b"]


@pytest.fixture(scope="module")
def vocabularies():
    vocabulary = train_vocabulary(["a b c d e f g h"] * 3, kind="word", size=16)
    return Vocabularies(vocabulary, vocabulary)


def network(size):
    torch.manual_seed(0)
    sizes = {"width": 8, "feedforward": 8, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return built(Transformer, size, size, **sizes, layer={"structure": "phm", "n": 2})


class Data(NamedTuple):
    """Stands for the data module."""

    files: dict[str, Any]
    parts: dict[str, Any] = {}  # noqa: RUF012
    baselines: dict[str, Any] = {}  # noqa: RUF012
    measures: dict[str, Any] = {}  # noqa: RUF012


def translator(vocabularies, **search):
    decoding = DecodingConfig(**{"beam": 2, **search})
    return Translator(network(len(vocabularies.source)), vocabularies, decoding, "weights-name")


@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_stream_keeps_its_order(vocabularies, batch, monkeypatch):
    monkeypatch.setattr(translation, "CHUNK", 3)
    machine = translator(vocabularies, batch=batch, application="dense")
    alone = [next(iter(machine.predict([line]))) for line in LINES]
    assert list(machine.predict(iter(LINES))) == alone
    several = translator(vocabularies, beam=2, nbest=2).predict(["a b", ""])
    assert [answer.text.count("\n") for answer in several] == [1, 1]  # a blank line has one hypothesis, and two lines
    assert alone[2].text == ""
    assert len({answer.text for answer in alone}) > 2


def test_one_at_a_time_answers_at_once(vocabularies):
    read = []

    def typed():
        for line in LINES:
            read.append(line)
            yield line

    answers = translator(vocabularies, batch=1).predict(typed())
    next(answers)
    assert read == LINES[:1]


def test_scores_of_a_test_set_and_of_its_parts(vocabularies, tmp_path, monkeypatch):
    references = ["a b c d e", "d e f g h", "a c e g b", "h g f e d"]
    outputs = ["a b c d e", "d e f g a", "a c e g b", "b b b b b"]
    sources = ["a", "b", "c", "d"]
    for name, lines in (("src", sources), ("ref", references), ("part", ["old", "new", "old", "new"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    encoded = [vocabularies.target.encode(line) for line in outputs]
    machine = translator(vocabularies)
    monkeypatch.setattr(Translator, "hypotheses", lambda *_: [[Hypothesis(tokens, 0.0, 0.0)] for tokens in encoded])
    data = Data(
        {"test": (tmp_path / "src", tmp_path / "ref")},
        {"test": tmp_path / "part"},
        {"copy": list, "always-right": lambda _: references},
    )
    actual = machine.evaluate(data, "test")

    def expected(rows):
        return pytest.approx(sacrebleu.corpus_bleu([outputs[r] for r in rows], [[references[r] for r in rows]]).score)

    assert actual.predictions.splitlines() == outputs
    assert actual.scores["bleu"].value == expected(range(4))
    assert actual.scores["bleu-old"].value == expected([0, 2]) == pytest.approx(100)
    assert actual.scores["bleu-new"].value == expected([1, 3])
    assert actual.scores["bleu-of-always-right"].value == pytest.approx(100)
    assert actual.scores["bleu-of-copy"].value == 0
    assert actual.scores["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(outputs, [references]).score)
    for name in ("bleu", "chrf", "bleu-old"):
        assert actual.scores[name].signature.endswith("|application:dense|weights:weights-name")
    assert actual.samples == list(zip(sources, references, outputs, strict=True))
    assert (actual.items, actual.unit) == (4, "tokens")
    assert actual.units == sum(len(tokens) + 1 for tokens in encoded)
    assert actual.seconds >= 0


def test_sentence_scores_where_they_are_asked_for(vocabularies, tmp_path):
    for name, lines in (("src", "ab"), ("ref", "cd")):
        (tmp_path / name).write_text("".join(f"{line} e f g\n" for line in lines))
    data = Data({"test": (tmp_path / "src", tmp_path / "ref")}, baselines={"copy": list})
    network_of_both = network(len(vocabularies.source))
    both, usual_only = DecodingConfig(sentence_bleu=True, sentence_bleu_nltk=True), DecodingConfig(sentence_bleu=True)
    machine = Translator(network_of_both, vocabularies, both, "w")
    usual = Translator(network_of_both, vocabularies, usual_only, "w").evaluate(data, "test")
    assert not any("nltk" in name for name in usual.scores)  # 16.6 for "And, and, and …": the paper's table only
    scores = machine.evaluate(data, "test").scores
    assert set(scores) == {
        *("bleu", "bleu-of-copy", "chrf"),
        *("sentence-bleu", "sentence-bleu-of-copy", "sentence-bleu-nltk", "sentence-bleu-nltk-of-copy"),
    }
    expected = sum(sacrebleu.sentence_bleu(f"{first} e f g", [f"{two} e f g"]).score for first, two in ("ac", "bd")) / 2
    assert scores["sentence-bleu-of-copy"].value == pytest.approx(expected)
    assert "weights" not in scores["sentence-bleu-of-copy"].signature
    assert scores["sentence-bleu"].signature.endswith("|mean:sentences|" + machine.signature + "|weights:w")
    without = Translator(network(len(vocabularies.source)), vocabularies, DecodingConfig(), "w").evaluate(data, "test")
    assert set(without.scores) == {"bleu", "bleu-of-copy", "chrf"}


def test_measures_of_outputs_and_their_sources(vocabularies, tmp_path, caplog):
    caplog.set_level("INFO")
    (tmp_path / "src").write_text("a e f g\nb e f g\n")
    (tmp_path / "ref").write_text("a e f g\nc e f g\n")

    def same(sources, outputs):
        hits = sum(left == right for left, right in zip(sources, outputs, strict=True))
        return Score("same", 50.0 * hits, "plain", len(outputs))

    def missing(sources, outputs):
        raise ModuleNotFoundError("No module named 'nosuch'", name="nosuch")

    files = {"test": (tmp_path / "src", tmp_path / "ref")}
    data = Data(files, baselines={"copy": list}, measures={"same": same, "missing": missing})
    scores = translator(vocabularies).evaluate(data, "test").scores
    assert scores["same-of-copy"].value == 100.0
    assert scores["same-of-reference"].value == 50.0
    assert scores["same"].signature.startswith("plain|beam:2")
    assert scores["same-of-copy"].signature == "plain"
    assert not any(name.startswith("missing") for name in scores)
    assert "without the score missing: it needs nosuch" in caplog.text


def test_chrf_stands_in_the_place_of_bleu_that_says_nothing(vocabularies, tmp_path, monkeypatch):
    for name, line in (("src", "a b"), ("ref", "狗在花园里看见一只猫。")):
        (tmp_path / name).write_text(f"{line}\n" * 4, encoding="utf-8")
    machine = translator(vocabularies)
    monkeypatch.setattr(Translator, "hypotheses", lambda *_: [[Hypothesis([5], 0.0, 0.0)]] * 4)
    scores = machine.evaluate(Data({"test": (tmp_path / "src", tmp_path / "ref")}, {}, {"copy": list}), "test").scores
    assert list(scores) == ["chrf", "chrf-of-copy"]
    assert scores["chrf"].warnings[0].startswith("in the place of BLEU: the tokenizer 13a finds no words")


def test_unknown_tokens_of_the_input_are_said(vocabularies, monkeypatch):
    notes = []
    monkeypatch.setattr("phmrun.text.coverage.note", notes.append)
    machine = translator(vocabularies)
    list(machine.predict(["a b c d"] * 2))
    machine.coverage.note_unknown("lines")
    assert notes == []
    list(machine.predict(["a e\u0301", "\u00a0", "\u2028"]))
    machine.coverage.note_unknown("lines")
    assert notes == ["lines: 10.0% of the input's tokens are unknown to the vocabulary"]
