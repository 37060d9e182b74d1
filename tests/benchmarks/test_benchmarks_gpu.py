import json
from functools import partial

import pytest
import torch

from benchmarks import gpu
from benchmarks.arguments import run


def test_script_measures_steps_in_each_arithmetic(capsys):
    arguments = ["--device", "cpu", "--preset", "tiny", "--layer", "monarch", "--vocabulary", "16", "--length", "4"]
    gpu.main([*arguments, "--tokens", "8", "--repeats", "1", "--arithmetic", "32", "--arithmetic", "bf16", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    measured = [(row["arithmetic"], row["layer"]) for row in rows]
    assert measured == [("32", "dense"), ("32", "monarch"), ("bf16", "dense"), ("bf16", "monarch")]
    assert [row["ratio"] for row in rows[::2]] == [1.0, 1.0]
    assert all(row["busy"] is row["waits"] is None and row["memory"] > 0 for row in rows)


def test_every_structure_is_compared_with_double_precision(capsys):
    gpu.main(["--device", "cpu", "--agreement", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"phm, dense", "phm, factored", "lstm, phm", "symmetric, factored"} <= {row["module"] for row in rows}
    assert all(0 < row["output"] < 1e-5 and row["gradient"] < 1e-5 for row in rows)


@pytest.mark.parametrize("arguments", [["--preset", "tinny"], ["--layer", "phn"], ["--layer", "phm n=7"]])
def test_a_mistake_is_named_without_a_traceback(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        run(partial(gpu.main, ["--device", "cpu", *arguments]))
    shown = capsys.readouterr()
    assert (end.value.code, shown.out) == (2, "")
    assert "phmrun: error: " in shown.err


def test_bfloat16_is_the_arithmetic_inside_its_block():
    with gpu.computed("bf16 compiled", "cpu"):
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16
        assert torch.is_autocast_enabled("cpu")
    assert not torch.is_autocast_enabled("cpu")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_step_on_a_gpu_waits_for_nothing(capsys):
    gpu.main(["--preset", "tiny", "--layer", "phm n=4", "--arithmetic", "32", "--repeats", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["waits"] for row in rows] == [0, 0]
