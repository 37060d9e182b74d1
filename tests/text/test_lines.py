"""Numbered lines: what parallel files allow is tested there; here what other formats need beyond it."""

import gzip

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.lines import numbered_lines, raw_lines


def test_empty_lines_count_and_are_kept(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n  \nfour")
    assert list(numbered_lines(path)) == [(1, "one"), (2, ""), (3, "  "), (4, "four")]


def test_the_longest_line_can_be_chosen(tmp_path):
    path = tmp_path / "a"
    path.write_text("short\n" + "x" * 100 + "\n")
    assert len(list(numbered_lines(path, longest=101))) == 2
    with pytest.raises(PhmrunError) as caught:
        list(numbered_lines(path, longest=50))
    assert caught.value.code is ExitCode.DATA
    assert caught.value.where == f"{path}:2"


def test_raw_lines_keep_their_ends_and_are_unpacked(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\r\n\xfftwo"))
    assert list(raw_lines(path)) == [b"one\r\n", b"\xfftwo"]
