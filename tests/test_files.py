"""Files that are written whole or not at all."""

import errno
import os
import stat

import pytest

from phmrun.files import last_lines, replacing, replacing_directory, sync_directory, write_text


@pytest.mark.parametrize("make", [replacing, replacing_directory])
def test_an_error_of_a_read_only_disk_names_the_file_that_was_meant(tmp_path, monkeypatch, make):
    """There, what was never made cannot be removed either, and the system names what it was asked to remove."""

    def refuse(path, *_, **options):
        if path != tmp_path:
            raise OSError(errno.EROFS, "Read-only file system", str(path))

    for name in ("mkdir", "unlink", "open"):
        monkeypatch.setattr(f"pathlib.Path.{name}", refuse)
    monkeypatch.setattr("phmrun.files._remove_abandoned", lambda path: None)
    with pytest.raises(OSError, match="Read-only") as caught, make(tmp_path / "page.svg") as temporary:
        temporary.open("w")
    assert caught.value.filename == str(tmp_path / "page.svg")


def test_an_error_about_another_file_names_that(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "page.svg"):
        (tmp_path / "other").read_text()
    assert caught.value.filename == str(tmp_path / "other")


def test_what_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    write_text(tmp_path / "page", "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "page", "new \ud800")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("page", "old")]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_flush_directories_is_used_all_the_same(tmp_path, monkeypatch, number):
    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr("phmrun.files.os.fsync", fsync)
    write_text(tmp_path / "page", "new")
    assert (tmp_path / "page").read_text() == "new"


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


def test_the_last_lines_of_a_log_have_no_control_codes(tmp_path):
    (tmp_path / "log").write_bytes(b"first\n\x1b[2J\x1b]0;title\x07red\n")
    assert last_lines(tmp_path / "log", 1) == [r"\x1b[2J\x1b]0;title\x07red"]
    os.mkfifo(tmp_path / "pipe")
    assert [last_lines(tmp_path / name) for name in ("none", "pipe", ".", "log/below")] == [[], [], [], []]
