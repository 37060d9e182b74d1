import json
import logging
import os

import pytest
import torch

from phmrun.bench import machine
from phmrun.engine.processes import keep_freed_memory


def test_facts_are_json_and_say_what_figures_depend_on():
    facts = json.loads(json.dumps(machine.facts()))
    assert facts["threads"] == torch.get_num_threads()
    assert facts["torch"] == torch.__version__
    assert facts["processor"]


@pytest.mark.parametrize(("texts", "size"), [(["32K", "2048K", "480M"], 480 * 2**20), ([], machine.USUAL_CACHE)])
def test_the_last_level_cache_is_the_largest(tmp_path, texts, size):
    for number, text in enumerate(texts):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{text}\n")
    assert machine.last_level_cache(tmp_path) == size


@pytest.mark.parametrize(("load", "threads", "warned"), [(3.0, 2, True), (0.1, 2, False), (3.0, 1, False)])
def test_other_work_is_warned_of_where_it_counts(monkeypatch, caplog, load, threads, warned):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    with caplog.at_level(logging.WARNING, "phmrun.bench"):
        machine.warn_if_busy()
    assert ("load average" in caplog.text) == warned


@pytest.mark.parametrize("kept", [False, True])
def test_peak_memory_sees_what_is_gone_again_and_forgets_earlier_peaks(kept):
    if kept:  # as training in the same process asks for
        keep_freed_memory()
    size = 256 * 2**20
    with machine.peak_memory("cpu") as peak:
        torch.ones(size // 4).sum()
        high = peak()
    with machine.peak_memory("cpu") as peak:
        low = peak()
    assert high > size
    if os.access("/proc/self/clear_refs", os.W_OK):
        assert high - low > size // 2
