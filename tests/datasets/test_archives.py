"""Archives: what is listed, what is read out of them, and what is refused before a file is touched."""

import gzip

import pytest
from test_fetch_archives import packed_tar, packed_zip

from phmrun.datasets import assembly
from phmrun.datasets.assembly import assemble, extract
from phmrun.datasets.catalogue import File, Part
from phmrun.errors import ExitCode, PhmrunError


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:bz2", "w:xz"])
def test_the_content_of_a_member_comes_back(tmp_path, kind):
    entries = [("a/one", b"1\n"), ("b/two.gz", gzip.compress(b"2\n")), ("../evil", b"x"), ("link", None)]
    archive = tmp_path / "all"
    archive.write_bytes(packed_zip(*entries) if kind == "zip" else packed_tar(kind, *entries))
    extract(archive, "b/two.gz", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == entries[1][1]
    parts = tuple(Part("all", member=member, markup="lines") for member in ("a/one", "b/two.gz"))
    assemble(tmp_path, [File("out", role="text", parts=parts)], {"all": archive}, aligned=False, label="test")
    assert (tmp_path / "out").read_text() == "1\n2\n"


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_what_unpacks_to_too_much_is_refused_in_words(tmp_path, monkeypatch, kind):
    archive = tmp_path / "bomb"
    zeros = ("one", bytes(2_000_000))
    archive.write_bytes(packed_zip(zeros) if kind == "zip" else packed_tar("w:gz", zeros))
    monkeypatch.setattr(assembly, "LARGEST", 10**6)
    with pytest.raises(PhmrunError, match=r"holds more than 1,000,000 bytes") as caught:
        extract(archive, "one", tmp_path / "out")
    assert (caught.value.code, caught.value.where) == (ExitCode.DATA, str(archive))
    assert not [path for path in tmp_path.iterdir() if path != archive]
