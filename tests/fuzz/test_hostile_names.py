"""Names and paths out of files that others wrote: nothing outside a reader's target is created, changed or removed."""

import json
import random
import zipfile
from contextlib import suppress

import pytest

from phmrun.datasets import assembly
from phmrun.datasets.catalogue import read_entry
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.environment import DataRecord
from phmrun.ledger.record import restore
from tests.fuzz.exchange import result_seeds

pytestmark = pytest.mark.long

NUMBER = 200
ID = "nmt-builtin-dense-1-0123456789ab"


def hostile_names(parent):
    """Names that lead elsewhere, or would if they were joined, cut or normalized carelessly."""
    random_ = random.Random(27)
    ups = ["..", "../..", "./..", ".", "", "..\\..", "%2e%2e", "..;", ".. ", "\u2025"]
    ups += ["a/../..", "x/../../..", "~", "/"]
    ends = ["", "victim", "victim/", "victim.txt", "/etc/x", ID, f"{ID}/../../victim", "victim\0.txt", "a\nb",
            "C:\\victim", "C:victim", "\x1b[2J", "\\\\host\\victim", "a" * 300, "con", "x\u202e", ".a"]  # fmt: skip
    fixed = ["..", ".", "", "/", "../victim.txt", str(parent / "victim.txt"), "-rf", "link", f"link/{ID}", f"../{ID}",
             "/dev/stdout", "/proc/self/cwd/../victim.txt", "x" * 1000, "..\uff0fvictim.txt", "..\u2044victim.txt",
             "victim...", "VICTIM.TXT", "..\u0338/victim.txt", "$HOME/victim.txt", "victim.txt::$DATA"]  # fmt: skip
    names = dict.fromkeys(fixed)
    while len(names) < NUMBER:
        names["/".join(random_.choice(ups) for _ in range(random_.randint(0, 3))) + random_.choice(["", "/", "-"])
              + random_.choice(ends)] = None  # fmt: skip
    return list(names)


@pytest.fixture
def parent(tmp_path):
    """A folder with files that nobody may touch, and an empty folder ``target`` with a link that leads to them."""
    (tmp_path / "victim").mkdir()
    for name in (
        "victim.txt",
        "victim/config.yaml",
        "config.yaml",
        "metrics.json",
        "status.json",
    ):
        (tmp_path / name).write_text("untouched")
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "link").symlink_to(tmp_path / "victim")
    return tmp_path


def contents(parent):
    """Every entry beside the target with its content."""
    files = (path for path in parent.rglob("*") if path.relative_to(parent).parts[0] not in ("target", "input"))
    return {path: path.read_bytes() if path.is_file() else None for path in files}


def record_named(name):
    return json.dumps(json.loads(result_seeds()[0]) | {"run": name})


def as_result(name, parent):
    folder = parent / "input"
    folder.mkdir(exist_ok=True)
    for file in (f"{name}.json", f"{ID}.json", "...json", f"..{ID}.json"):
        with suppress(OSError, ValueError):
            path = folder / file
            if path.parent == folder:
                path.write_text(record_named(name))
                restore([path], parent / "target")


def as_run(name, parent):
    Run.create(parent / "target", name, "task: nmt\n")


def as_split(name, parent):
    split = {"files": [{"path": "x", "sha256": "0", "bytes": 1}]}
    record = DataRecord.from_json({"splits": {name: split}, "fingerprints": {}})
    (parent / "target" / f"{record.name_of(record.splits[name])}.txt").write_text("predictions")


def as_archive_member(name, parent):
    path = parent / "target" / "archive.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(name or "x", "content")
    for member in (name, "a"):
        assembly.extract(path, member, parent / "target" / "extracted")


def as_dataset(name, parent):
    facts = {"summary": "d", "licence": "l", "tasks": ["lm"], "format": "lines"}
    file = {"path": "a", "urls": ["https://example.org/a"]}
    for changed in (
        {"splits": {"train": {"text": {**file, "path": name}}}},
        {"archives": {name: {"urls": file["urls"]}}, "splits": {"train": {"text": {"path": "a", "archive": name}}}},
    ):
        with suppress(PhmrunError):
            written(read_entry("d", facts | changed), parent)
    written(read_entry(name, facts | {"splits": {"train": {"text": file}}}), parent)


def written(dataset, parent):
    """Write the files of a dataset into the places that its folder gives them."""
    for remote in (*dataset.files, *dataset.archives.values()):
        path = parent / "target" / dataset.name / remote.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("data")


READERS = [as_result, as_run, as_split, as_archive_member, as_dataset]


@pytest.mark.parametrize("read", READERS)
def test_hostile_names_write_nothing_outside_the_target(parent, monkeypatch, read):
    (parent / "target" / "link").unlink()
    monkeypatch.chdir(parent)
    before = contents(parent)
    for name in hostile_names(parent):
        with suppress(PhmrunError, OSError, ValueError):
            read(name, parent)
        assert contents(parent) == before, name


def test_hostile_names_and_links_write_nothing_through_a_link(parent, monkeypatch):
    monkeypatch.chdir(parent)
    (parent / "target" / ID).symlink_to(parent / "victim")
    before = contents(parent)
    with suppress(PhmrunError, OSError):
        as_result(ID, parent)
    assert contents(parent) == before
