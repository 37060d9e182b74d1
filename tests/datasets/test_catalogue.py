"""The catalogue: what comes with phmrun is complete, and a malformed entry is refused with its place."""

import pytest

from phmrun.datasets import CATALOGUE
from phmrun.datasets.catalogue import is_safe, read_entry
from phmrun.errors import PhmrunError
from phmrun.registry import DATASETS, load_plugin

SHA = "0" * 64
ENTRY = {
    "tasks": ["nmt"],
    "summary": "s",
    "licence": "l",
    "format": "parallel",
    "mirrors": ["https://one.org/", "https://two.org/x/"],
    "splits": {"train": {"en": {"path": "a/t.en", "sha256": SHA, "bytes": 3}}},
}


def parse(**changes):
    return read_entry("some", ENTRY | changes)


def with_file(**changes):
    return parse(splits={"train": {"en": {"path": "a/t.en", "sha256": SHA} | changes}})


def test_what_comes_with_phmrun_is_complete():
    assert {"builtin", "multi30k"} <= set(CATALOGUE.names())
    for name in CATALOGUE.names():
        dataset = CATALOGUE.get(name)
        assert dataset.tasks or dataset.format == "vectors"
        assert dataset.licence
        assert dataset.generated or (dataset.files and dataset.homepage and dataset.citation)
        assert set(dataset.sizes) <= set(dataset.splits) or dataset.generated


ROLES = {"agreement": "items", "conllu": "conllu", "lines": "text", "vectors": "vectors"}


@pytest.mark.parametrize("name", [name for name in CATALOGUE.names() if not CATALOGUE.get(name).generated])
def test_an_entry_is_consistent(name):
    dataset = CATALOGUE.get(name)
    (roles,) = {tuple(sorted(file.role for file in files)) for files in dataset.splits.values()}
    assert len(roles) == 2 if dataset.format == "parallel" else roles == (ROLES.get(dataset.format, "pairs"),)
    if name not in ("glove", "linzen-full"):
        assert {"train", "dev"} <= set(dataset.splits)
    for files in dataset.splits.values():
        assert len({len(file.parts) for file in files}) == 1
        assert all(file.parts or file.urls for file in files)
        assert len({file.assembled for file in files}) == 1
    used = {part.archive for file in dataset.files for part in file.parts}
    assert used == set(dataset.archives)
    assert all(archive.urls or dataset.by_hand for archive in dataset.archives.values())
    assert len({file.path for file in dataset.files}) == sum(map(len, dataset.splits.values()))
    assert (dataset.citation or "").lstrip().startswith("@")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"path": "../t.en"}, "relative path"),
        ({"path": "/t.en"}, "relative path"),
        ({"path": 3}, "valid string"),
        ({"sha256": "abc"}, "should match pattern"),
        ({"bytes": "many"}, "valid integer"),
        ({"urls": []}, "no address"),
        ({"sha256": None, "urls": ["http://one.org/t"]}, "not https"),
        ({"urls": ["ftp://one.org/t"]}, "not https"),
        ({"archive": "absent", "member": "x"}, "must be listed"),
        ({"member": "x"}, "archive: Input should be a valid string"),
        ({"md5": "x"}, "there is no key 'md5'\nvalid: .*archive, .*role"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(changes, message):
    with pytest.raises(PhmrunError, match=message) as caught:
        with_file(**changes)
    assert str(caught.value.where).startswith("catalogue: some.splits.train.en")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence_": "x"}, "there is no key 'licence_'\n.*mirrors(.|\n)*Did you mean 'licence'"),
        ({"format": "odd"}, "Input should be 'parallel'"),
        ({"splits": ["x"]}, "table is missing or malformed"),
    ],
)
def test_a_malformed_dataset_is_refused(changes, message):
    with pytest.raises(PhmrunError, match=message):
        parse(**changes)


def test_a_malformed_dataset_of_a_plug_in_names_its_file(tmp_path, monkeypatch):
    for name in ("_registered", "places"):
        monkeypatch.setattr(DATASETS, name, {})
    (tmp_path / "mine.py").write_text(f"import phmrun.registry as r\nr.DATASETS.add('x', {ENTRY | {'spilts': 1}})")
    load_plugin(tmp_path / "mine.py")
    with pytest.raises(PhmrunError, match=r"mine\.py:2: x\.spilts: there is no key(.|\n)*mean 'splits'"):
        CATALOGUE.get("x")
    DATASETS.add("multi30k", ENTRY)
    with pytest.raises(PhmrunError, match="'multi30k' is taken"):
        CATALOGUE.get("multi30k")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe: 1", "missing or damaged"),
        (b"a: !tag 1", "tag"),
        (b"a: 1\na: 2", "given twice"),
        (b"Multi30k: {tasks: [nmt], format: parallel}", "'Multi30k' is taken"),
    ],
)
def test_a_faulty_file_of_the_working_folder_stops_other_names_alone(tmp_path, monkeypatch, content, words):
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "mine.yaml").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    assert "multi30k" in CATALOGUE
    with pytest.raises(PhmrunError, match=words) as refused:
        CATALOGUE.get("other")
    assert str(refused.value.where).startswith("datasets/mine.yaml")


def test_some_of_the_lines_of_a_file_are_assembled():
    ours = parse(
        archives={"a": {"urls": ["https://one.org/a"]}},
        splits={"train": {"en": {"path": "t.en", "parts": [{"archive": "a", "every": 10}]}}},
    )
    assert ours.splits["train"][0].assembled


@pytest.mark.parametrize("path", ["", "/a", "..", "a/../b", "a\\b", "C:a", "a\0"])
def test_unsafe_paths(path):
    assert not is_safe(path)
