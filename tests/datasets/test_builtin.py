"""The built-in corpora: their bytes, how they reach the cache, and what mends a damaged one."""

import hashlib
from importlib.resources import files

import pytest

from phmrun.datasets import builtin
from phmrun.files import sha256_of

# Of the table of all checksums: a corpus that changes needs a new entry in VERSIONS.
SUMS = "46df26ad17cfd1d26afc7f99b4541bc9a708ac6aefdcce65efe52ee6afc5b9ac"
SIZE_LIMIT = 2_000_000  # bytes of all packed files


def packed():
    folder = files("phmrun.datasets.builtin")
    return [file for corpus in builtin.VERSIONS for file in folder.joinpath(corpus).iterdir()]


def test_the_table_of_checksums_names_all_files_and_is_that_of_version_1():
    table = files("phmrun.datasets.builtin").joinpath("SHA256SUMS").read_bytes()
    assert hashlib.sha256(table).hexdigest() == SUMS
    assert set(builtin.VERSIONS.values()) == {"1-1"}
    named = {f"{corpus}/{name}.xz" for corpus in builtin.VERSIONS for name in builtin.checksums(corpus)}
    assert named == {"/".join(file.parts[-2:]) for file in packed()}
    assert sum(len(file.read_bytes()) for file in packed()) < SIZE_LIMIT


@pytest.mark.parametrize("corpus", builtin.VERSIONS)
def test_unpacked_files_have_the_checksums(tmp_path, corpus):
    folder = builtin.unpack(corpus, tmp_path)
    assert folder == tmp_path / f"builtin-{corpus}-1-1"
    assert {path.name: sha256_of(path) for path in folder.iterdir()} == builtin.checksums(corpus)


def test_a_second_use_writes_nothing_and_a_damaged_file_is_written_again(tmp_path):
    folder = builtin.unpack("style", tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert builtin.unpack("style", tmp_path) == folder
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    (folder / "test.part").write_text("seen\n")
    (folder / "dev.modern").unlink()
    builtin.unpack("style", tmp_path)
    assert {path.name: sha256_of(path) for path in folder.iterdir()} == builtin.checksums("style")
