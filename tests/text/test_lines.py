"""Numbered lines: what parallel files allow is tested there; here what other formats need beyond it."""

import bz2
import gzip
import lzma

import pytest

from phmrun.errors import PhmrunError
from phmrun.text.lines import decoded, numbered_lines, raw_lines


def test_raw_lines_keep_their_ends_and_are_unpacked(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"one\r\n\xfftwo"))
    assert list(raw_lines(path)) == [b"one\r\n", b"\xfftwo"]


@pytest.mark.parametrize(
    ("content", "texts", "exact"),
    [
        (b"\xef\xbb\xbfa\r\nb\r\r\nc", ["a", "b\r", "c"], ["\ufeffa\r\n", "b\r\r\n", "c"]),
        (
            "\u00a0\n\u2028x\n\ufeffy\n".encode(),
            ["\u00a0", "\u2028x", "\ufeffy"],
            ["\u00a0\n", "\u2028x\n", "\ufeffy\n"],
        ),
    ],
)
def test_files_and_streams_are_decoded_alike(tmp_path, content, texts, exact):
    path = tmp_path / "a"
    path.write_bytes(content)
    lines = content.splitlines(keepends=True) if b"\r\r" not in content else [b"\xef\xbb\xbfa\r\n", b"b\r\r\n", b"c"]
    assert [line for _, line in numbered_lines(path)] == list(decoded(lines, "standard input")) == texts
    assert list(decoded(lines, "standard input", exact=True)) == exact


@pytest.mark.parametrize(
    "content",
    [
        lzma.compress(b"one\n" * 9),
        bz2.compress(b"one\n" * 9),
        b"PK\x03\x04\x14\x00\x00\x00",
        b"\x28\xb5\x2f\xfd\x04\x00",
        b"7z\xbc\xaf\x27\x1c\x00\x04",
    ],
)
def test_compressed_text_is_named(tmp_path, content):
    path = tmp_path / "a.en"
    path.write_bytes(content)
    with pytest.raises(PhmrunError, match="the text is compressed"):
        list(numbered_lines(path))
    with pytest.raises(PhmrunError, match="the text is compressed"):
        list(decoded([gzip.compress(b"a\n")], "standard input"))


def test_a_file_of_utf_16_is_named_with_the_command_that_converts_it(tmp_path):
    path = tmp_path / "a b.en"
    path.write_text("one\n", encoding="utf-16")
    with pytest.raises(PhmrunError, match="is not valid UTF-8") as caught:
        list(numbered_lines(path))
    assert f"iconv -f UTF-16 -t UTF-8 '{path}'" in caught.value.hint
    with pytest.raises(PhmrunError) as caught:
        list(decoded([b"\xff\n"], "standard input"))
    assert caught.value.hint.endswith("-t UTF-8 FILE")
