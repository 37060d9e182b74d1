"""The section ``decoding`` of a configuration, which may be changed after training."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from phmrun.config.experiment import Experiment
from phmrun.config.problems import ConfigError, from_validation, unknown_key
from phmrun.config.schema import Section
from phmrun.errors import PhmrunError


def decoding_section(config: Experiment) -> Section:
    """How a trained model of the task is used; an empty section where there is nothing to choose."""
    section = getattr(config, "decoding", None)
    return section if isinstance(section, Section) else Section()


def with_decoding(config: Experiment, overrides: Mapping[str, Any]) -> Experiment:
    """The configuration with some keys of its decoding replaced.

    Raises:
        ConfigError: The task's decoding has no such keys, or not with these values; all of them at once.
        PhmrunError: The task's outputs are no text that an engine could find.
    """
    if not overrides:
        return config
    section = decoding_section(config)
    known = type(section).model_fields
    if "engine" not in known and overrides.keys() & {"engine", "quantization"}:
        raise PhmrunError(
            f"CTranslate2 translates, and {config.task} is no sequence-to-sequence task", where="--engine"
        )
    problems = [unknown_key(f"decoding.{key}", known, None) for key in overrides if key not in known]
    if problems:
        raise ConfigError(problems)
    try:
        changed = type(section).model_validate({**section.model_dump(), **overrides})
    except ValidationError as error:
        raise ConfigError(from_validation(error, type(section), {})) from error
    return config.model_copy(update={"decoding": changed})
