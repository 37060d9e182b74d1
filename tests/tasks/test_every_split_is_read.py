"""Faults of a test set show before training, in every task."""

import pytest
from tiny_experiments import SETTINGS, configured

from phmrun.engine.data import build_data, prepare
from phmrun.errors import ExitCode, PhmrunError

FAULTS = {"empty": b"", "NUL": b"a\0b\n", "UTF-8": b"\xff\n", "blank": b"\n\n", "compressed": b"\xfd7zXZ\0\n"}


@pytest.mark.parametrize("task", SETTINGS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_test_file_is_refused_before_training(task, fault, tmp_path):
    config = configured(task, tmp_path)
    data = build_data(config)
    (path, *_) = data.sources("test")
    path.write_bytes(FAULTS[fault])
    with pytest.raises(PhmrunError) as caught:
        prepare(config, build_data(config))
    assert caught.value.code is ExitCode.DATA
    assert str(path) in f"{caught.value.where} {caught.value.what}"
