"""The index of a directory of runs: used if nothing has changed, and never trusted otherwise."""

import os

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.listing import list_runs
from phmrun.results import index
from phmrun.results.entries import entry_of_run
from phmrun.results.index import INDEX, RunIndex


@pytest.fixture
def runs_dir(tmp_path, monkeypatch):
    """Three finished runs, an hour old as far as the index can see."""
    for seed in (1, 2, 3):
        config = f"task: sva\nseed: {seed}\ndata: {{name: builtin}}\nlayer: phm\n"
        run = Run.create(tmp_path / "runs", f"sva-builtin-phm-{seed}-{seed:012x}", config)
        run.update_metrics("test/accuracy", {"value": 90.0 + seed})
        run.set_state(State.DONE, step=10)
    monkeypatch.setattr(index, "_SETTLED", -60_000_000_000)  # times of change cannot be set
    return tmp_path / "runs"


def entries(runs_dir):
    """Entries by the index, and the names of the runs that it did not have."""
    computed = []

    def make(run):
        computed.append(run.id)
        return entry_of_run(run)

    return RunIndex(runs_dir).entries(list_runs(runs_dir), make), computed


def facts(all_entries):
    return [(entry.config, entry.settings, entry.marks, entry.dense, entry.run.score("test/accuracy"))
            for entry in all_entries]  # fmt: skip


def test_second_reading_is_equal_and_makes_nothing(runs_dir):
    first, computed = entries(runs_dir)
    assert len(computed) == 3
    again, computed = entries(runs_dir)
    assert not computed
    assert facts(again) == facts(first)
    assert all(entry.run.checked for entry in again)


def test_changed_run_is_read_again(runs_dir):
    entries(runs_dir)
    config = runs_dir / "sva-builtin-phm-2-000000000002" / "config.yaml"
    text, facts_before = config.read_text(), config.stat()
    config.write_text(text.replace("phm", "psm"))  # of the same size
    os.utime(config, ns=(facts_before.st_atime_ns, facts_before.st_mtime_ns))
    _, computed = entries(runs_dir)
    assert computed == ["sva-builtin-phm-2-000000000002"]


@pytest.mark.parametrize("damage", ["flip", "cut", "text", "folder"])
def test_damaged_index_is_made_again(runs_dir, damage):
    first, _ = entries(runs_dir)
    path = runs_dir / INDEX
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes({"flip": bytes(content), "cut": bytes(content[:40]), "text": b"x"}[damage])
    again, computed = entries(runs_dir)
    assert len(computed) == 3
    assert facts(again) == facts(first)


def test_removed_and_new_runs(runs_dir):
    entries(runs_dir)
    Run(runs_dir / "sva-builtin-phm-1-000000000001").remove()
    run = Run.create(runs_dir, "sva-builtin-phm-4-000000000004", "task: sva\nseed: 4\nlayer: phm\n")
    run.set_state(State.DONE)
    kept, computed = entries(runs_dir)
    assert computed == [run.id]
    assert [entry.run.id[-1] for entry in kept] == ["2", "3", "4"]
    assert "000000000001" not in (runs_dir / INDEX).read_text()
