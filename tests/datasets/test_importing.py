"""Files that the user already has: recognised, checked, and taken in whole or not at all."""

import gzip
import hashlib
import io
import tarfile
import zipfile

import pytest

from phmrun.datasets import Dataset, File, Part, Remote, dataset_dir, inspect
from phmrun.datasets.importing import import_files
from phmrun.datasets.locations import DROPPED, Check, recorded
from phmrun.errors import ExitCode, PhmrunError

TRAIN = "a premise\ta hypothesis\tentails\n" * 3
DEV = "a premise\ta hypothesis\tneutral\n"
KNOWN = hashlib.sha256(DEV.encode()).hexdigest()


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """Folder of the user's files, outside the data directory."""
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "data"))
    folder = tmp_path / "mine"
    folder.mkdir()
    return folder


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def pairs(**changes):
    """Two splits of one file each, out of an archive; the checksum of dev is known."""
    parts = {split: (Part("all.zip", f"x/{split}.tsv"),) for split in ("train", "dev")}
    splits = {
        "train": (File("train.tsv", role="pairs", parts=parts["train"]),),
        "dev": (File("dev.tsv", sha256=KNOWN, role="pairs", parts=parts["dev"]),),
    }
    sizes = {"train": {"pairs": 3}, "dev": {"pairs": 1}}
    archives = {"all.zip": Remote(".archives/all.zip", ("https://one.org/all.zip",))}
    facts = {"sizes": sizes, "splits": splits, "archives": archives} | changes
    return Dataset("some", ("nli",), "s", "l", "scitail", **facts)


def refused(dataset, *given, code=ExitCode.DATA, **options):
    before = contents(dataset)
    with pytest.raises(PhmrunError) as caught:
        import_files(dataset, given, **options)
    assert caught.value.code is code
    assert contents(dataset) == before
    return str(caught.value)


def contents(dataset):
    folder = dataset_dir(dataset)
    names = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".fetch.lock"}
    return {str(path.relative_to(folder)): content for path, content in names.items()}


def zipped(entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred(entries, mode="w:gz"):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            info.size = len(content or "")
            archive.addfile(info, io.BytesIO((content or "").encode()))
    return buffer.getvalue()


def test_a_file_can_be_said_to_be_a_split(mine):
    dataset = pairs()
    taken = import_files(dataset, [f"dev={put(mine, 'mine=1.txt', DEV)}"])
    assert taken == [dataset_dir(dataset) / "dev.tsv"]
    assert "valid: dev, dev.pairs, train, train.pairs" in refused(
        dataset, f"test={mine / 'mine=1.txt'}", code=ExitCode.USAGE
    )
    assert "no such file" in refused(dataset, f"dev={mine / 'absent'}")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_archives_are_unpacked_by_their_name(mine, pack):
    dataset = pairs()
    content = pack({"../../evil": "x", "x/train.tsv": TRAIN, "x/dev.tsv": DEV, "x/other": "y"})
    taken = import_files(dataset, [put(mine, "all.zip", content)])
    assert [path.name for path in taken] == ["train.tsv", "dev.tsv"]
    assert not list(mine.parent.rglob("evil"))
    assert not list(dataset_dir(dataset).rglob("other"))


def test_unsafe_archives_are_refused(mine):
    dataset = pairs()
    linked = tarred({"x/train.tsv": None, "x/dev.tsv": DEV})
    assert "not a regular file" in refused(dataset, put(mine, "all.zip", linked))
    assert "not a file of" in refused(dataset, put(mine, "other.tgz", b"x"), code=ExitCode.USAGE)
    cut = zipped({"x/train.tsv": TRAIN * 1000, "x/dev.tsv": DEV})
    refused(dataset, put(mine, "all.zip", cut[: len(cut) // 2]))
    checked = pairs(archives={"all.zip": Remote(".archives/all.zip", ("https://one.org",), "0" * 64)})
    assert "checksum mismatch: all.zip" in refused(checked, put(mine, "all.zip", linked))


def test_nothing_is_replaced_unless_forced(mine):
    dataset = pairs()
    import_files(dataset, [put(mine, "train.tsv", TRAIN)])
    other = put(mine, "train.tsv.gz", gzip.compress(TRAIN.replace("entails", "neutral").encode()))
    assert "--force" in refused(dataset, other)
    import_files(dataset, [other], force=True)
    assert {name for name in contents(dataset) if "train" in name} == {"train.tsv.gz"}
    assert inspect(dataset)[0].check is Check.RECORDED


def parallel():
    """Sides that are put together out of two archives."""
    raw = {role: Part(f"b.{role}", markup="lines") for role in ("en", "de")}
    splits = {
        "train": tuple(
            File(f"train.{role}", role=role, parts=(Part("a.tgz", f"a.{role}", "lines"), raw[role]))
            for role in ("en", "de")
        )
    }
    archives = {name: Remote(f".archives/{name}", ("https://one.org",)) for name in ("a.tgz", "b.en", "b.de")}
    return Dataset(
        "some", ("nmt",), "s", "l", "parallel", sizes={"train": {"pairs": 3}}, splits=splits, archives=archives
    )


def test_parallel_text_is_put_together_out_of_what_is_given(mine):
    dataset = parallel()
    archive = put(mine, "a.tgz", tarred({"a.en": "one\n\n", "a.de": "eins\nzwei\n"}))
    sides = [put(mine, "b.en", "three\n"), put(mine, "b.de.gz", gzip.compress(b"drei\n"))]
    assert "b.de" in refused(dataset, archive, sides[0])
    taken = import_files(dataset, [archive, *sides])
    assert [path.read_text() for path in taken] == ["one\nthree\n", "eins\ndrei\n"]
    assert recorded(dataset, DROPPED) == {"train": 1}
