import pytest
from pydantic import ValidationError

from phmrun.config import Experiment, Section, TrainingConfig
from phmrun.config.sections import seconds_of
from phmrun.section import is_section


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


def every_section(section: type[Section]):
    yield section
    for field in section.model_fields.values():
        if is_section(field.annotation):
            yield from every_section(field.annotation)


def test_every_key_has_a_description():
    for section in every_section(Experiment):
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name}"
