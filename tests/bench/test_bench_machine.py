import json
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
