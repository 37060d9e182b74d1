"""Lookups in tables of ten million rows: the dense table would take 2.4 GiB, and is never built."""

import os

import pytest
import torch

from phmrun.bench.layers import Case
from phmrun.bench.lookup_memory import ROWS, large_tables, lookup_memory
from phmrun.bench.modules import EmbeddingKind
from phmrun.layers import Structure
from phmrun.registry import STRUCTURES

WIDTH = 64


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system does not forget earlier peaks")
@pytest.mark.parametrize(("structure", "options"), [("phm", {"n": 16}), ("kronecker", {"rank": 16})])
def test_no_table_of_ten_million_rows_is_built(structure, options):
    tables, left_out = large_tables([(structure, options)], [WIDTH])
    assert not left_out
    (row,) = lookup_memory(tables)
    assert (row.rows, row.table) == (ROWS, 4 * ROWS * WIDTH)
    assert row.parameters < row.table / 15
    assert row.lookup < row.table / 100


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="the system does not forget earlier peaks")
def test_a_table_that_is_built_is_seen(monkeypatch):
    class Built(Structure):
        """A constant table, made at every lookup."""

        def __init__(self, out_features, in_features):
            super().__init__(out_features, in_features)
            self.value = torch.nn.Parameter(torch.ones(1))

        @classmethod
        def count(cls, out_features, in_features):
            return 1

        def reset_parameters(self, std):
            pass

        def materialize(self):
            return self.value.repeat(self.out_features, self.in_features)

    monkeypatch.setitem(STRUCTURES._registered, "built", Built)
    (row,) = lookup_memory([Case(EmbeddingKind(), "built", {}, (ROWS // 10, WIDTH))])
    assert row.lookup > 0.9 * row.table


def test_tables_whose_parameters_are_too_many_are_left_out():
    tables, left_out = large_tables([("dense", {}), ("phm", {"n": 3}), ("phm", {"n": 16})], [WIDTH])
    assert [case.label for case in tables] == ["phm n=16"]
    assert "its parameters take 2.4 GiB" in left_out[0]
    assert "n = 3 does not divide" in left_out[1]
