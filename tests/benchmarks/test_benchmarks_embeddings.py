"""Lookups against nn.Embedding: what is measured, and that all forms find the same vectors."""

import json

import pytest

from benchmarks import embeddings
from benchmarks.embeddings import REFERENCE, measure
from phmrun.errors import PhmrunError

DEFINE = ("define", {"depth": 2, "expansion": 32, "max_groups": 2, "multiple_of": 4, "width": 8})


def test_every_form_is_measured_and_finds_the_same():
    rows = list(measure([DEFINE, ("phm", {"n": 2})], words=40, width=16, tokens=9, rounds=2, at_least=0))
    define, phm = rows
    assert define.embedding == "define depth=2 expansion=32 max_groups=2 multiple_of=4 width=8"
    assert define.seconds.keys() == {REFERENCE, "folded", "kept", "computed"}
    assert define.ratios.keys() == {"folded", "kept", "computed"}
    assert phm.parameters == 40 * 16 // 2 + 8
    assert max(row.difference for row in rows) < 1e-6


def test_kept_vectors_are_not_computed_again(monkeypatch):
    calls = []
    built = embeddings.build_embedding

    def counted(*sizes, **options):
        module = built(*sizes, **options)
        embed = module.embed
        module.embed = lambda tokens: calls.append(len(tokens)) or embed(tokens)
        return module

    monkeypatch.setattr(embeddings, "build_embedding", counted)
    list(measure([DEFINE], words=40, width=16, tokens=9, rounds=3, at_least=0))
    assert calls.count(40) == 2, "once to fold it, once to keep it"


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(PhmrunError, match="groups do not divide"):
        list(measure([("define", {"width": 5})], words=40, width=16, tokens=9, rounds=1))


def test_script_prints_a_table_or_json(capsys):
    arguments = ["--embedding", "define depth=2 expansion=32 max_groups=2 multiple_of=4", "--words", "40"]
    arguments += ["--width", "16", "--tokens", "5", "--repeats", "1"]
    embeddings.main([*arguments, "--json"])
    assert json.loads(capsys.readouterr().out)["rows"][0]["difference"] < 1e-6
    embeddings.main(arguments)
    assert "5 of 40 words, 16 numbers each" in capsys.readouterr().out
    with pytest.raises(PhmrunError, match="depth"):
        embeddings.main(["--embedding", "define depht=2"])
