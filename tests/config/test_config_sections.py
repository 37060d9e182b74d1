import pytest
from pydantic import ValidationError

from phmrun.config import Experiment, Section, TrainingConfig
from phmrun.section import is_section


@pytest.mark.parametrize(
    ("given", "clock", "seconds"),
    [
        ("01:30:00", "01:30:00", 5400), ("1:2:3", "01:02:03", 3723), (90, "01:30:00", 5400), ("0.5", "00:00:30", 30),
        (None, None, None), ("100:00:00", "100:00:00", 360_000),
    ],
)  # fmt: skip
def test_time_limits(given, clock, seconds):
    training = TrainingConfig(max_time=given)
    assert training.max_time == clock
    assert training.max_seconds == seconds


@pytest.mark.parametrize(
    "given", ["1:2", "x", "-5", -5, "1:60:00", "0", "00:00:00", "1h", "9" * 400, "9" * 99 + ":00:00"]
)
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
