"""Prepared data: built once, remade when a bit of theirs has flipped, never read half or from text that changed."""

import logging

import numpy as np
import pytest
from damage import flip

from phmrun.checksums import CHECKSUMS
from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.store import TokenStore, TokenStoreWriter, build_once


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{number}\n" for number in range(100)))
    return path


@pytest.fixture
def built(tmp_path, text):
    builds = []

    def build(folder):
        builds.append(folder)
        with TokenStoreWriter(folder / "train", vocabulary_size=100) as writer:
            for line in text.read_text().splitlines():
                writer.append([int(line), 1])
        return {"lines": 100}

    def run():
        return build_once(tmp_path / "cache", {"kind": "test", "file": text}, build)[0]

    run.builds = builds
    return run


FILES = ("train/tokens.bin", "train/offsets.bin", "train/store.json", "statistics.json", CHECKSUMS)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("byte", [0, 5, -2])
def test_a_flipped_bit_has_prepared_data_made_again(built, caplog, name, byte):
    caplog.set_level(logging.INFO, "phmrun")
    path = built()
    before = {file: (path / file).read_bytes() for file in FILES}
    assert built() == path
    assert len(built.builds) == 1
    flip(path / name, byte)
    assert built() == path
    assert len(built.builds) == 2
    assert {file: (path / file).read_bytes() for file in FILES} == before
    assert [record.message for record in caplog.records if "rebuilt" in record.message and str(path) in record.message]
    np.testing.assert_array_equal(TokenStore(path / "train")[99], [99, 1])


def test_files_are_hashed_once_in_a_process(built, monkeypatch):
    path, hashed = built(), []
    from phmrun import checksums

    real = checksums.sha256_of
    monkeypatch.setattr(checksums, "sha256_of", lambda file: hashed.append(file) or real(file))
    checksums.checksum_once.cache_clear()
    for _ in range(3):
        assert built() == path
    assert len(hashed) == len(FILES) - 1


def test_text_that_changes_while_it_is_read_is_refused(tmp_path, text):
    def build(folder):
        text.write_text("other")
        return {}

    with pytest.raises(PhmrunError, match="changed while") as caught:
        build_once(tmp_path / "cache", {"file": text}, build)
    assert caught.value.code is ExitCode.DATA
    assert not list((tmp_path / "cache").glob("*/statistics.json"))
