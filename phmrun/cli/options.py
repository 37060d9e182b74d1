"""Options that several verbs share, and the configuration that they set.

A group of options is a dataclass whose fields are Typer parameters; those of an experiment come from a table.
``spread`` replaces a verb's parameter of such a type by its fields, for Typer.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from phmrun.cli import completion
from phmrun.cli.docstrings import parse_docstring, with_text
from phmrun.errors import PhmrunError
from phmrun.progress import note

if TYPE_CHECKING:
    from phmrun.experiments import Request
    from phmrun.ledger import Run

DATA, LAYER, OPTIMIZATION, CONFIG = "Data", "Layer", "Optimization", "Configuration"
HARDWARE, LOGGING, RUNS = "Hardware", "Logging", "Run"


def listed(*texts: str | None) -> list[str]:
    """Return the non-empty entries of comma-separated lists; None has none."""
    return [part.strip() for text in texts for part in (text or "").split(",") if part.strip()]


class Flag(NamedTuple):
    """Option of all verbs that take an experiment.

    Its default is ``None``.

    Attributes:
        panel: Panel of ``--help``.
        name: Name of the parameter: ``max_steps`` is ``--max-steps``, ``set_`` is ``--set``.
        kind: Type of the value.
        key: Dotted configuration key that it sets; ``None``: no single key.
        complete: Function that completes the value in a shell.
        metavar: Name of the value in ``--help``.
    """

    panel: str
    name: str
    kind: Any
    key: str | None
    complete: Callable[..., Any] | None = None
    metavar: str | None = None

    @property
    def option(self) -> str:
        """Name on the command line."""
        return f"--{self.name.removesuffix('_').replace('_', '-')}"

    @property
    def annotation(self) -> Any:
        """Annotation of the parameter for Typer, without its text; its type also allows None."""
        shown = typer.Option(
            self.option, rich_help_panel=self.panel, autocompletion=self.complete, metavar=self.metavar
        )
        return Annotated[self.kind | None, shown]


_TABLE: Mapping[str, Sequence[tuple[Any, ...]]] = {
    LAYER: (
        ("layer", str, "layer.structure", completion.layers),
        ("n", int, "layer.n"),
        ("budget", str, "layer.budget"),
        ("embedding", str, "embedding.structure", completion.embeddings),
        ("output", str, "output.structure", completion.layers),
        ("model", str, "model.network"),
        ("preset", str, "model.preset", completion.presets),
        ("plugin", list[Path], None, None, "FILE"),
    ),
    DATA: (
        ("data", str, "data.name", completion.datasets),
        ("prefix", str, "data.prefix"),
        ("source", str, "data.source"),
        ("target", str, "data.target"),
    ),
    "Data files": tuple((split, str, f"data.{split}", None, "FILE") for split in ("train", "dev", "test")),
    OPTIMIZATION: (
        ("seed", int, "seed"),
        ("max_steps", int, "training.max_steps"),
        ("max_epochs", int, "training.max_epochs"),
        ("max_time", str, "training.max_time"),
        ("lr", float, "training.optimizer.lr"),
        ("batch_size", int, "batch.size"),
        ("precision", str, "training.precision"),
    ),
    CONFIG: (
        ("config", list[str], None, completion.configs, "FILE"),
        ("set_", list[str], None, completion.keys, "KEY=VALUE"),
    ),
    HARDWARE: (("threads", int, "hardware.threads"),),
    LOGGING: (("wandb", str, "logging.wandb"),),
}
FLAGS = tuple(Flag(panel, *row) for panel, rows in _TABLE.items() for row in rows)


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a verb with the fields of dataclass parameters as parameters.

    Texts of fields may be in the dataclass's docstring, under ``Attributes:``. All become keyword-only. The verb is
    called with instances of the dataclasses.
    """
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}
    parameters = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))
            continue
        group = groups[parameter.name]
        fields, texts = get_type_hints(group, include_extras=True), parse_docstring(group.__doc__ or "").texts
        for field in dataclasses.fields(group):
            default = parameter.empty if field.default is dataclasses.MISSING else field.default
            annotation = with_text(fields[field.name], texts.get(field.name))
            parameters.append(
                inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            )

    def spread_verb(**given: Any) -> None:
        """Call the verb, with its dataclasses built from their fields."""
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            given[name] = group(**{field: given.pop(field) for field in fields})
        verb(**given)

    spread_verb.__name__, spread_verb.__doc__, spread_verb.__module__ = verb.__name__, verb.__doc__, verb.__module__
    spread_verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Typer would look up the annotations of ``given`` and of the result among the parameters.
    spread_verb.__annotations__ = {}
    return spread_verb


TaskArgument = Annotated[
    str, typer.Argument(help="Task: nmt, style, sva, nli, parse, lm, or a plug-in's.", autocompletion=completion.tasks)
]
OF_NETWORK = (LAYER, DATA, CONFIG)  # panels of the options that decide a network's size


def _fields(flags: Iterable[Flag]) -> list[tuple[str, Any, Any]]:
    """Return the fields of a dataclass of flags."""
    return [(flag.name, flag.annotation, dataclasses.field(default=None, kw_only=True)) for flag in flags]


_Network = dataclasses.make_dataclass(
    "_Network",
    [
        ("task", TaskArgument, dataclasses.field(default="")),
        *_fields(flag for flag in FLAGS if flag.panel in OF_NETWORK),
    ],
    frozen=True,
)


class NetworkOptions(_Network):  # type: ignore[misc, valid-type]
    """Options of a network: ``task``, and a field for each of :data:`FLAGS` that decides its size."""

    def explicit(self) -> list[tuple[str, Any, str]]:
        """Return (dotted key, value, option) of each option that is set and has a key."""
        values = [(flag.key, getattr(self, flag.name, None), flag.option) for flag in FLAGS if flag.key]
        return [(key, value, option) for key, value, option in values if value is not None]


_Experiment = dataclasses.make_dataclass(
    "_Experiment",
    [*_fields(flag for flag in FLAGS if flag.panel not in OF_NETWORK)],
    bases=(NetworkOptions,),
    frozen=True,
)


class ExperimentOptions(_Experiment):  # type: ignore[misc, valid-type]
    """Options of an experiment: ``task``, and a field for each of :data:`FLAGS`.

    Attributes:
        layer: Structure of the weight matrices inside the blocks (`phmrun layers`; default: dense); options: --set
            layer.rank=16.
        n: Order n of --layer phm: 1/n of the dense parameters.
        budget: Fraction of the dense parameters of --layer low-rank, monarch …: 1/4 or 0.25.
        embedding: Structure of the embedding tables, or an embedding such as define; options: --set embedding.n=4
            (default: dense).
        output: Structure of the output layer (default: dense).
        model: Network, for tasks with several: transformer, lstm, hf … (default: the task's).
        preset: Size of the model, such as tiny, small or base (default: the task's).
        plugin: Python file that registers your own layers, tasks, metrics …; may be repeated.
        data: Dataset (`phmrun data list`; default: the built-in corpus).
        prefix: Common prefix of your parallel files: corpus/ for corpus/train.en, corpus/train.de … Files of other
            names: --set data.train_source=a.en --set data.train_target=a.de.
        train: Your training file, for tasks with one file per split (`phmrun schema TASK --files`).
        dev: Your validation file.
        test: Your test file.
        source: Source language or style: en (default: the task's).
        target: Target language or style: de (default: the task's).
        seed: Random seed (initialization, data order, dropout; default: 1).
        max_steps: Maximum number of optimizer steps; 0 scores a folder as it is (default: the task's).
        max_epochs: Maximum number of epochs (default: the task's).
        max_time: Time limit: HH:MM:SS (default: no limit).
        lr: Peak learning rate (default: the task's).
        batch_size: Size of a micro-batch in target tokens, or in sentences with --set batch.unit=sentences (default:
            the task's).
        precision: Floating-point format: 32 (default), bf16-mixed, 16-mixed, 64 bits.
        config: YAML file that overrides the task's defaults; may be repeated, later files override earlier ones.
        set_: Any configuration key (`phmrun schema TASK`): --set model.dropout=0.3. Overrides --config; repeatable.
        threads: CPU threads for arithmetic; 0: all free cores (default: 0).
        wandb: Weights & Biases: offline, online, disabled (default: WANDB_MODE or offline).
    """


NetworkOptions.__doc__ = ExperimentOptions.__doc__  # the texts of the options


LATEST = "latest"
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Run id, unique prefix of one, path, or latest (ended last).",
        autocompletion=completion.runs,
    ),
]
RunsDirectory = Annotated[
    Path,
    typer.Option(
        "--runs-dir", envvar="PHMRUN_RUNS", help="Directory of the runs.", rich_help_panel=RUNS, file_okay=False
    ),
]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Python file that registers your own layers, tasks, metrics …; may be repeated.",
        rich_help_panel=LAYER,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output.", rich_help_panel=LOGGING)
]


def choose_run(runs_dir: Path, reference: str, *, lenient: bool = False) -> "Run":
    """Return the run that the user names.

    Its name and state are printed on standard error.

    Raises:
        PhmrunError: No run fits, or more than one (exit 2); unless lenient, its status is damaged (exit 3).
    """
    from phmrun.ledger import Run

    run = Run.find(runs_dir, reference, lenient=lenient)
    note(f"run {run.id} ({run.state if lenient else run.status.state})")
    return run


def resolve_options(options: NetworkOptions, *, parent: Path | None = None) -> "Request":
    """Return the configuration that the options describe, with origins.

    Other options override ``--set``, which overrides ``--config``. ``parent`` is the configuration file of a run to
    start from.

    Raises:
        PhmrunError: Names or keys are unknown, or values invalid; it lists all of the configuration's errors.
    """
    from phmrun.experiments import resolve_request

    settings_ = [*settings(options.set_ or []), *options.explicit()]
    return resolve_request(
        options.task, settings_, configs=options.config or [], plugins=options.plugin or [], parent=parent
    )


def settings(texts: list[str], section: str | None = None) -> list[tuple[str, Any, str]]:
    """Return (dotted key, value, label) of each ``--set``.

    Values are read as YAML.

    Args:
        texts: Values of ``--set``: ``key=value``.
        section: The only section that may be set; its name is removed from the keys. None: any section.

    Raises:
        ConfigError: Texts are not of the form key=value, not of that section, or not YAML; it lists all of them.
    """
    from phmrun.config import ConfigError
    from phmrun.config.problems import Problem
    from phmrun.documents import parse_yaml

    parsed, problems = [], []
    for text in texts:
        key, equals, value = text.partition("=")
        label = f"--set {text}"
        # A key such as "a..b" or " a" is never valid.
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


of_decoding = partial(typer.Option, rich_help_panel="Decoding")
Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="Weights: best, last, or a checkpoint file (default: those that training scored).", rich_help_panel=RUNS
    ),
]
Average = Annotated[
    int | None,
    typer.Option(
        min=0, help="Number of last checkpoints to average; 0: none (default: the run's).", rich_help_panel=RUNS
    ),
]
Device = Annotated[
    str, typer.Option(help="Device: auto (a GPU if there is one), cpu, cuda, cuda:1 …", rich_help_panel=HARDWARE)
]


@dataclasses.dataclass(frozen=True)
class DecodingOptions:
    """Options for using a trained run.

    The defaults are those of the run's configuration.

    Attributes:
        beam: Beam size, in hypotheses per sentence; 1: greedy (default: the run's).
        alpha: Exponent α of the length penalty (default: the run's).
        engine: Decoder: torch or ctranslate2 (default: the run's).
        quantization: Quantization of --engine ctranslate2: none, int8, int8_float32, bfloat16, float16; with torch,
            bfloat16 or none (default: the run's).
        set_: Any key of the configuration's decoding section (`phmrun schema TASK`); may be repeated.
        batch_size: Sentences per batch (default: the run's).
    """

    beam: Annotated[int | None, of_decoding(min=1)] = None
    alpha: Annotated[float | None, of_decoding(min=0)] = None
    engine: Annotated[str | None, of_decoding()] = None
    quantization: Annotated[str | None, of_decoding()] = None
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="decoding.KEY=VALUE", rich_help_panel=CONFIG)] = (
        None
    )
    checkpoint: Checkpoint = None
    average: Average = None
    batch_size: Annotated[int | None, typer.Option(min=1, rich_help_panel=HARDWARE)] = None
    device: Device = "auto"
    plugin: Plugin = None

    def arguments(self, **more: Any) -> dict[str, Any]:
        """Return decoding, checkpoint, average, batch_size and device, for a predictor.

        Decoding holds the keys of the decoding section that the user set. ``more`` are such options of one verb only.
        Options and ``more`` override ``--set``; those that are None are left out.

        Raises:
            ConfigError: ``--set`` names a key outside the decoding section.
        """
        from_set = {key: value for key, value, _ in settings(self.set_ or [], "decoding")}
        flags = {name: getattr(self, name) for name in ("beam", "alpha", "engine", "quantization")} | more
        decoding = {**from_set, **{name: value for name, value in flags.items() if value is not None}}
        others = {name: getattr(self, name) for name in ("checkpoint", "average", "batch_size", "device")}
        return {"decoding": decoding, **others}
