"""Archives that are fetched: named members are unpacked, and nothing unsafe is."""

import errno
import hashlib
import io
import tarfile
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from file_server import CONTENT, SHA, fails, left

from phmrun.datasets import Dataset, File, Part, Remote, dataset_dir
from phmrun.datasets.fetch import fetch


def packed_tar(mode, *entries, kind=tarfile.SYMTYPE):
    """A tar archive; an entry without content is a link, or of another ``kind``."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if content is None:
                info.type, info.linkname = kind, "/etc/passwd"
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def packed_zip(*entries):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in entries:
            info = zipfile.ZipInfo(name)
            if content is None:
                info.external_attr = 0o120777 << 16
            archive.writestr(info, content or "/etc/passwd")
    return buffer.getvalue()


def archived(server, content, *members, size=None, sha256=SHA):
    server.files["all"] = content
    archive = Remote(".archives/all", (server.url("ok/all"),), hashlib.sha256(content).hexdigest(), len(content))
    files = tuple(
        File(f"t{index}.en", (), sha256, size, role=str(index), parts=(Part("all", member),))
        for index, member in enumerate(members)
    )
    return Dataset("some", ("nmt",), "s", "l", "parallel", splits={"train": files}, archives={"all": archive})


@pytest.mark.parametrize("kind", ["w", "w:gz", "w:xz", "zip"])
def test_named_members_are_unpacked_and_the_archive_goes(server, kind, tmp_path):
    entries = [("../../evil", b"x"), ("./data/one", CONTENT), ("data/two", CONTENT), ("data/three", b"y")]
    content = packed_zip(*[(name.removeprefix("./"), data) for name, data in entries])
    if kind != "zip":
        content = packed_tar(kind, *entries)
    dataset = archived(server, content, "data/one", "data/two", size=len(CONTENT))
    paths = fetch(dataset)
    assert [path.read_bytes() for path in paths] == [CONTENT, CONTENT]
    assert left(dataset) == {"t0.en", "t1.en"}
    (dataset_dir(dataset) / ".archives/all").write_bytes(b"left by an interruption")
    assert (fetch(dataset), left(dataset)) == ([], {"t0.en", "t1.en"})
    assert len(server.asked) == 1
    assert not list(Path(tmp_path).rglob("evil"))


@pytest.mark.parametrize(
    ("member", "entries", "message"),
    [
        ("../evil", [("../evil", CONTENT)], "leads out"),
        ("/etc/evil", [("/etc/evil", CONTENT)], "leads out"),
        ("link", [("link", None)], "not a regular file"),
        ("absent", [("one", CONTENT)], "there is no 'absent'"),
        ("large", [("large", CONTENT + b"!")], "more than"),
        ("other", [("other", b"!" * len(CONTENT))], "checksum"),
    ],
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_what_is_unsafe_or_wrong_is_not_unpacked(server, kind, member, entries, message, tmp_path):
    content = packed_zip(*entries) if kind == "zip" else packed_tar("w", *entries)
    dataset = archived(server, content, member, size=len(CONTENT))
    assert message in fails(dataset)
    assert left(dataset) == {"all"}
    assert not list(Path(tmp_path).rglob("evil"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_no_link_device_or_folder_is_unpacked(server, kind):
    dataset = archived(server, packed_tar("w", ("one", None), kind=kind), "one")
    assert "not a regular file" in fails(dataset)
    assert left(dataset) == {"all"}


def test_a_damaged_archive_is_said(server):
    content = packed_tar("w:gz", ("one", bytes(range(256)) * 4000))
    assert "damaged" in fails(archived(server, content[: len(content) // 2], "one"))
    assert "damaged" in fails(replace(archived(server, b"no archive" * 100, "one"), name="other"))
    crc = bytearray(packed_tar("w:gz", ("one", bytes(range(256)) * 4000)))
    crc[-6] ^= 0xFF
    swapped = bytearray(packed_zip(("one", CONTENT)))
    swapped[200] ^= 0xFF
    for number, broken in enumerate((crc, swapped)):
        assert "damaged" in fails(replace(archived(server, bytes(broken), "one"), name=f"crc{number}"))


def test_an_archive_with_a_password_is_said(server):
    content = bytearray(packed_zip(("one", CONTENT)))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    assert "password" in fails(archived(server, bytes(content), "one"))


def test_what_is_no_archive_and_has_no_checksum_is_not_kept(server):
    dataset = archived(server, b"<html>please sign in</html>" * 50, "one", sha256=None)
    dataset = replace(dataset, archives={"all": replace(dataset.archives["all"], sha256=None, bytes=None)})
    assert "damaged" in fails(dataset)
    assert left(dataset) == set()
    server.files["all"] = packed_zip(("one", CONTENT))
    assert fetch(dataset)[0].read_bytes() == CONTENT


@pytest.mark.parametrize("assembled", [False, True])
def test_a_disk_that_fills_while_unpacking_is_said_and_the_archive_is_kept(server, monkeypatch, assembled):
    @contextmanager
    def full(path):
        yield path.with_name(f".{path.name}.half")
        raise OSError(errno.ENOSPC, "No space left on device")

    dataset = archived(server, packed_zip(("one", b"text\n")), "one", sha256=None)
    if assembled:
        files = (replace(dataset.files[0], parts=(Part("all", "one", "lines"),)),)
        dataset = replace(dataset, splits={"train": files})
    with monkeypatch.context() as patch:
        patch.setattr("phmrun.datasets.assembly.replacing", full)
        assert "No space left on device" in fails(dataset)
    assert (dataset_dir(dataset) / ".archives/all").is_file()
    assert fetch(dataset)[0].read_bytes() == b"text\n"
