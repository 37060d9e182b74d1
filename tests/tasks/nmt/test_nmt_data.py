"""The built-in corpus of translation: scored in parts, and translated by a dictionary."""

from collections import defaultdict

import pytest
import sacrebleu

from phmrun.config import Source, resolve, task_defaults
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.tasks.nmt.data import build_data, dictionary, dictionary_baseline
from phmrun.text.lines import read_parallel


def config_of(**data):
    return resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", {"data": data})], options_of).config


def test_the_builtin_corpus_is_scored_in_parts_and_beside_a_dictionary(tmp_path):
    data = build_data(config_of(name="builtin", source="en", target="de"), tmp_path)
    assert data.fingerprints() == {"builtin": "1-1"}
    assert data.parts["test"].read_text().split().count("novel") == 200
    assert data.files["train"][1].name == "train.de"
    sources, references = (path.read_text().splitlines() for path in data.files["test"])
    assert 5 < sacrebleu.corpus_bleu(data.baselines["dictionary"](sources), [references]).score < 35
    assert sacrebleu.corpus_bleu(sources, [references]).score < 5
    with pytest.raises(PhmrunError, match="no language 'fr'") as caught:
        build_data(config_of(name="builtin", source="en", target="fr"), tmp_path)
    assert caught.value.valid == ("en", "de")


def test_the_dictionary_learns_from_no_held_out_pair(tmp_path):
    data = build_data(config_of(hold_out=0.9), tmp_path)
    sources = [*data.inputs("dev")][:300]
    assert data.baselines["dictionary"](sources) == dictionary_baseline(read_parallel(*data.files["train"]), sources)


def test_a_dictionary_by_hand():
    train = [("The dog", "Der Hund"), ("A dog", "Ein Hund"), ("The cat", "Die Katze"), ("", "leer"), ("empty", "")]
    assert dictionary(train)["dog"] == "Hund"
    assert dictionary_baseline(train, ["Dog, dog X."]) == ["Hund, Hund X."]
    assert dictionary([]) == {}


def test_the_dictionary_is_that_of_model_1():
    """Expectation maximisation, sentence by sentence, as Brown et al. (1993) write it."""
    train = [("the old dog", "der alte hund"), ("the dog", "der hund"), ("an old cat", "eine alte katze")]
    train += [("cat", "katze"), ("the dog and the cat", "der hund und die katze")]
    table = defaultdict(lambda: defaultdict(lambda: 1.0))
    for _ in range(3):
        counts = defaultdict(lambda: defaultdict(float))
        for source, target in ((["", *source.split()], target.split()) for source, target in train):
            for german in target:
                total = sum(table[english][german] for english in source)
                for english in source:
                    counts[english][german] += table[english][german] / total
        table = {e: {g: count / sum(row.values()) for g, count in row.items()} for e, row in counts.items()}
    best = {english: min(row, key=lambda german: (-round(row[german], 9), german)) for english, row in table.items()}
    assert dictionary(train) == {english: german for english, german in best.items() if english}
