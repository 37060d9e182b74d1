"""Files that are written whole or not at all."""

import errno
import os
import stat
from unittest.mock import Mock

import pytest

from phmrun.files import remove_unfinished, replacing, replacing_directory, sync_directory, write_text


@pytest.mark.parametrize("make", [replacing, replacing_directory])
def test_an_error_of_a_read_only_disk_names_the_file_that_was_meant(tmp_path, monkeypatch, make):
    """There, what was never made cannot be removed either, and the system names what it was asked to remove."""

    def refuse(path, *_, **options):
        if path != tmp_path:
            raise OSError(errno.EROFS, "Read-only file system", str(path))

    for name in ("mkdir", "unlink", "open"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse)
    with pytest.raises(OSError, match="Read-only") as caught, make(tmp_path / "page.svg") as temporary:
        temporary.open("w")
    assert caught.value.filename == str(tmp_path / "page.svg")


def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    write_text(tmp_path / "page", "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "page", "new \ud800")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page", "old")]


def test_a_disk_that_fails_to_flush_a_directory_is_an_error(tmp_path, monkeypatch):
    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("phmrun.files.os.fsync", fsync)
    with pytest.raises(OSError, match="Input/output") as caught:
        sync_directory(tmp_path)
    assert caught.value.filename == str(tmp_path)
    with pytest.raises(OSError, match="Input/output"):
        write_text(tmp_path / "page", "new")


def test_a_file_system_that_cannot_flush_directories_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr("phmrun.files.os.fsync", Mock(side_effect=OSError(errno.EINVAL, "Invalid argument")))
    sync_directory(tmp_path)


def test_temporary_files_of_others_stay(tmp_path):
    for name in (".notes.tmp", ".x.99999999999999999999.a.tmp", ".page.999999999.0123abcd.tmp"):
        (tmp_path / name).touch()
    remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".notes.tmp", ".x.99999999999999999999.a.tmp"]


def test_a_name_as_long_as_the_disk_allows_is_written(tmp_path):
    write_text(tmp_path / ("x" * 255), "text")
    assert (tmp_path / ("x" * 255)).read_text() == "text"
