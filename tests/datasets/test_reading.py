"""Counts of datasets, compared with the published counts."""

import gzip
import os
from dataclasses import replace

import pytest

from phmrun.datasets import CATALOGUE, Check, Dataset, File, inspect, locate, splits_here
from phmrun.datasets.reading import compare, count, verify_dataset
from phmrun.files import write_text

TREE = "1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\t_\n2\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"


def dataset(format, **sizes):
    return Dataset("some", ("nmt",), "s", "l", format, sizes={"train": sizes})


@pytest.mark.parametrize(
    ("format", "text", "expected"),
    [
        ("parallel", "a\nb\n", {"lines": 2}),
        ("snli", '{"gold_label": "-", "sentence1": "a", "sentence2": "b"}\n'
                 '{"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}\n', {"pairs": 1, "unlabelled": 1}),
        ("quora", "1\ta\tb\t7\n0\ta\t\t8\n", {"pairs": 1, "unlabelled": 1}),
        ("vectors", "the 0.1 0.2\n. . 0.1 0.2\n", {"vectors": 2}),
        ("lines", "a " * 2**20, {"lines": 1, "words": 2**20}),  # 2 MiB: the text of a whole document
    ],
)  # fmt: skip
def test_unlabelled_items_single_sides_and_long_lines_are_counted(tmp_path, format, text, expected):
    path = tmp_path / "packed"
    path.write_bytes(gzip.compress(text.encode()))
    assert count(dataset(format), "train", {"role": path}) == expected


def test_counts_are_compared_with_what_is_published(data):
    actual = {"sentences": 5, "words": 90, "tokens": 7}
    counted = compare(dataset("conllu", sentences=5, words=100), "train", actual)
    assert [(item.unit, item.verdict) for item in counted] == [
        ("sentences", "as published"),
        ("words", "too few"),
        ("tokens", "no published count"),
    ]
    assert compare(dataset("lines", lines=3), "train", {"lines": 4})[0].verdict == "more than published"


MINIATURES = {
    "parallel": ("one two\nthree\n", {"pairs": 2}),
    "snli": ('{"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}\n', {"pairs": 1}),
    "dnli": ('[{"label": "neutral", "sentence1": "a", "sentence2": "b"}]\n', {"pairs": 1}),
    "scitail": ("a\tb\tentails\n", {"pairs": 1}),
    "quora": ("1\ta\tb\t7\n", {"pairs": 1}),
    "agreement": ("VBZ\tthe key\nVBP\tkeys\n", {"items": 2}),
    "conllu": (TREE * 3, {"sentences": 3, "words": 6}),
    "lines": (" one two \n\n three\n", {"lines": 3, "words": 3}),
    "vectors": ("the 0.1 0.2\n", {"vectors": 1}),
}  # fmt: skip
"""Small file of each format, with its counts."""
NAMES = [name for name in CATALOGUE.names() if CATALOGUE.get(name).format != "generated"]


@pytest.mark.parametrize("name", NAMES)
def test_a_miniature_of_every_dataset_is_counted(data, name):
    entry = CATALOGUE.get(name)
    text, expected = MINIATURES[entry.format]
    for file in entry.files:
        path = data / name / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    assert splits_here(entry) == tuple(entry.splits)
    for split in entry.splits:
        counts = count(entry, split, locate(name, [split])[split])
        assert counts == expected
        verdicts = {counted.verdict for counted in compare(entry, split, counts)}
        assert verdicts <= {"too few", "no published count"}


def test_a_replaced_file_of_the_same_size_is_verified_again(data, monkeypatch):
    monkeypatch.setattr(type(CATALOGUE), "get", lambda *_: replace(dataset("lines"), splits={"x": (File("a", ()),)}))
    for text in ("one\n", "two\n"):
        write_text(data / "some/a", text)
        verify_dataset("some", data)
    assert len(list((data / "counted").iterdir())) == 2


def names_here():
    """Datasets on this machine; the others come over the network."""
    here = [name for name in NAMES if "PHMRUN_DATA" in os.environ and splits_here(CATALOGUE.get(name))]
    return here or [pytest.param("", marks=pytest.mark.skip(reason="network: no dataset is on this machine"))]


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in names_here() if name != "glove"])
def test_what_is_on_this_machine_is_as_published(name):
    entry = CATALOGUE.get(name)
    assert not [presence for presence in inspect(entry) if presence.check is Check.WRONG]
    for split in splits_here(entry):
        for counted in compare(entry, split, count(entry, split, locate(name, [split])[split])):
            assert counted.verdict == "as published", (split, counted)
