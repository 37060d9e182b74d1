"""Archives: what is listed, what is read out of them, and what is refused before a file is touched."""

import gzip
import io
import tarfile
import zipfile

import pytest

from phmrun.datasets import assembly
from phmrun.datasets.assembly import assemble, extract
from phmrun.datasets.catalogue import File, Part
from phmrun.errors import ExitCode, PhmrunError

ENTRIES = {"a/one": b"1\n", "./b/two.gz": gzip.compress(b"2\n"), "../evil": b"x", "/etc/evil": b"x"}


def write(path, kind):
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("folder/", "")
            for name, content in ENTRIES.items():
                archive.writestr(zipfile.ZipInfo(name.removeprefix("./")), content)
        return path
    with tarfile.open(path, kind) as archive:
        for name, content in ENTRIES.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "a/one"
        archive.addfile(link)
    return path


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:bz2", "w:xz"])
def test_the_content_of_a_member_comes_back(tmp_path, kind):
    archive = write(tmp_path / "all", kind)
    extract(archive, "b/two.gz", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == ENTRIES["./b/two.gz"]
    parts = tuple(Part("all", member=member, markup="lines") for member in ("a/one", "b/two.gz"))
    assemble(tmp_path, [File("out", role="text", parts=parts)], {"all": archive}, aligned=False, label="test")
    assert (tmp_path / "out").read_text() == "1\n2\n"


def bomb(path, kind):
    """Two megabytes of zeros in a few kilobytes."""
    zeros = bytes(2_000_000)
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("one", zeros)
    else:
        with tarfile.open(path, "w:gz") as archive:
            info = tarfile.TarInfo("one")
            info.size = len(zeros)
            archive.addfile(info, io.BytesIO(zeros))
    return path


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_what_unpacks_to_too_much_is_refused_in_words(tmp_path, monkeypatch, kind):
    archive = bomb(tmp_path / "bomb", kind)
    monkeypatch.setattr(assembly, "LARGEST", 10**6)
    with pytest.raises(PhmrunError, match=r"holds more than 1,000,000 bytes") as caught:
        extract(archive, "one", tmp_path / "out")
    assert (caught.value.code, caught.value.where) == (ExitCode.DATA, str(archive))
    assert not [path for path in tmp_path.iterdir() if path != archive]
