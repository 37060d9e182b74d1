"""Configuration of a script's run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from phmrun.config import BatchConfig, Experiment, LayerConfig, ModelConfig, Section, Unhashed
from phmrun.config.sections import Clock, MapConfig
from phmrun.config.training import DistillationConfig
from phmrun.documents import flat
from phmrun.section import OpenSection, is_section

SCRIPTS = (".py", ".sh", ".R", ".jl", ".pl", ".rb", ".js", ".ipynb")
"""Endings of file names that name an experiment."""


class ScriptData(Section):
    """Name of the experiment, in the place of a task's data."""

    name: str = Field("script", min_length=1)
    """Name of the experiment in tables and run ids; default: the script's name."""


class ScriptTraining(Section):
    """Time limit and validation score of a script's run."""

    max_steps: ClassVar[None] = None

    max_time: Clock = None
    """Time limit of this process: HH:MM:SS; null: no limit. The script is then interrupted, and
    the same command continues it.
    """
    monitor: str = Field("loss", min_length=1)
    """Validation score that chooses tuned values: with "accuracy", that is the score "val/accuracy"."""


class Settings(OpenSection):
    """Settings of the script, with any keys."""

    @property
    def options(self) -> dict[str, Any]:
        """Values of the settings by dotted key; empty mappings vanish."""
        return flat(self.__pydantic_extra__ or {})


class ScriptExperiment(Experiment):
    """Configuration of a script's run.

    ``layer``, ``embedding`` and ``output`` are structures as in other tasks, but with any names and options. Every key
    without a place here is in ``settings``.
    """

    checks_layers = False

    task: Literal["script"] = "script"
    """Name of the task."""
    data: ScriptData = ScriptData()  # type: ignore[assignment]
    """Name of the experiment."""
    training: ScriptTraining = ScriptTraining()  # type: ignore[assignment]
    """Time limit and validation score."""
    # Sections of phmrun's own training: not written, and free for the script's settings.
    model: ModelConfig = Field(ModelConfig(), exclude=True)
    maps: tuple[MapConfig, ...] = Field((), exclude=True)
    batch: BatchConfig = Field(BatchConfig(), exclude=True)
    distillation: DistillationConfig = Field(DistillationConfig(), exclude=True)
    score_on: Annotated[tuple[str, ...], Unhashed()] = Field((), exclude=True)

    command: str = ""
    """Command with placeholders {key} or {key|default}: keys of the settings, seed, and run, the folder of the script's
    files. Each value is one argument. `python` is the interpreter of phmrun.
    """
    scores: str = "{run}/scores.json"
    """File that the script writes in its folder {run}: {"test/accuracy": 97.1}, or {"value": 97.1, "items": [1, 0, …]}
    for each score. Placeholders as in the command.
    """
    inputs: Annotated[tuple[str, ...], Unhashed()] = ()
    """Files that the script reads, itself among them; their checksums are part of the run id."""
    directory: Annotated[Path, AfterValidator(Path.absolute), Unhashed()] = Field(Path(), validate_default=True)
    """Working directory; default: the current folder, in a sweep the folder of its file."""
    settings: Settings = Settings()
    """Settings of the script, by any key."""

    @classmethod
    def placed(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return values with keys without a field moved below ``settings``.

        Unknown keys within a section move, too, nested as they were, as does a section whose value is no mapping.
        Existing settings win over moved ones.
        """
        fields: dict[str, Any] = {}
        free: dict[str, Any] = {}
        for key, value in values.items():
            field = cls.model_fields.get(key)
            kind = field.annotation if field and not field.exclude else None
            name = isinstance(value, str) and is_section(kind) and issubclass(kind, LayerConfig)  # of a structure
            if kind is None or (is_section(kind) and not (name or value is None or isinstance(value, Mapping))):
                free[key] = value
            elif is_section(kind) and not issubclass(kind, OpenSection) and value:
                for part, item in value.items():
                    (fields if part in kind.model_fields else free).setdefault(key, {})[part] = item
            else:
                fields[key] = value
        return {**fields, "settings": {**free, **(fields.get("settings") or {})}}

    @model_validator(mode="before")
    @classmethod
    def _named_after_the_script(cls, values: Any) -> Any:
        """Name the experiment after its script, unless ``data`` is given.

        The name is that of the command's first word without braces that ends like one of :data:`SCRIPTS`, without this
        ending; else the program's, or "script" for an empty command. Values without a command, or that are no
        dictionary, are returned unchanged.
        """
        if not isinstance(values, dict) or not isinstance(values.get("command"), str) or values.get("data"):
            return values
        words = values["command"].split()
        names = [Path(word).stem for word in words if word.endswith(SCRIPTS) and "{" not in word]
        return {**values, "data": {"name": [*names, *(Path(word).name for word in words), "script"][0]}}
