"""Reading back the configuration that a run directory holds."""

import logging
from pathlib import Path
from typing import Any

from phmrun.config.experiment import Experiment
from phmrun.config.layering import OptionsOf, read_source, resolve
from phmrun.config.problems import Problem
from phmrun.errors import ExitCode, PhmrunError
from phmrun.registry import TASKS, Task

_LOG = logging.getLogger(__name__)


def load_run_config(
    path: Path, *, schema: type[Experiment] | None = None, options_of: OptionsOf | None = None
) -> Experiment:
    """The configuration that ``to_yaml`` wrote, validated again.

    A key that this version does not know is left out and said so in the log, and a key that the file lacks takes its
    default, so that runs of older and newer versions can still be read.

    Args:
        path: The file ``config.yaml`` of a run.
        schema: The configuration class; by default the one of the task that the file names.
        options_of: The options of a structure; None leaves the layers' options as they are.

    Raises:
        PhmrunError: The file is missing or malformed, or a value is no longer valid.
    """
    if path.exists() and not path.is_file():
        raise PhmrunError("this is not a file", where=str(path), code=ExitCode.DATA)
    source = read_source(path)
    return resolve(schema or _schema(source.values, path), [source], options_of, on_unknown=_tell).config


def _schema(values: Any, path: Path) -> type[Experiment]:
    name = values.get("task")
    if not isinstance(name, str):
        raise PhmrunError("the key 'task' is missing: this is not the configuration of a run", where=str(path))
    task: Task = TASKS.get(name, where=str(path))
    schema: type[Experiment] = task.load("schema")
    return schema


def _tell(problem: Problem) -> None:
    _LOG.warning("%s: ignored, because another version of phmrun wrote it (%s)", problem.key, problem.source)
