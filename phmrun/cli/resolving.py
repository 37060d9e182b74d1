"""From the options of a verb to a validated configuration."""

from pathlib import Path
from typing import Any

from phmrun.cli.options import ExperimentOptions
from phmrun.config import ConfigError, Problem
from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError
from phmrun.experiments import Request, resolve_request


def resolve_options(options: ExperimentOptions, *, parent: Path | None = None) -> Request:
    """The configuration that the options describe; flags are stronger than ``--set``, and that than ``--config``.

    Args:
        options: As given.
        parent: The configuration of a run that this one extends.

    Raises:
        PhmrunError: Unknown names, unknown keys, bad values; all those of the configuration at once.
    """
    given = settings(options.set_ or [])
    given += [(key, value, flag) for key, (flag, value) in options.explicit().items()]
    return resolve_request(
        options.task, given, configs=options.config or [], plugins=options.plugin or [], parent=parent
    )


def settings(texts: list[str], section: str | None = None) -> list[tuple[str, Any, str]]:
    """Dotted key, value and label of every ``--set``; all malformed ones are reported together.

    Args:
        texts: As given.
        section: The only section that may be set; the keys are then those within it.

    Raises:
        ConfigError: Some are not of the form key=value, or not of that section.
    """
    parsed, problems = [], []
    for text in texts:
        key, equals, value = text.partition("=")
        label = f"--set {text}"
        if not equals or not all(part.strip() == part != "" for part in key.split(".")):
            example = f"{section}.beam=4" if section else "training.clip=1"
            problems.append(Problem(label, f"is not of the form key=value, as in --set {example}"))
            continue
        if section and not key.startswith(f"{section}."):
            problems.append(Problem(label, f"a trained run is changed in its section {section} only", valid=[section]))
            continue
        try:
            parsed.append((key.removeprefix(f"{section}.") if section else key, parse_yaml(value, label), label))
        except PhmrunError as error:
            problems.append(Problem(label, f"the value is not YAML: {error.what}"))
    if problems:
        raise ConfigError(problems)
    return parsed
