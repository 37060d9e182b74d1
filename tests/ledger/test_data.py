"""``data.json``: which files a run was made with, known by their content."""

import gzip
import hashlib
from contextlib import suppress

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.environment import DataRecord, Split
from phmrun.ledger.outcome import keep_data


def test_a_checksum_is_of_the_content_wherever_it_lies(tmp_path):
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"one\n"))
    plain, packed = Split.of([tmp_path / "a.txt"]), Split.of([tmp_path / "b.txt.gz"])
    assert plain.sha256 == packed.sha256 == hashlib.sha256(b"one\n").hexdigest()
    assert DataRecord({"dev": Split.of([tmp_path / "a.txt"])}).name_of(packed) == "dev"


def test_both_sides_and_their_order_count(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(name)
    first, other = ([tmp_path / name for name in order] for order in ("ab", "ba"))
    assert len({Split.of(first).sha256, Split.of(other).sha256, Split.of(first[:1]).sha256}) == 3


def test_the_record_is_read_as_it_was_written(tmp_path):
    (tmp_path / "a").write_text("x")
    run = Run.create(tmp_path / "runs", "nmt-x", "task: nmt\n")
    assert run.data() is None
    record = DataRecord({"test": Split.of([tmp_path / "a"])}, {"test.source": "0" * 64})
    run.write_data(record)
    assert run.data() == record
    for damage in ('{"splits": 3}', "[]", '{"splits": {"test": {"files": [{}]}}, "fingerprints": {}}'):
        (run.path / "data.json").write_text(damage)
        with pytest.raises(PhmrunError) as caught:
            run.data()
        assert caught.value.code is ExitCode.DATA


def test_the_next_call_makes_up_for_an_interrupted_record(tmp_path, monkeypatch):
    def interrupted(paths):
        raise KeyboardInterrupt

    run = Run.create(tmp_path / "runs", "nmt-x", "data: a\n")
    for name in "ab":
        (tmp_path / name).write_text("x")
    keep_data(run, "data: a\n", {"test": [tmp_path / "a"]}, {})
    with suppress(KeyboardInterrupt), monkeypatch.context() as patch:
        patch.setattr(Split, "of", interrupted)
        keep_data(run, "data: b\n", {"test": [tmp_path / "b"]}, {})
    keep_data(run, "data: b\n", {"test": [tmp_path / "b"]}, {})
    assert run.data().splits["test"].files[0].path == str(tmp_path / "b")
