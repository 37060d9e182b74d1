"""Python interface of experiments: train or continue, evaluate, predict, read results.

    import phmrun

    run = phmrun.train("nmt", layer="phm", n=8, max_steps=100)
    run.scores(), run.history(), run.predict(["the child sees the dog ."])

Importing this module imports no torch; training, evaluating and predicting do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phmrun.config import Experiment, Source, Task, config_source, nested, read_source, resolve, task_defaults
from phmrun.config.layering import Resolved
from phmrun.config.options import options_of
from phmrun.config.sections import NO_DATA
from phmrun.errors import PhmrunError, unknown
from phmrun.ledger import Run
from phmrun.ledger.directory import directory_of_runs
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.listing import list_runs
from phmrun.ledger.scores import score_value
from phmrun.registry import TASKS, load_plugins

if TYPE_CHECKING:
    from phmrun.engine.experiment import DryRun
    from phmrun.results import Results

AnyPath = str | PathLike[str]
_SELECTORS = (
    *("model.network", "model.preset"),
    *(f"{scope}{key}" for scope in ("layer", "embedding", "output") for key in ("", ".structure")),
    *("embedding.inside", "embedding.inside.structure"),
)
"""Keys that select other keys' defaults, applied first; an embedding precedes what is inside it."""
ARGUMENTS = {
    "layer": "layer.structure",
    "n": "layer.n",
    "embedding": "embedding.structure",
    "output": "output.structure",
    "model": "model.network",
    "preset": "model.preset",
    "data": "data.name",
    "prefix": "data.prefix",
    "train_file": "data.train",
    "dev_file": "data.dev",
    "test_file": "data.test",
    "max_steps": "training.max_steps",
    "lr": "training.optimizer.lr",
    "batch_size": "batch.size",
    "seed": "seed",
}
"""Configuration keys by argument of :func:`train`."""


@dataclass(frozen=True)
class Request:
    """Task and resolved configuration of an experiment.

    Attributes:
        task: The task.
        resolved: Configuration with the origin of each value.
        plugins: SHA-256 checksums of plug-in files by path.
    """

    task: Task
    resolved: Resolved[Experiment]
    plugins: dict[Path, str]


def resolve_request(
    task: str,
    settings: Iterable[tuple[str, Any, str]],
    *,
    configs: Iterable[str] = (),
    plugins: Iterable[Path] = (),
    parent: Path | None = None,
) -> Request:
    """Return the configuration that settings describe.

    Plug-ins are imported first. Later sources override earlier ones: the schema's defaults, the task's file (or the
    parent run's configuration), each configuration file, each setting. Settings that name a preset or structure are
    applied before their options. Settings with the user's own files replace the dataset of a configuration file, unless
    they name a dataset. For a task with a runner of its own (a script), options of layers and the dataset are not
    checked.

    Args:
        task: Name of the task.
        settings: Dotted key, value, and label of the origin.
        configs: Configuration files: paths, or packaged names (``configs/nmt/multi30k-small.yaml``).
        plugins: Python files that register layers, tasks, metrics …; they are imported.
        parent: Configuration file of the run that this one extends.

    Raises:
        PhmrunError: (exit 2) Names or keys are unknown, or values invalid (it lists all of the configuration's errors),
            or the dataset or preset is of another task or network.
    """
    sums = load_plugins(plugins)  # first, because one may register the task
    definition: Task = TASKS.get(task)
    schema: type[Experiment] = definition.load("schema")
    base = read_source(parent) if parent else task_defaults(definition.name)
    if parent and (former := base.values.get("task")) != definition.name:
        raise PhmrunError(f"the run is of the task {former}, not {task}", where=parent, hint=f"phmrun train {former} …")
    rank = {key: place for place, key in enumerate(_SELECTORS)}
    ordered = sorted(
        settings, key=lambda setting: rank.get(setting[0], len(rank)) if isinstance(setting[1], str) else len(rank)
    )
    sources = [Source(label, nested({key: value})) for key, value, label in ordered]
    # The user's own files replace the dataset of a configuration file.
    section: Any = schema.model_fields["data"].annotation
    keys = {key: label for label, values, _ in sources if isinstance(data := values.get("data"), dict) for key in data}
    files = [label for key, label in keys.items() if key in section.files]
    if files and "name" not in keys:
        whole = {"reduced": False} if "reduced" in section.model_fields else {}  # applies to datasets only
        sources.insert(0, Source(files[0], {"data": {"name": "files", **whole}}))
    everything = [base, *(config_source(name) for name in configs), *sources]
    if definition.runner:
        return Request(definition, resolve(schema, everything, None), sums)
    resolved = resolve(schema, everything, options_of)
    if resolved.origin.get("model.network", "").startswith("preset "):
        model: Any = resolved.config.model
        for key, value, label in ordered:
            if key == "model.network" and value != model.network:
                what = f"model.preset={model.preset} is of the network {model.network}, not {value}"
                raise PhmrunError(what, where=label)
    name, task = resolved.config.data.name, resolved.config.task
    if name not in ("builtin", "files", NO_DATA):
        from phmrun.datasets import CATALOGUE

        names, ours = CATALOGUE.names(), CATALOGUE.names(task)
        where = f"data.name (from {resolved.origin['data.name']})"
        if name not in names:
            raise unknown("dataset", name, ["files", *names], where=where)
        if ours and name not in ours:
            raise PhmrunError(f"the dataset {name!r} is not for {task}", where=where, valid=["files", *ours])
    return Request(definition, resolved, sums)


class Prediction(str):
    """Prediction as text, with its values by name.

    Attributes:
        values: Content of the line that ``phmrun predict --json`` prints: labels, probabilities, heads …
    """

    values: dict[str, Any]

    def __new__(cls, text: str, values: Mapping[str, Any]) -> "Prediction":
        """Create the text with its values; the mapping is copied."""
        prediction = super().__new__(cls, text)
        prediction.values = dict(values)
        return prediction


@dataclass(eq=False)
class TrainedRun:
    """Run in its directory."""

    run: Run

    @property
    def id(self) -> str:
        """Run id."""
        return self.run.id

    @property
    def path(self) -> Path:
        """Run directory."""
        return self.run.path

    @property
    def state(self) -> str:
        """State of the run: queued, running, done, failed or interrupted."""
        return str(self.run.status.state)

    def __repr__(self) -> str:
        """Return id and state of the run: ``TrainedRun('…', done)``."""
        return f"TrainedRun({self.id!r}, {self.state})"

    def scores(self) -> list[dict[str, Any]]:
        """Return a row per score, as for a pandas table.

        Keys are ``score``, ``value``, ``signature`` and others of the score, such as its interval ``ci``.
        """
        return [
            {"score": name, **(dict(score) if isinstance(score, Mapping) else {"value": score})}
            for name, score in self.run.metrics().items()
        ]

    def history(self) -> list[dict[str, Any]]:
        """Return the rows of ``history.jsonl``.

        Keys are ``step`` (optimizer steps), ``time`` (seconds), losses and scores. Shares are in percent, as the scores
        are; the file has them as shares of 1.
        """
        return [in_shown_units(row) for row in self.run.history.read()]

    def evaluate(
        self, split: str = "test", *, files: AnyPath | Sequence[AnyPath] = (), **decoding: Any
    ) -> dict[str, Any]:
        """Score the run on a split or on other test files.

        The files of ``phmrun eval`` are written.

        Args:
            split: Split of the run's data; ignored if there are ``files``.
            files: Another test set: one file, or source and target.
            **decoding: Keys of the decoding section to replace: ``beam=1``.

        Returns:
            Scores by name: ``{"test/bleu": {"value": 37.1, "signature": …}}``.

        Raises:
            PhmrunError: There is no such split, file or key.
        """
        from phmrun.engine import evaluation, trained_model

        trained = trained_model.open_run(self.run)
        return evaluation.evaluate_run(trained, split=split, decoding=decoding, files=_paths(files))

    def predict(self, lines: Iterable[str], **decoding: Any) -> list[Prediction]:
        """Return the predictions for lines of text.

        Each is the text that ``phmrun predict`` prints, with the values of ``--json`` in its ``values``.

        Args:
            lines: Inputs, one per line.
            **decoding: Keys of the decoding section to replace.

        Raises:
            PhmrunError: ``lines`` is no list of texts, a line is malformed, or there is no such key.
        """
        texts = [*lines]
        if isinstance(lines, str) or not all(isinstance(text, str) for text in texts):
            raise PhmrunError(f"predict takes a list of texts, not {lines!r:.60}", hint='Write predict(["a text"]).')
        from phmrun.engine import trained_model

        predictor = trained_model.open_run(self.run).predictor(decoding=decoding)
        predictions = [Prediction(answer.text, answer.values) for answer in predictor.predict(texts)]
        predictor.coverage.note_unknown("lines")
        return predictions


def train(
    task: str,
    *,
    runs_dir: AnyPath | None = None,
    config: AnyPath | Sequence[AnyPath] = (),
    plugins: Sequence[AnyPath] = (),
    extend: str | None = None,
    restart: bool = False,
    settings: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> TrainedRun:
    """Train a model and score it, or continue its run.

    An interrupted run of the same experiment is continued. A run that is done is returned unchanged.

    Args:
        task: nmt, style, sva, nli, parse, lm, or a task of a plug-in.
        runs_dir: Directory of the runs; default: ``PHMRUN_RUNS``, else "runs".
        config: Configuration files; later ones override earlier ones.
        plugins: Python files that register your own layers, tasks, metrics …
        extend: Run whose last checkpoint and configuration the new run starts from; requires ``max_steps``. With the
            layer ``added``, its weights are frozen and updates of them are trained.
        restart: Delete the existing run of this experiment, without a question.
        settings: Further configuration keys: ``{"model.width": 64}``.
        **arguments: Short names of keys: layer, n, embedding, output, model, preset, data, prefix, train_file,
            dev_file, test_file, max_steps, lr, batch_size, seed. ``None`` is ignored.

    Raises:
        PhmrunError: Settings are invalid, data are missing, or training failed.
    """
    place = directory_of_runs(runs_dir)
    request = _requested(task, place, config, plugins, extend, settings, arguments)
    if not extend:
        require_no_distillation(request.resolved.config)
    from phmrun.engine import experiment

    result = experiment.train(
        request.resolved.config,
        origin=request.resolved.origin,
        runs_dir=place,
        plugins=request.plugins,
        restart=(lambda _: None) if restart else None,
        extend=extend,
    )
    return TrainedRun(Run(result.run_dir.absolute()))  # the program may change its folder


def require_no_distillation(config: Experiment) -> None:
    """Check that an experiment without a teacher sets nothing of distillation.

    Raises:
        PhmrunError: (exit 2) It does.
    """
    if config.distillation != type(config.distillation)():
        what = "a run without a teacher has no distillation"
        raise PhmrunError(what, where="distillation", hint="Add --teacher RUN, or leave distillation out.")


def plan(
    task: str,
    *,
    config: AnyPath | Sequence[AnyPath] = (),
    plugins: Sequence[AnyPath] = (),
    settings: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> "DryRun":
    """Return the facts of an experiment, without training.

    They are data statistics, parameter counts and run id. Arguments are those of :func:`train` that describe an
    experiment. No run directory is created.

    Raises:
        PhmrunError: Settings are invalid, or data are missing.
    """
    request = _requested(task, Path(), config, plugins, None, settings, arguments)
    from phmrun.engine.experiment import dry_run

    return dry_run(request.resolved.config, plugins=request.plugins)


def _paths(given: AnyPath | Sequence[AnyPath]) -> list[Path]:
    """Return the paths of a single path, or of several."""
    return [Path(path) for path in ([given] if isinstance(given, str | PathLike) else given)]


def open_run(reference: AnyPath = "latest", *, runs_dir: AnyPath | None = None) -> TrainedRun:
    """Return a run by reference.

    That is its id, a unique prefix of it, the first digits of its end, its path, or "latest". Runs are in ``runs_dir``;
    default: ``PHMRUN_RUNS``, else "runs".

    Raises:
        PhmrunError: (exit 2) No run or several runs match.
    """
    return TrainedRun(Run.find(directory_of_runs(runs_dir).absolute(), str(reference)))


def runs(runs_dir: AnyPath | None = None) -> list[dict[str, Any]]:
    """Return a row for each run below a directory, sorted by id.

    The default directory is ``PHMRUN_RUNS``, else "runs". Keys are id, state, task, data, layer, seed, parameters, and
    the names of scores.
    """
    rows = []
    for summary in list_runs(directory_of_runs(runs_dir)):
        about = {key: summary.about(key) for key in ("task", "data", "layer", "seed", "parameters")}
        values = {name: score_value(score) for name, score in summary.metrics().items()}
        rows.append({"id": summary.id, "state": summary.state, **about, **values})
    return rows


def load_results(source: AnyPath | None = None, *, runs_dir: AnyPath | None = None) -> "Results":
    """Return the long table of runs, small results or a sweep.

    Args:
        source: The directory, the folder, or a sweep's file (``.yaml``) whose cells have their runs in ``runs_dir``;
            default: ``runs_dir``.
        runs_dir: Directory of the runs; default: ``PHMRUN_RUNS``, else "runs".

    Raises:
        PhmrunError: The folder or file does not exist or is malformed.
    """
    place = directory_of_runs(runs_dir)
    if str(source).endswith((".yaml", ".yml")):
        from phmrun.sweeps.results import view

        return view([str(source)], place).results
    from phmrun.results import Results

    return Results.load(Path(source or place))


def _requested(
    task: str,
    runs_dir: Path,
    config: AnyPath | Sequence[AnyPath],
    plugins: Sequence[AnyPath],
    extend: str | None,
    settings: Mapping[str, Any] | None,
    arguments: Mapping[str, Any],
) -> Request:
    """Return the request of :func:`train`'s arguments.

    Arguments that are ``None`` are ignored; paths become texts. ``settings`` are applied after them.

    Raises:
        PhmrunError: (exit 2) An argument, name or key is unknown, or a value invalid.
    """
    for name in arguments:
        if name not in ARGUMENTS:
            raise unknown("argument", name, [*ARGUMENTS, "config", "plugins", "settings"])
    if not isinstance(settings or {}, Mapping):
        raise PhmrunError(f"settings={settings!r:.60} is no mapping", hint='Write settings={"model.width": 32}.')
    requested = [(ARGUMENTS[name], value, name) for name, value in arguments.items() if value is not None]
    requested += [(key, value, "settings") for key, value in (settings or {}).items()]
    return resolve_request(
        task,
        [(key, str(value) if isinstance(value, PathLike) else value, label) for key, value, label in requested],
        configs=[str(path) for path in _paths(config)],
        plugins=_paths(plugins),
        parent=Run.find(runs_dir, extend).config_path if extend else None,
    )
