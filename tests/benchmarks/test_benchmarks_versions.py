import pytest

from benchmarks import threads, versions


@pytest.mark.slow
def test_a_checkout_beside_itself_has_one_line_with_a_ratio(capsys):
    train = ["sva", "--set", "model.width=16", "--set", "hardware.accelerator=cpu"]
    versions.main([str(versions.ROOT), "--rounds", "1", "--steps", "1", "--", *train])
    (line,) = capsys.readouterr().out.splitlines()
    assert float(line.split()[0]) > 0
    assert line.endswith(" ".join(train))


def test_a_training_that_cannot_begin_shows_its_log(tmp_path):
    with pytest.raises(SystemExit, match="there is no task"):
        versions.Training(versions.ROOT, 1, ["no-such-task"], tmp_path)


def test_busy_processes_end_with_the_block():
    with threads.busy(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert [process.poll() for process in processes] == [-9, -9]
