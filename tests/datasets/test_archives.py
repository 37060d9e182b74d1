"""Archives: what is listed, what is read out of them, and what is refused before a file is touched."""

import gzip
import io
import tarfile
import zipfile

import pytest

from phmrun.datasets.archives import extract, is_archive, members, opened, unpacked
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
def test_only_safe_regular_members_are_listed_and_their_content_comes_back(tmp_path, kind):
    archive = write(tmp_path / "all", kind)
    assert is_archive(archive)
    assert members(archive) == ["a/one", "b/two.gz"]
    with opened(archive, "b/two.gz") as handle:
        assert handle.read(2) == b"\x1f\x8b"
    for member, text in (("a/one", b"1\n"), ("b/two.gz", b"2\n")):
        with unpacked(archive, member) as handle:
            assert handle.read() == text


def test_a_single_file_is_its_own_content(tmp_path):
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b"text"))
    assert not is_archive(path)
    with unpacked(path, None) as handle:
        assert handle.read() == b"text"
    extract(path, None, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("member", ["../evil", "/etc/evil", "a/../../evil", "C:evil", "a\\b", ""])
@pytest.mark.parametrize("kind", ["zip", "w:gz"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, kind, member):
    archive = write(tmp_path / "all", kind)
    with pytest.raises(PhmrunError, match="leads out") as caught:
        extract(archive, member, tmp_path / "out")
    assert caught.value.code is ExitCode.DATA
    assert not (tmp_path / "out").exists()


def test_what_is_no_archive_is_said(tmp_path):
    (tmp_path / "x").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(PhmrunError, match="damaged"):
        members(tmp_path / "x")
