"""Files that are put together line by line: markup, alignment, what is left out, and what is refused."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.datasets.assembly import assemble
from phmrun.datasets.catalogue import File, Part
from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.lines import read_parallel


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def built(folder, contents, part=None, *, aligned=True):
    """Assembles one file per content, each from a single download; returns counts and what was written."""
    archives = {f"d{index}": put(folder, f"d{index}", content) for index, content in enumerate(contents)}
    part = part or {"markup": "lines"}
    files = [File(f"out.{name}", role=name, parts=(Part(name, **part),)) for name in archives]
    counts = assemble(folder, files, archives, aligned=aligned, label="test")
    return counts, [(folder / file.path).read_text(encoding="utf-8").splitlines() for file in files]


def refused(folder, contents, part=None, **options):
    with pytest.raises(PhmrunError) as caught:
        built(folder, contents, part, **options)
    assert caught.value.code is ExitCode.DATA
    assert not list(folder.glob("out.*"))
    assert not list(folder.glob(".out*"))
    return str(caught.value)


def test_pairs_with_an_empty_or_unreadable_side_are_left_out(tmp_path):
    left = b"\xef\xbb\xbfone  a\r\n\ntwo\nthr\xe9e\nfour\n\0\nfive"
    right = "eins\nnull\n \ndrei\nvier\nx\n\tfünf \n"
    counts, written = built(tmp_path, [left, gzip.compress(right.encode())])
    assert counts == (3, 4)
    assert written == [["one a", "four", "five"], ["eins", "vier", "fünf"]]
    assert len(list(read_parallel(tmp_path / "out.d0", tmp_path / "out.d1"))) == 3


@settings(max_examples=30, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), min_size=1, max_size=20),
    every=st.integers(2, 5),
)
def test_what_is_written_can_be_read_and_nothing_is_lost(tmp_path_factory, pairs, every):
    folder = tmp_path_factory.mktemp("pairs")
    flat = [tuple(side.replace("\n", " ").replace("\ufeff", "") for side in pair) for pair in pairs]
    sides = ["".join(f"{pair[side]}\n" for pair in flat).encode("utf-8", "replace") for side in (0, 1)]
    (kept, dropped), (left, right) = built(folder, sides)
    assert kept + dropped == len(pairs)
    assert len(left) == len(right) == kept or kept == 0
    if kept:
        assert len(list(read_parallel(folder / "out.d0", folder / "out.d1"))) == kept
    first, _ = built(folder, sides, {"markup": "lines", "every": every})
    rest, _ = built(folder, sides, {"markup": "lines", "but_every": every})
    assert (first[0] + rest[0], first[1] + rest[1]) == (kept, dropped)


def test_parts_follow_one_another_and_blank_lines_stay_where_sides_are_not_aligned(tmp_path):
    archives = {name: put(tmp_path, name, f"{name}\n\n") for name in "ab"}
    file = File("out", parts=(Part("a", markup="lines"), Part("b", markup="lines")))
    assert assemble(tmp_path, [file], archives, aligned=False, label="test") == (4, 0)
    assert (tmp_path / "out").read_text() == "a\n\nb\n\n"


def test_an_unreadable_segment_leaves_out_its_pair_alone(tmp_path):
    source = b"<seg>\xff</seg>\n<seg>s2</seg>\n<seg>s3</seg>\n"
    target = b"<seg>t1</seg>\n<seg>t2</seg>\n<seg>\xff</seg>\n"
    assert built(tmp_path, [source, target], {"markup": "segments"}) == ((1, 2), [["s2"], ["t2"]])
