import pytest
from pydantic import ValidationError

from phmrun.config import Experiment, TrainingConfig
from phmrun.config.sections import seconds_of


@pytest.mark.parametrize(
    ("given", "seconds"), [("01:30:00", 5400), ("1:2:3", 3723), (None, None), ("100:00:00", 360_000)]
)
def test_time_limits(given, seconds):
    assert seconds_of(TrainingConfig(max_time=given).max_time) == seconds


@pytest.mark.parametrize("given", ["1:2", "x", -5, "1:60:00", "90", "1h", "9" * 99 + ":00:00"])
def test_bad_time_limits(given):
    with pytest.raises(ValidationError):
        TrainingConfig(max_time=given)


def test_learning_rate_and_schedule_go_together():
    TrainingConfig(optimizer={"lr": 1e-3}, schedule={"name": "constant"})
    with pytest.raises(ValidationError, match="noam schedule fixes"):
        TrainingConfig(optimizer={"lr": 1e-3})
    with pytest.raises(ValidationError, match="needs a peak learning rate"):
        TrainingConfig(schedule={"name": "inverse-sqrt"})


def test_every_key_has_a_description():
    document = Experiment.model_json_schema()
    for section in (document, *document["$defs"].values()):
        assert not [name for name, key in section["properties"].items() if not key.get("description")]
