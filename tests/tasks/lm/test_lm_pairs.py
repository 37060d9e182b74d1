"""Minimal pairs: read, judged by every kind of language model, kept with their items."""

import contextlib
import gzip
import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.metric import metrics_of
from phmrun.tasks.lm.pairs import MinimalPairs, _pair
from phmrun.tasks.lm.vocabulary import StreamVocabulary
from phmrun.text.words import spaced

PLAIN = {"batch": {"random_length": False}, "training": {"activation_penalty": 0.0, "change_penalty": 0.0}}
BPE = {"data": {"vocabulary": {"kind": "bpe", "size": 300, "multiple_of": 4}}}
HF = {"model": {"network": "hf", "width": 32, "inner": 48, "layers": 2, "heads": 2}}
NETWORKS = {
    "lstm": (),
    "transformer-xl": ({"model": {"network": "transformer-xl"}}, PLAIN),
    "hf": (PLAIN, BPE, HF),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A trained run of each kind of network, by name."""
    place = tmp_path_factory.mktemp("pairs")
    trained = {}
    for name, overrides in NETWORKS.items():
        config = configured("lm", place / name / "corpus", *overrides)
        trained[name] = run_of(run_experiment(config, place / name / "runs"))
    return trained


def lines_of(run):
    return [line for line in (run.path.parents[1] / "corpus" / "test.aa").read_text().splitlines() if line.strip()]


def write_pairs(path, sentences):
    rows = [
        {"sentence_good": good, "sentence_bad": bad, "linguistics_term": "order" if number % 2 else "", "UID": "swap"}
        for number, (good, bad) in enumerate(sentences)
    ]
    with gzip.open(path, "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("network", NETWORKS)
def test_the_log_probability_is_the_sum_over_the_tokens_after_a_beginning(runs, network):
    trained = open_run(runs[network])
    predictor = trained.predictor()
    vocabulary, model = predictor.vocabulary, predictor.network
    sentences = [*lines_of(runs[network])[:5], "one", "unseen words , here !"]
    for text, nats in zip(sentences, predictor.sentence_nats(sentences), strict=True):
        words = isinstance(vocabulary, StreamVocabulary)
        ids = vocabulary.encode(spaced(text, False, "punctuation") if words else text)
        expected, before = 0.0, [vocabulary.end]
        for token in ids:  # a text of its own for each token
            hidden = model(torch.tensor([before]), None).hidden[0, -1]
            expected -= float(model.output.log_prob(hidden[None])[0, token])
            before.append(token)
        assert nats == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("network", NETWORKS)
def test_scores_are_kept_by_phenomenon_with_their_pairs(runs, network, tmp_path):
    run, lines = runs[network], lines_of(runs[network])[:12]
    path = write_pairs(tmp_path / "order.jsonl.gz", [(line, " ".join(reversed(line.split()))) for line in lines])
    trained = open_run(run)
    scores = evaluate_run(trained, pairs=str(path))
    table = [row.split("\t") for row in (run.predictions / "order.tsv").read_text().splitlines()]
    right = [float(row[4]) < float(row[5]) for row in table[1:]]
    assert [row[0] == "good" for row in table[1:]] == right
    assert scores["order/accuracy"]["value"] == pytest.approx(100 * np.mean(right))
    assert scores["order/accuracy-order"]["value"] == pytest.approx(100 * np.mean(right[1::2]))
    assert scores["order/accuracy-of-chance"]["value"] == 50
    assert run.metrics()["order/accuracy"] == scores["order/accuracy"]
    metric = next(metric for metric in metrics_of("lm") if metric.name == "accuracy")
    assert metric.computed(metric.read_items(run, "order", "").counts) == scores["order/accuracy"]["value"]
    assert len(metric.read_items(run, "order", "order").counts) == len(lines) // 2
    with pytest.raises(FileNotFoundError):
        metric.read_items(run, "test", "")


def test_a_sentence_longer_than_the_positions_is_named_by_its_line(runs, tmp_path):
    trained = open_run(runs["hf"])
    trained.module.network.positions = 6
    path = write_pairs(tmp_path / "long.jsonl.gz", [("w1", "w2"), ("w1", " ".join(["w1"] * 9))])
    work = [lambda: trained.predictor().evaluate(MinimalPairs(str(path)), "")]
    for mode in ("surprisal", "continue"):
        predictor = trained.predictor(decoding={"mode": mode, "words": 1})
        work.append(lambda predictor=predictor: [*predictor.predict(["w1", " ".join(["w1"] * 9)])])
    for act, place in zip(work, (path, "input", "input"), strict=True):
        with pytest.raises(PhmrunError, match="Shorten the line") as refused:
            act()
        assert (refused.value.where, refused.value.code) == (f"{place}:2", 3)


def test_equal_sentences_are_wrong(runs, tmp_path):
    path = write_pairs(tmp_path / "same.jsonl.gz", [("the same", "the same")] * 3)
    assert evaluate_run(open_run(runs["lstm"]), pairs=str(path))["same/accuracy"]["value"] == 0


def test_a_folder_of_the_data_directory_has_files_of_pairs_and_others(tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path))
    (tmp_path / "blimp").mkdir()
    write_pairs(tmp_path / "blimp" / "b.jsonl.gz", [("b", "c")])
    write_pairs(tmp_path / "blimp" / "a.jsonl.gz", [("a", "c")] * 2)
    (tmp_path / "blimp" / "published.jsonl").write_text('{"lstm": 0.9}\n')
    data = MinimalPairs("blimp")
    assert data.name == "blimp"
    assert [pair.good for pair in data.pairs()] == ["a", "a", "b"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"sentence_good": "a"}\n', r"x\.jsonl:1"),
        ('{"sentence_good": "a", "sentence_bad": "b"}\nword\n', r"x\.jsonl:2"),
        ('{"sentence_good": "a", "sentence_bad": 3}\n', r"x\.jsonl:1"),
        ('{"sentence_good": "a", "sentence_bad": " "}\n', r"x\.jsonl:1"),
        ("", "empty"),
    ],
)
def test_a_malformed_file_is_one_error_before_anything_is_scored(runs, tmp_path, content, words):
    (tmp_path / "x.jsonl").write_text(content)
    before = runs["lstm"].metrics()
    with pytest.raises(PhmrunError) as refused:
        evaluate_run(open_run(runs["lstm"]), pairs=str(tmp_path / "x.jsonl"))
    assert refused.value.code == 3
    assert words.replace("\\", "") in f"{refused.value.where} {refused.value.what}"
    assert runs["lstm"].metrics() == before


def test_names_that_are_nowhere_and_tasks_without_pairs_are_one_error(runs, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path))
    with pytest.raises(PhmrunError, match="no minimal pairs called 'blump'"):
        evaluate_run(open_run(runs["lstm"]), pairs="blump")
    other = run_of(run_experiment(configured("sva", tmp_path / "corpus"), tmp_path / "runs"))
    with pytest.raises(PhmrunError, match="judged by runs of lm, not of sva"):
        evaluate_run(open_run(other), pairs="blimp")


@given(st.one_of(st.text(), st.dictionaries(st.text(), st.text()).map(json.dumps), st.lists(st.none()).map(json.dumps)))
def test_any_line_is_a_pair_or_one_error(line):
    with contextlib.suppress(PhmrunError):
        assert _pair(line, "x:1").good
