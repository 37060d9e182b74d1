"""The catalogue: what comes with phmrun is complete, and a malformed entry is refused with its place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from phmrun.datasets import CATALOGUE, Part
from phmrun.datasets.catalogue import Catalogue, is_safe
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of

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
    return Catalogue(yaml.safe_dump({"some": ENTRY | changes})).get("some")


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


PAPERS = {
    *("snli", "mnli", "scitail", "dnli", "qnli", "sick", "shakespeare", "linzen", "linzen-full"),
    *("iwslt15-en-vi", "iwslt17-en-id", "iwslt14-de-en", "iwslt14-ro-en", "wmt18-en-et", "setimes-en-mk"),
    *(
        "wmt18-en-ro",
        "wmt16-en-de",
        "wmt16-en-ro",
        "wmt14-en-de",
        "wmt14-en-de-define",
        "wmt14-en-fr",
        "europarl-v7-de-en",
    ),
    *("ud/UD_Chinese-GSD", "ud/UD_Czech-PDT", "ud/UD_English-EWT", "ud/UD_German-GSD", "ud/UD_French-ParTUT"),
    *("ud/UD_Galician-TreeGal", "ud/UD_Latin-Perseus", "ud/UD_Slovenian-SST"),
    *("ptb", "wikitext-2", "wikitext-103", "glove"),
}
ROLES = {"agreement": "items", "conllu": "conllu", "lines": "text", "vectors": "vectors"}


def test_defines_translation_is_validated_on_newstest2014():
    splits = CATALOGUE.get("wmt14-en-de-define").splits
    actual = {name: [str(file.path) for file in splits[name]] for name in ("dev", "test")}
    assert actual == {
        "dev": ["newstest2014.en", "newstest2014.de"],
        "test": ["newstest2017.en", "newstest2017.de"],
    }


def test_every_dataset_of_the_papers_is_in_it():
    assert set(CATALOGUE.names()) >= PAPERS


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


@pytest.mark.parametrize("name", ["multi30k/", "./multi30k", "multi30k//", "multi30k/.", "MULTI30K"])
def test_a_local_dataset_cannot_share_the_folder_of_another(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("datasets").mkdir()
    Path("datasets/mine.yaml").write_text(yaml.safe_dump({name: ENTRY}))
    with pytest.raises(PhmrunError, match=r"relative path|is taken"):
        Catalogue().get(name)


def test_what_several_entries_share_is_no_entry():
    entries = Catalogue(yaml.safe_dump({".shared": {"x": 1}, "some": ENTRY}))
    assert entries.names() == ["some"]
    assert entries.names("nmt") == ["some"]
    assert entries.names("nli") == []


def test_roles_that_are_alike_are_written_once():
    part = {"archive": "all.tgz", "member": {"en": "x/src.en", "de": "x/ref.de"}, "markup": "segments", "every": 2}
    raw = {"archive": "raw.{role}", "markup": "lines"}
    archives = {name: {"urls": [f"https://one.org/{name}"]} for name in ("all.tgz", "raw.en", "raw.de")}
    splits = {"train": {"roles": ["en", "de"], "path": "t.{role}", "parts": [part, raw]}}
    english, german = parse(archives=archives, splits=splits).files
    assert (english.role, english.path) == ("en", "t.en")
    assert german.parts == (Part("all.tgz", "x/ref.de", "segments", every=2), Part("raw.de", None, "lines"))
    assert german.assembled


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"archive": "x"}, "must be listed"),
        ({"archive": "all.tgz", "member": "../x"}, "no relative path"),
        ({"archive": "all.tgz", "markup": "xml"}, "markup: Input should be 'lines'"),
        ({"archive": "all.tgz", "nmember": "x"}, "nmember: Unexpected"),
    ],
)
def test_a_malformed_part_is_refused(part, message):
    archives = {"all.tgz": {"urls": ["https://one.org/all.tgz"]}}
    with pytest.raises(PhmrunError, match=message):
        parse(archives=archives, splits={"train": {"en": {"path": "t", "parts": [part]}}})


@pytest.mark.parametrize("count", ["many", -1, True, 1.5])
def test_a_size_is_a_count(count):
    with pytest.raises(PhmrunError, match=r"some\.sizes\.train\.pairs: Input should be") as caught:
        parse(sizes={"train": {"pairs": count}})
    assert caught.value.code is ExitCode.USAGE


def test_an_archive_without_an_address_needs_words_on_how_to_get_it():
    archives = {"all.tgz": {"sha256": None}}
    with pytest.raises(PhmrunError, match="no address"):
        parse(archives=archives)
    assert parse(archives=archives, by_hand="Ask.").archives["all.tgz"].urls == ()


def test_builtin_is_generated():
    assert CATALOGUE.get("builtin").generated
    assert not CATALOGUE.get("builtin").files


@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="PHMRUN_DATA is not set")
def test_checksums_and_sizes_are_those_of_the_files():
    dataset = CATALOGUE.get("multi30k")
    folder = Path(os.environ["PHMRUN_DATA"]) / "multi30k"
    if not folder.is_dir():
        pytest.skip("multi30k is not here")
    for file in dataset.files:
        assert sha256_of(folder / file.path) == file.sha256
        assert (folder / file.path).stat().st_size == file.bytes


def test_an_unknown_name_gives_the_nearest():
    with pytest.raises(PhmrunError) as caught:
        CATALOGUE.get("multi-30k")
    assert caught.value.code is ExitCode.USAGE
    assert "multi30k" in (caught.value.hint or "")
    assert "builtin" in caught.value.valid


def test_addresses_come_from_the_mirrors_or_from_the_file():
    assert parse().files[0].urls == ("https://one.org/a/t.en", "https://two.org/x/a/t.en")
    assert with_file(urls=["http://three.org/t"]).files[0].urls == ("http://three.org/t",)


def test_a_file_in_an_archive():
    archive = {"urls": ["https://one.org/all.tgz"], "sha256": SHA, "bytes": 9}
    file = {"path": "t.en", "archive": "all.tgz", "member": "data/t.en", "sha256": None}
    dataset = parse(archives={"all.tgz": archive}, splits={"train": {"en": file}})
    assert dataset.files[0].parts == (Part("all.tgz", "data/t.en"),)
    assert dataset.archives["all.tgz"].path == ".archives/all.tgz"
    assert dataset.bytes is None


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
        ({"md5": "x"}, "md5: Unexpected"),
    ],
)
def test_a_malformed_file_is_refused_with_its_place(changes, message):
    with pytest.raises(PhmrunError, match=message) as caught:
        with_file(**changes)
    assert str(caught.value.where).startswith("catalogue: some.splits.train.en")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"licence_": "x"}, "licence_: Unexpected"),
        ({"format": "odd"}, "Input should be 'parallel'"),
        ({"splits": ["x"]}, "table is missing or malformed"),
    ],
)
def test_a_malformed_dataset_is_refused(changes, message):
    with pytest.raises(PhmrunError, match=message):
        parse(**changes)


def test_a_missing_fact_is_named():
    with pytest.raises(PhmrunError, match="licence: Field required"):
        Catalogue(yaml.safe_dump({"some": {key: ENTRY[key] for key in ENTRY if key != "licence"}})).get("some")


@pytest.mark.parametrize("path", ["", "/a", "..", "a/../b", "a\\b", "C:a", "a\0"])
def test_unsafe_paths(path):
    assert not is_safe(path)


def test_names_need_no_heavy_import():
    code = (
        "import sys; from phmrun.datasets import CATALOGUE; CATALOGUE.names();"
        "print([name for name in ('torch', 'numpy', 'pooch', 'requests', 'sentencepiece') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
