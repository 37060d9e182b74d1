"""Tasks: parts, metrics, baselines and file formats. Imports no torch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from phmrun.errors import PhmrunError
from phmrun.metric import Baseline, Metric
from phmrun.registry import load

Part = Literal["schema", "vocabulary", "data", "module", "predictor", "runner", "pairs"]


class Format(NamedTuple):
    """Format of the user's files.

    Attributes:
        name: Name of the format.
        says: Description of the format.
        files: Valid sample by file name.
    """

    name: str
    says: str
    files: Mapping[str, str]


class Runner(Protocol):
    """Execution of a task's runs by something else than phmrun's training."""

    def fingerprints(self, config: Any) -> Mapping[str, str]:
        """Return the SHA-256 checksums that the run id depends on, by name.

        Raises:
            PhmrunError: The configuration cannot be run, or (exit 3) a file is missing.
        """

    def run(
        self,
        config: Any,
        *,
        origin: Mapping[str, str],
        runs_dir: Path,
        plugins: Mapping[Path, str],
        restart: Callable[[Any], None] | None = None,
    ) -> Path:
        """Run an experiment, or continue it, and return its run directory.

        Args:
            config: Resolved configuration.
            origin: Source of each value by dotted key.
            runs_dir: Directory of the runs.
            plugins: SHA-256 of plug-in files by path.
            restart: Called with the run before it is deleted and begun anew, and may raise; None: it is continued.

        Raises:
            PhmrunError: (exit 4) The run has failed.
        """


@dataclass(frozen=True)
class Task:
    """Task, with the places of its parts as ``module:name``.

    Args:
        name: Name on the command line.
        summary: Description in one line.
        schema: Subclass of ``phmrun.config.Experiment``, in a module that imports no torch.
        vocabulary: Class that maps text to token ids; see ``phmrun.engine.data.Vocabulary``.
        data: ``build_data(config, cache)``, which returns a ``phmrun.engine.data.DataModule``.
        module: ``build_module(config, *sizes)``, which returns a ``phmrun.engine.module.TrainingModule`` for
            vocabularies of these sizes.
        predictor: Subclass of ``phmrun.engine.predictor.Predictor``, for a trained network.
        pairs: Class of minimal pairs, with a path or a name of the data directory as argument, whose objects the
            predictor evaluates as data: files by name, and their ``sources(name)``.
        runner: A :class:`Runner`, for a task whose runs train no network of phmrun. It has no vocabulary, data, module
            or predictor.
        converts: True if the predictor can convert the module for another engine. It then takes ``exports=``, the
            directory of converted models.
        formats: Formats of the user's files; all are UTF-8, plain or .gz.
        metrics: Metrics of the task; they need no other announcement.
        baselines: Systems without a trained network that are scored next to it.
        networks: Networks that papers' tables name, each as ``module:name`` of a class or function.
    """

    name: str
    summary: str
    schema: str
    vocabulary: str = ""
    data: str = ""
    module: str = ""
    predictor: str = ""
    pairs: str = ""
    runner: str = ""
    converts: bool = False
    formats: tuple[Format, ...] = ()
    networks: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[Metric, ...] = ()
    baselines: tuple[Baseline, ...] = ()

    def load(self, what: Part) -> Any:
        """Import and return a part of the task, by the name of its attribute.

        Raises:
            PhmrunError: The task has no such part, because it trains no network of phmrun.
        """
        if not getattr(self, what):
            raise PhmrunError(f"the task {self.name!r} trains no network of phmrun: it has no {what}")
        return load(getattr(self, what))
