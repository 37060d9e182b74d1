import pytest
from pydantic import ValidationError

from phmrun.config import Experiment, LayerConfig, Section, TrainingConfig
from phmrun.config.section import is_section
from phmrun.config.sections import HardwareConfig
from phmrun.config.training import BatchConfig


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


@pytest.mark.parametrize(("given", "kept"), [(32, "32"), ("bf16", "bf16-mixed"), (16, "16-mixed"), ("64", "64")])
def test_precision_is_normalized(given, kept):
    assert TrainingConfig(precision=given).precision == kept


@pytest.mark.parametrize(("given", "kept"), [("2", 2), (3, 3), ("auto", "auto"), ("0,2", "0,2"), (-1, -1)])
def test_devices_are_a_number_a_list_or_auto(given, kept):
    assert HardwareConfig(devices=given).devices == kept


@pytest.mark.parametrize("given", [0, "0", "", -2, True, None, 100_000_000])
def test_bad_devices(given):
    with pytest.raises(ValidationError):
        HardwareConfig(devices=given)


def test_whole_numbers_have_32_bits():
    assert TrainingConfig(max_steps=2**32 - 1).max_steps == 2**32 - 1
    for number in (2**32, 10**30, "9" * 30):
        with pytest.raises(ValidationError, match="no larger than 4,294,967,295"):
            TrainingConfig(max_steps=number)


def test_learning_rate_and_schedule_go_together():
    TrainingConfig(optimizer={"lr": 1e-3}, schedule={"name": "constant"})
    with pytest.raises(ValidationError, match="noam schedule fixes"):
        TrainingConfig(optimizer={"lr": 1e-3})
    with pytest.raises(ValidationError, match="needs a peak learning rate"):
        TrainingConfig(schedule={"name": "inverse-sqrt"})


def test_averaging_needs_kept_checkpoints():
    TrainingConfig(average=3, keep_last=3)
    with pytest.raises(ValidationError, match="keeps only 1"):
        TrainingConfig(average=3)


def test_layer_options_are_what_is_not_the_structure():
    layer = LayerConfig(structure="phm", n=8)
    assert layer.options == {"n": 8}
    filled = layer.with_defaults({"n": 4, "variant": "paper"})
    assert filled.options == {"n": 8, "variant": "paper"}
    assert filled.option_defaults == {"n": 4, "variant": "paper"}
    assert layer.option_defaults == {}


def every_section(section: type[Section]):
    yield section
    for field in section.model_fields.values():
        if is_section(field.annotation):
            yield from every_section(field.annotation)


def test_every_key_has_a_description():
    for section in every_section(Experiment):
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name}"


def test_ranges_of_length_count_tokens():
    with pytest.raises(ValidationError, match="buckets need unit=tokens"):
        BatchConfig(unit="sentences", buckets=2)
