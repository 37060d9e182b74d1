import pytest

from benchmarks import arithmetic, decoding
from phmrun.decoding import beam

SMALL = ["--layers", "1", "--width", "64"]


def test_a_line_for_each_system_and_precision_relative_to_the_first(capsys):
    systems = ["--system", "dense", "--system", "monarch", "--system", "nn.Transformer"]
    arithmetic.main([*SMALL, *systems, "--precision", "32", "--tokens", "60", "--rounds", "1"])
    _, dense, *others = capsys.readouterr().out.splitlines()
    assert dense.split()[0] == "dense"
    assert dense.split()[-1] == "1.00"
    assert [line.split()[0] for line in others] == ["monarch", "nn.Transformer"]


def test_shares_of_a_decoder_step_add_up_and_nothing_stays_patched(capsys):
    before = beam.beam_search
    decoding.main([*SMALL, "--case", "2,2", "--repeats", "1"])
    _, case, *parts = capsys.readouterr().out.splitlines()
    assert case.startswith("batch 2, beam 2:")
    assert len(parts) == len(decoding.PARTS)
    assert sum(float(line.split()[2].rstrip("%")) for line in parts) == pytest.approx(100, abs=0.5)
    assert beam.beam_search is before
