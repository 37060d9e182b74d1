"""Reading of parallel files: what comes back, and that every fault is placed."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_files import write

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.lines import read_parallel

LINE = st.text(st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs"]), min_size=1).filter(
    lambda text: text.strip() and not text.startswith("\ufeff")
)


def failure(source: Path, target: Path) -> PhmrunError:
    with pytest.raises(PhmrunError) as caught:
        list(read_parallel(source, target))
    assert caught.value.code is ExitCode.DATA
    return caught.value


@given(pairs=st.lists(st.tuples(LINE, LINE), min_size=1), compress=st.booleans(), end=st.sampled_from(["\n", "\r\n"]))
def test_text_comes_back_unchanged(tmp_path_factory, pairs, compress, end):
    folder = tmp_path_factory.mktemp("pairs")
    for column, name in enumerate(("a", "b")):
        write(folder / name, "".join(pair[column] + end for pair in pairs), compress=compress)
    assert list(read_parallel(folder / "a", folder / "b")) == pairs


@pytest.mark.parametrize("longer", ["source", "target"])
def test_misaligned_files_give_both_counts_and_name_the_longer(tmp_path, longer):
    sides = {name: write(tmp_path / name, "x\n" * (7 if name == longer else 4)) for name in ("source", "target")}
    error = failure(sides["source"], sides["target"])
    assert f"ends at line 4, {sides[longer]} has 3 more" in error.what


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_invalid_utf8_gives_line_and_byte(tmp_path, compress, mark):
    raw = mark + "grün\n".encode() + b"caf\xe9 noir\n"
    error = failure(write(tmp_path / "a", raw, compress=compress), write(tmp_path / "b", "x\ny\n"))
    assert error.where == f"{tmp_path / 'a'}:2"
    assert "0xe9 at offset 3 of the line" in error.what


@pytest.mark.parametrize("damage", ["truncated", "header", "content"])
def test_damaged_gzip_is_placed(tmp_path, damage):
    packed = bytearray(gzip.compress("".join(f"line {number * 7919 % 1000}\n" for number in range(20_000)).encode()))
    if damage == "truncated":
        del packed[-len(packed) // 2 :]
    elif damage == "header":
        packed[2] = 99
    else:
        packed[len(packed) // 2 : len(packed) // 2 + 40] = bytes(40)
    error = failure(write(tmp_path / "a", bytes(packed)), write(tmp_path / "b", "x\n" * 20_000))
    assert (error.where or "").startswith(f"{tmp_path / 'a'}")
    assert "gzip" in error.what or "UTF-8" in error.what or "empty" in error.what


def test_all_empty_lines_are_counted_in_one_message(tmp_path):
    error = failure(write(tmp_path / "a", "x\n\ny\nz\n \n"), write(tmp_path / "b", "x\nq\n\nz\n\n"))
    assert error.where == f"{tmp_path / 'a'}:2"
    assert "empty side: 3" in error.what
    assert "line 2, 3, 5 from both files" in error.hint
