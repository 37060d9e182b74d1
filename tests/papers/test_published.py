"""Every table's file loads; what a file must not say is refused with its place."""

import pytest

from phmrun.errors import PhmrunError
from phmrun.papers.table import Column, PaperRow, PaperTable, column_groups, load_table, paper_names, table_names

TABLE = """
paper: mine
table: "1"
title: A table
network: nli-lstm
base: {vocabulary: 10}
columns:
  "#Params": {counts: [lstm]}
  Saving: {derived: saving, of: "#Params", against: LSTM}
  BLEU: {metric: bleu}
rows:
  - name: LSTM
    published: {"#Params": 721K, BLEU: "20.10"}
"""


def test_the_tables_of_each_paper():
    wanted = {
        "phm": [1, 2, 3, 4, 5, 6],
        "shapeshifter": [1, 2, 3, 4, 5],
        "reproduction": [3, 4, 5, 6, 7],
        "matsuno": [4, 5],
        "define": [1, 2, 3, 4, 5, 6, 7, 8],
    }
    assert set(paper_names()) == set(wanted)
    for paper, numbers in wanted.items():
        assert set(table_names(paper)) >= {f"configs/papers/{paper}/table{number}.yaml" for number in numbers}


def test_a_column_with_settings_in_a_cell_is_an_experiment():
    columns = {name: Column(metric=name, score=f"test/{name}") for name in ("bleu", "loss", "chrf")}
    rows = [PaperRow(name="LSTM", published={}, cells={"loss": {"seed": 2}})]
    table = PaperTable(paper="mine", table="1", title="A table", task="nmt", columns=columns, rows=rows)
    assert column_groups(table) == {"bleu": "bleu", "loss": "loss", "chrf": "bleu"}


@pytest.mark.parametrize("name", table_names())
def test_every_file_loads_under_its_own_name(name):
    table = load_table(name)
    assert name == f"configs/papers/{table.paper}/table{table.table}.yaml"
    printed = [row for row in table.rows if row.published]  # none in a table of settings alone
    assert not printed or all(row.published for row in table.rows if row.set)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("721K", "many", "'many' is not a printed number"),
        ('"#Params": 721K', "Size: 721K", "there is no column 'Size'"),
        ("against: LSTM", "against: GRU", "there is no row 'GRU'"),
        ("{counts: [lstm]}", "{counts: [lstm], follows: [-Sum]}", "there is no column 'Sum' to follow"),
        ("    published", "    repeats: {BLEU: [GRU, BLEU]}\n    published", "there is no row 'GRU'"),
        ("{counts: [lstm]}", "{counts: [lstm], metric: bleu}", "exactly one of counts, derived, metric"),
        ("network: nli-lstm", "network: nli-lstm\ntask: nmt", "either a task or a network"),
        ("    published", "    missing: the width\n    published", "no other reading is given"),
        ('BLEU: "20.10"', "BLEU: 20.10", "BLEU"),  # a number would lose its last digit
        ("title: A table", "titel: A table", "title"),
    ],
)
def test_bad_table_files_are_refused_with_their_place(tmp_path, old, new, what):
    path = tmp_path / "table.yaml"
    path.write_text(TABLE.replace(old, new))
    with pytest.raises(PhmrunError, match=what) as caught:
        load_table(str(path))
    assert caught.value.where == str(path)
