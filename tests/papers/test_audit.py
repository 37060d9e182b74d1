"""The audit: which figures must agree, and that nothing is taken from a file but the settings."""

import re
from collections import Counter
from pathlib import Path

import pytest

from phmrun.engine.counting import count_parameters
from phmrun.papers.audit import audit, build_counts, row_config
from phmrun.papers.published import Verdict
from phmrun.papers.table import load_table

AGREE = (Verdict.FOLLOWS, Verdict.TRIVIAL, Verdict.FITTED, Verdict.ROUNDED)


@pytest.fixture(scope="module")
def rows():
    actual = {}
    for row in audit("all"):
        assert (row.paper, row.table, row.row) not in actual
        actual[row.paper, row.table, row.row] = row
    return actual


def of(rows, paper, table):
    return {key[2]: row for key, row in rows.items() if key[:2] == (paper, table)}


@pytest.mark.parametrize("table", ["5", "7"])
def test_all_ten_counts_of_the_reproduction_to_the_unit(rows, table):
    actual = of(rows, "reproduction", table)
    assert len(actual) == 5
    assert {row.verdict for row in actual.values()} == {Verdict.FOLLOWS, Verdict.FITTED}
    assert [row.verdict is Verdict.FITTED for row in actual.values()] == [False, True, True, True, False]
    assert all(int(row.published.replace(",", "")) == row.computed for row in actual.values())


EXACT = r"""
1 phm 1 LSTM / #Params
3 phm 1 PHM-LSTM \(n = (2|5|10)\) / #Params
8 phm 2 (Transformer|Quaternion|PHM n = [248]|PHM† n = [248]) / #Params
4 phm 5 (Transformer|PHM \(n = [248]\)) / #Params
4 phm 6 (Transformer|Quaternion|PHM \(n = [48]\)) / #Params
3 phm 6 PHM \(n = [248]\) / Saving
6 matsuno 4 (Character LSTM|Others|(Arc|Label) (MLP|Classifier)) / Number of Parameters
6 matsuno 5 (Baseline|(Symmetry|Circulant) Matrix) / (Arc|Label) Classifier
4 shapeshifter 1 \*(Transformer|PHM-Tm n=16) / (Total|Enc./Dec.)
25 shapeshifter [123] \*Shapeshifter (16|64|24)/256 / (Total|Enc./Dec.|Emb.|Pct.|Fold)
3 shapeshifter 2 \*Transformer \(fairseq\) / (Total|Enc./Dec.|Emb.)
2 shapeshifter 5 De-En, Low-rank 16/256 / (Enc/Dec|Emb.)
3 define 1 a: R1 Standard / Total|a: R2 Adaptive / Total|c: AWD-LSTM / Parameters
6 define 1 a: R[345] Adaptive \+ DeFINE / (Context model|Input-Output \(tied\))
4 define 2 a: Standard (384|410) / (Context model|Total)
3 define 2 a: Projective (256|128|64) / Input-Output \(tied\)
"""
"""How many figures, of which paper and table, and their names: all are exact."""


@pytest.mark.parametrize("exact", EXACT.strip().splitlines())
def test_what_must_be_exact(rows, exact):
    count, paper, table, figures = exact.split(" ", 3)
    places = rf"{paper}\t{table}\t({figures})"
    actual = {key: row.verdict for key, row in rows.items() if re.fullmatch(places, "\t".join(key))}
    assert len(actual) == int(count)
    assert [key for key, verdict in actual.items() if verdict not in AGREE] == []


@pytest.mark.parametrize(
    ("paper", "table", "row", "source"),
    [
        ("shapeshifter", "2", "*PHM-Tm n=16 / Emb.", "the printed Emb. of *Transformer (T5), the same parameters"),
        ("shapeshifter", "3", "*Shapeshifter 24/256 / Fold", "derived from the printed 8.6"),
        ("define", "2", "b: Transformer-XL (Projective", "the printed Total of a: Projective 128, the same parameters"),
        ("phm", "6", "PHM (n = 2) / #Params", "printed to 2 digits"),
    ],
)
def test_what_is_exact_by_another_printed_number_says_so(rows, paper, table, row, source):
    actual = next(first for name, first in of(rows, paper, table).items() if name.startswith(row))
    assert actual.verdict in (Verdict.ROUNDED, Verdict.FITTED)
    assert source in actual.note


def test_figures_by_verdict(rows):
    """A number that was fitted, rounded or trivially equal does not count as one that follows."""
    counts = Counter(str(row.verdict) for row in rows.values())
    expected = {"follows": 69, "trivial": 17, "fitted": 94, "rounded": 8, "differs": 18, "underdetermined": 58}
    assert counts == {**expected, "quoted": 39}
    page = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
    assert f"Of {len(rows)} figures in all papers {counts['follows']} follow" in page


@pytest.mark.parametrize(
    ("paper", "table", "row", "reason"),
    [
        ("phm", "2", "PHM n = 4 / #Params", "model.encoder_layers = 6, counted 44M"),  # the text has 4
        ("phm", "2", "Factorized / #Params", "rank 128, a quarter of 512, as in 4.2: 14,942,208"),
        ("phm", "5", "PHM (n = 4) / Saving", "model.encoder_layers = 6, counted 44M"),
        ("phm", "6", "PHM (n = 8) / #Params", "counted"),
        ("shapeshifter", "2", "*Transformer (fairseq) / Enc./Dec.", "model.feedforward = 1024, counted 31.5M"),
        ("shapeshifter", "2", "*Transformer (fairseq) / Emb.", "data.vocabulary.size = 8848, counted 39.5M"),
        ("shapeshifter", "4", "*Shapeshifter 64/256 / Enc./Dec.", "5.2 gives English-German 1,024"),
        ("matsuno", "5", "Symmetry Matrix / Label Classifier", "counted 377,437, 37 labels"),
        ("shapeshifter", "2", "*Shapeshifter 16/256 / Emb.", ""),  # the counted biases are in the blocks
        ("shapeshifter", "3", "*Transformer / Enc./Dec.", ""),  # the counted vocabulary is not
        ("matsuno", "4", "Arc Classifier / Number of Parameters", ""),
        ("define", "1", "a: R2 Adaptive / Context model", ""),
    ],
)
def test_a_count_is_fitted_if_it_rests_on_a_setting_chosen_by_counts(rows, paper, table, row, reason):
    actual = of(rows, paper, table)[row]
    assert (actual.verdict, reason in actual.note) == (Verdict.FITTED if reason else Verdict.FOLLOWS, True)


def test_the_factorized_network_that_is_trained_is_the_one_counted(rows):
    assert of(rows, "phm", "2")["Factorized / #Params"].computed == 10_985_472
    tables = {number: load_table(f"configs/papers/phm/table{number}.yaml") for number in (2, 4)}
    configs = [row_config(table, table.row("Factorized"), str(number)) for number, table in tables.items()]
    assert [config.layer.options["budget"] for config in configs] == [0.25, 0.25]


@pytest.mark.parametrize("width", [384, 256, 128, 64])
def test_define_of_projected_words_has_the_printed_count_for_every_width(rows, width):
    actual = of(rows, "define", "2")[f"a: DeFINE {width}, of projected words / DeFINE"]
    assert (actual.published, actual.computed) == ("1.92", 1_924_739)
    assert "as figure 11 shows: 16,586,680" in actual.note


def test_the_parser_as_released_is_larger_than_printed(rows):
    """The paper counts layers 2 and 3 of the BiLSTM with half of their inputs; 2·4·200·200 for each of four cells."""
    actual = of(rows, "matsuno", "4")
    printed, computed = actual["Bidirectional LSTM / Number of Parameters"].published, 2_567_200
    assert actual["Bidirectional LSTM / Number of Parameters"].computed == computed == int(printed) + 4 * 4 * 200 * 200
    assert actual["TOTAL / Number of Parameters"].computed == 3_157_637 + 640_000
    others = actual["Others / Number of Parameters"]  # characters' attention and map, and the map of fixed vectors
    assert (others.verdict, others.computed) == (Verdict.FOLLOWS, 200 + (400 * 100 + 100) + (100 * 100 + 100))
    assert "half of what they read" in actual["Bidirectional LSTM / Number of Parameters"].note
    assert "defaults" in actual["Character LSTM / Number of Parameters"].note


def test_a_row_of_a_task_is_what_train_builds():
    from phmrun.families.sequence_to_sequence.module import build_sequence_to_sequence as build_module

    name = "configs/papers/reproduction/table7.yaml"
    table = load_table(name)
    row = table.row("PHM-Transformer (n=16)")
    config = row_config(table, row, name)
    network = build_module(config, 32768, 32768).network
    assert sum(parameter.numel() for parameter in network.parameters()) == 1_844_224
    assert count_parameters(config)["total"] == 1_844_224


def test_what_is_counted_is_what_training_builds():
    """Two vocabularies of different sizes are those of the configuration, not of the table alone."""
    name = "configs/papers/shapeshifter/table2.yaml"
    table = load_table(name)
    row = table.row("*Transformer (fairseq)")
    assert row.vocabulary is None
    assert row_config(table, row, name).sizes == (8848, 6632)
    assert build_counts(table, row, name)["total"] == 39_469_056
