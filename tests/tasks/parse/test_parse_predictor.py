"""A parser at work: what comes in goes out with another tree, and scores are the official evaluator's."""

import json
import subprocess
import sys

import pytest
import torch
from tiny_parser import learn, prepared
from tiny_treebank import trees_of

from phmrun.errors import PhmrunError
from phmrun.metrics.parsing import attachment_scores
from phmrun.tasks.parse.config import TreeDecodingConfig
from phmrun.tasks.parse.predictor import TreeParser, arcs_of
from phmrun.text import conllu

CONLLU = """\
# sent_id=1
#text =  d1n2 odd
1-2	d1n2	_	_	_	_	_	_	_	SpaceAfter=No
1	d1	a	DET	D	B=1|A=2	_	_	_	_
2	n2	b	NOUN	N	_	7	wrong	3:x	A=b c
2.1	e	_	_	_	_	_	_	_	_
3	v3	_	VERB	V		2	old		_


1	v1	_	VERB	V	_	0	root	_	_

"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A parser that has learnt a little, its data, and its config."""
    data, module = prepared(tmp_path_factory.mktemp("parser"))
    learn(data, module, steps=40, rate=0.01)
    return module.parser, data, data.config


def parser_of(trained, **search):
    network, data, _ = trained
    return TreeParser(network, data.vocabulary, TreeDecodingConfig(**search), weights="test")


def answers(parser, text):
    return list(parser.predict(text.split("\n")[:-1]))


def test_conllu_goes_out_as_it_came_in_but_for_the_tree(trained):
    actual = answers(parser_of(trained), CONLLU)
    out = "".join(f"{answer.text}\n" for answer in actual)
    expected = conllu.stream(CONLLU.splitlines(keepends=True), name="input")
    assert out == conllu.dumps(
        [
            sentence.with_parse(answer.values["heads"], answer.values["labels"]).without_enhanced()
            for sentence, answer in zip(expected, actual, strict=True)
        ]
    )
    before = [line for line in CONLLU.splitlines() if not line.startswith("2.1")]  # of the enhanced graph alone
    changed = [number for number, (old, new) in enumerate(zip(before, out.splitlines(), strict=True)) if old != new]
    assert set(changed) <= {3, 4, 5, 8}
    parsed = trees_of(out)  # which are trees
    assert [len(item) for item in parsed] == [3, 1]
    assert actual[0].values["words"] == ["d1", "n2", "v3"]
    assert parsed[1].heads == (0,)
    (marked, _) = answers(parser_of(trained), f"\ufeff{CONLLU}")
    assert marked == actual[0]


def test_the_size_of_a_batch_changes_nothing(trained):
    gold = trained[1].sentences("dev")
    alone, together = (parser_of(trained, batch=size).parse(gold) for size in (1, 64))
    assert alone == together
    assert together[3] == parser_of(trained).parse(gold[3:4])[0]


def test_the_best_tree_or_the_best_heads(trained):
    network, data, _ = trained
    gold = data.sentences("dev")
    trees_of(conllu.dumps(parser_of(trained, tree="mst").parse(gold)))  # raises where there is no tree
    torch.manual_seed(1)
    torch.nn.init.normal_(network.arc_classifier.v, std=30.0)  # which makes trees unlikely
    greedy = parser_of(trained, tree="greedy").parse(gold)
    trees_of(conllu.dumps(parser_of(trained, tree="mst").parse(gold)))
    with pytest.raises(PhmrunError, match=r"cycle|root"):
        trees_of(conllu.dumps(greedy))
    assert conllu.read(conllu.dumps(greedy).splitlines(keepends=True), "greedy", checked=False) == greedy
    torch.nn.init.zeros_(network.arc_classifier.v)


def test_scores_and_predictions_of_a_split(trained, tmp_path):
    pytest.importorskip("udtools")
    _, data, _ = trained
    evaluation = parser_of(trained).evaluate(data, "test")
    gold, parsed = data.sentences("test"), trees_of(evaluation.predictions)
    expected = {name: score.value for name, score in attachment_scores(gold, parsed).items()}
    assert {name: evaluation.scores[name].value for name in expected} == expected
    assert evaluation.scores["las"].signature.endswith("|bs:1000|seed:12345|tree:mst|tags:upos|weights:test")
    assert "weights" not in evaluation.scores["las-of-neighbour"].signature
    assert (evaluation.items, evaluation.units, evaluation.ending) == (12, sum(map(len, gold)), "conllu")
    assert len(evaluation.samples) == 8
    assert evaluation.samples[0][1] == arcs_of(gold[0])
    (tmp_path / "parsed").write_text(evaluation.predictions)
    program = (
        "import json, sys; from udtools.udeval import evaluate, load_conllu_file as load; "
        "scores = evaluate(load(sys.argv[1]), load(sys.argv[2])); "
        "print(json.dumps({name.lower(): 100 * scores[name].f1 for name in ('UAS', 'LAS', 'CLAS')}))"
    )
    (path,) = data.files["test"]
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), str(tmp_path / "parsed")], check=True, capture_output=True
    )
    official = json.loads(done.stdout)
    assert {name: expected[name] for name in official} == pytest.approx(official, rel=1e-12)


def test_a_parsed_treebank_with_empty_nodes_is_valid(trained, tmp_path):
    """The official validator finds an unconnected graph where empty nodes keep the arcs of the gold treebank."""
    pytest.importorskip("udtools")
    text = (
        "# sent_id = 1\n# text = She runs and he walks\n"
        "1\tShe\tshe\tPRON\t_\t_\t2\tnsubj\t2:nsubj\t_\n"
        "2\truns\trun\tVERB\t_\t_\t0\troot\t0:root\t_\n"
        "3\tand\tand\tCCONJ\t_\t_\t5\tcc\t5.1:cc\t_\n"
        "4\the\the\tPRON\t_\t_\t5\tnsubj\t5:nsubj|5.1:nsubj\t_\n"
        "5\twalks\twalk\tVERB\t_\t_\t2\tconj\t2:conj\t_\n"
        "5.1\twalks\twalk\tVERB\t_\t_\t_\t_\t2:conj\t_\n\n"
    )
    (parsed,) = parser_of(trained).parse(trees_of(text))
    assert "5.1" not in parsed.text
    assert trees_of(parsed.text) == [parsed]
    (tmp_path / "parsed.conllu").write_text(parsed.text)
    program = "from udtools.cli import main; main()"
    command = [sys.executable, "-c", program, "--level", "2", "--lang", "ud", str(tmp_path / "parsed.conllu")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "unconnected" not in done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
