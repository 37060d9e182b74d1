"""From the options of a verb to a validated configuration."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phmrun.cli.options import ExperimentOptions
from phmrun.config import (
    ConfigError,
    Experiment,
    Problem,
    Resolved,
    Source,
    Task,
    config_source,
    nested,
    read_source,
    resolve,
    task_defaults,
)
from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError, unknown
from phmrun.registry import TASKS, load_plugins

_SCOPES = ("layer", "embedding", "output")
_SELECTORS = (
    "model.network",
    "model.preset",
    *(key for scope in _SCOPES for key in (scope, f"{scope}.structure")),
    *("embedding.inside", "embedding.inside.structure"),
)
"""Keys that others refine; what is inside an embedding comes after the embedding that it is inside of."""


_FILES = (
    *(f"{split}{side}" for split in ("train", "dev", "test") for side in ("", "_source", "_target")),
    "prefix",
)
"""Keys of the data that name the user's own files."""


@dataclass(frozen=True)
class Request:
    """What the user asked for.

    Args:
        task: The task.
        resolved: The configuration and where each value came from.
        plugins: SHA-256 sums of the user's own layers, by file.
    """

    task: Task
    resolved: Resolved[Experiment]
    plugins: dict[Path, str]


def resolve_options(options: ExperimentOptions, *, parent: Path | None = None) -> Request:
    """The configuration that the options describe.

    In rising order of strength: the schema's defaults, the task's file (or the parent run's configuration), each
    ``--config``, each ``--set``, and the flags. Presets and structures named on the command line come before its
    other settings, so that ``--set layer.n=4 --layer phm`` means what it says in either order.

    Args:
        options: As given.
        parent: The configuration of a run that this one extends.

    Raises:
        PhmrunError: Unknown names, unknown keys, bad values; all those of the configuration at once.
    """
    task: Task = TASKS.get(options.task)
    plugins = load_plugins(options.plugin)
    base = read_source(parent) if parent else task_defaults(task.name)
    sources = [base, *(config_source(name) for name in options.config or [])]
    schema = task.load("schema")
    command = _command_line(options)
    sources += [*_own_files(schema, command), *command]
    from phmrun.layers import options_of  # imports torch, and only now does the verb need it

    resolved: Resolved[Experiment] = resolve(schema, sources, options_of)
    _check_dataset(resolved)
    return Request(task, resolved, plugins)


def _command_line(options: ExperimentOptions) -> list[Source]:
    """One source per setting, those that select a preset or a structure first, and flags after ``--set``."""
    said = settings(options.set_ or [])
    flags = [(key, value, flag) for key, (flag, value) in options.explicit().items()]
    ordered = sorted([*said, *flags], key=lambda setting: _rank(setting[0], setting[1]))
    return [Source(label, nested({key: value})) for key, value, label in ordered]


def _own_files(schema: type[Experiment], command: list[Source]) -> list[Source]:
    """Files of the user's own on the command line take the place of the dataset that a recipe names."""
    fields = schema.model_fields["data"].annotation.model_fields  # type: ignore[union-attr]
    given = [(key, source.label) for source in command for key in _data_keys(source)]
    files = [label for key, label in given if key in _FILES and key in fields]
    if not files or "name" in dict(given):
        return []
    whole = {"reduced": False} if "reduced" in fields else {}  # what is said of a dataset in a reduced setting
    return [Source(files[0], {"data": {"name": "files", **whole}})]


def _data_keys(source: Source) -> list[str]:
    section = source.values.get("data")
    return list(section) if isinstance(section, dict) else []


def _rank(key: str, value: Any) -> int:
    """Settings that name a preset or a structure come before those that refine it."""
    return _SELECTORS.index(key) if key in _SELECTORS and isinstance(value, str) else len(_SELECTORS)


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


def _check_dataset(resolved: Resolved[Experiment]) -> None:
    """Refuses a dataset that nobody knows, with the nearest names, and one of another task."""
    from phmrun.datasets import CATALOGUE

    name, task = resolved.config.data.name, resolved.config.task
    where = f"data.name (from {resolved.origin['data.name']})"
    known = {"builtin", "files", *CATALOGUE.names()}
    if name not in known:
        raise unknown("dataset", name, known, where=where)
    ours = CATALOGUE.names(task)
    if ours and name not in {"builtin", "files", *ours}:
        raise PhmrunError(f"the dataset {name!r} is not for {task}", where=where, valid=["files", *ours])
