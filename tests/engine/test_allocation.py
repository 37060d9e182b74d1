"""Freed memory is kept, counted in page faults: the pages that the system has to clear."""

import platform
import subprocess
import sys

import pytest

CODE = """
import resource, sys
from phmrun.engine.processes import keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory() and keep_freed_memory()
block = bytearray(2 ** 26)
del block
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    block = bytearray(2 ** 26)
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how):
    done = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="an option of glibc")
def test_large_blocks_are_used_again():
    assert faults("kept") < 100 < faults("given back")
