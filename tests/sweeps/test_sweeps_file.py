"""Valid sweep files, and the errors for invalid ones."""

import pytest

from phmrun.errors import PhmrunError
from phmrun.sweeps.file import load_sweep

TABLE = """
paper: mine
table: "1"
title: A table
task: toy
base: {model: {width: 8}}
columns:
  "#Params": {counts: matrices}
  A: {metric: accuracy, score: test/accuracy}
  B: {metric: accuracy, score: test/accuracy, set: {data: {name: other}}}
  C: {metric: accuracy, score: test/other, set: {data: {name: other}}}
  Seconds: {metric: seconds}
rows:
  - name: Dense
    published: {"#Params": 1K, A: "90.1", B: "80.1"}
  - name: PHM
    set: {layer: {structure: phm, n: 2}}
    published: {A: "90.0"}
  - name: Theirs
    quoted: another paper
    published: {A: "91.0"}
"""


def test_seeds_are_counted_or_named_and_grow(written):
    assert load_sweep(written({"task": "toy", "seeds": 3})).seeds() == [1, 2, 3]
    named = load_sweep(written({"task": "toy", "seeds": [7, 3]}))
    assert named.seeds() == [7, 3]
    assert named.seeds(4) == [7, 3, 8, 9]
    assert named.seeds(1) == [7]


def test_a_table_is_a_sweep(written):
    sweep = load_sweep(written(TABLE))
    assert sweep.table is not None
    assert sweep.title == "A table"
    assert load_sweep(written({"task": "toy", "title": "a\n\\input{b}\x1b"})).title == "a \\input{b}\\x1b"
    twin = load_sweep(
        written({"table": written(TABLE, "table1.yaml"), "reduced": "less", "grid": {"row": ["PHM"]}}, "twin.yaml")
    )
    assert twin.table == sweep.table
    assert twin.file.reduced == "less"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({}, "exactly one of task, table; given: none"),
        ({"task": "toy", "table": "TABLE"}, "given: both"),
        ({"task": "toy", "gird": {}}, "gird: there is no such key; did you mean 'grid'"),
        ({"task": "toy", "grid": {"layer": []}}, "grid.layer"),
        ({"task": "nmt", "measure": "test/bleuu"}, "there is no score 'test/bleuu'"),
        ({"task": "toy", "grid": {"seed": [1, 2]}}, "seeds are given by the key seeds"),
        ({"task": "toy", "base": {"seed": 2}}, "seeds are given by the key seeds"),
        ({"task": "toy", "seeds": [1, 1]}, "a seed is named twice"),
        ({"task": "toy", "seeds": 0}, "seeds"),
        ({"task": "toy", "seeds": [-1]}, "seeds"),
        ({"task": "toy", "reduced": "less"}, "belongs to a table"),
        ({"task": "toy", "tune": {"replicates": True, "training.clip": True}}, "clip is True, not a list of values"),
        ({"task": "toy", "tune": {"replicates": "maybe"}}, "replicates is true or false"),
        ({"task": "toy", "tune": {"training.clip": []}}, "tune.training.clip is [], not a list of values"),
        ({"task": "toy", "tune": {}}, "tune is empty"),
        ({"table": "TABLE", "grid": {"layer": ["phm"]}}, "grid has row and column only"),
        ({"table": "TABLE", "grid": {"row": ["PMH"]}}, "there is no row 'PMH'"),
        ({"table": "TABLE", "grid": {"column": ["D"]}}, "there is no column 'D'"),
        ({"table": "COUNTS"}, "this table has no task"),
    ],
)
def test_bad_sweep_files_are_refused(written, content, what):
    if content.get("table") == "TABLE":
        content = {**content, "table": written(TABLE, "table1.yaml")}
    if content.get("table") == "COUNTS":
        content = {"table": written(TABLE.replace("task: toy", "network: nli-lstm"), "table1.yaml")}
    with pytest.raises(PhmrunError) as caught:
        load_sweep(written(content))
    assert what in str(caught.value)
    assert ".yaml" in str(caught.value)


def test_all_mistakes_at_once_with_their_lines(written):
    with pytest.raises(PhmrunError) as caught:
        load_sweep(written("task: toy\ngird: {}\nseeds: many\n"))
    assert "sweep.yaml:2" in str(caught.value)
    assert "sweep.yaml:3" in str(caught.value)


def test_paths_are_taken_from_the_folder_of_the_file(tmp_path, monkeypatch):
    folder = tmp_path / "study"
    folder.mkdir()
    for name in ("train.tsv", "dev.tsv", "mine.py", "more.yaml", "a[1].de"):
        (folder / name).write_text("")
    (folder / "sweep.yaml").write_text(
        "task: toy\nconfig: [more.yaml, configs/tasks/nmt.yaml]\nplugins: [mine.py]\n"
        "base: {data: {name: files, train: train.tsv, dev: dev.tsv, vectors: glove/a.txt, source: train, prefix: ./}}\n"
        "grid: {data.train: [train.tsv, absent.tsv], layer: [dense]}\n"
        "exclude: [{data.train: train.tsv}, {data.prefix: 'a[1].'}]\n"
    )
    monkeypatch.chdir(tmp_path)
    file = load_sweep("study/sweep.yaml").file
    data = {"train": "study/train.tsv", "dev": "study/dev.tsv", "vectors": "glove/a.txt"}
    assert file.base["data"] == {"name": "files", "source": "train", "prefix": "study/", **data}
    assert file.exclude == [{"data.train": "study/train.tsv"}, {"data.prefix": "study/a[1]."}]
    assert file.grid == {"data.train": ["study/train.tsv", "absent.tsv"], "layer": ["dense"]}
    assert (file.plugins, file.config) == (["study/mine.py"], ["study/more.yaml", "configs/tasks/nmt.yaml"])


@pytest.mark.parametrize(
    ("tune", "seeds", "each"),
    [
        (True, 3, True),
        ({"training.optimizer.lr": [0.1, 1]}, [4, 5, 6], True),
        ({"replicates": False}, 6, False),
        ({"training.optimizer.lr": [0.1, 1], "replicates": False}, 6, False),
        ({"training.optimizer.lr": [0.1, 1], "replicates": True}, 2, True),
        (True, 2, False),
        ({"training.optimizer.lr": [0.1, 1], "training.clip": [1, 5]}, 6, False),
        ({"training.optimizer.name": ["adam", "muon"]}, 6, False),
    ],
)
def test_each_of_three_or_more_seeds_searches_one_key_of_numbers_by_default(written, tune, seeds, each):
    assert load_sweep(written({"task": "toy", "tune": tune, "seeds": seeds})).file.replicates is each


def test_only_sweeps_are_suggested_for_a_missing_sweep():
    with pytest.raises(PhmrunError) as caught:
        load_sweep("reproduction")  # as configs/nli/reproduction.yaml, which is none
    assert caught.value.hint is None
    assert {name.split("/")[1] for name in caught.value.valid} == {"papers", "sweeps"}
