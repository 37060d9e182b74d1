"""Options that several verbs share, each declared once, and the configuration that they describe.

A group of options is a dataclass whose fields are Typer parameters; those of an experiment are made of a table.
``spread`` turns a verb that takes such a group into one that takes its fields, so that Typer sees them all and the
verb sees one object.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from phmrun.cli import completion
from phmrun.errors import PhmrunError

if TYPE_CHECKING:
    from phmrun.experiments import Request

DATA, LAYER, OPTIMISATION, CONFIG = "Data", "Layer", "Optimisation", "Configuration"
HARDWARE, LOGGING, RUNS = "Hardware", "Logging", "Run"


class Flag(NamedTuple):
    """An option of every verb that takes an experiment; left out, it is ``None``.

    Attributes:
        panel: Where ``--help`` shows it.
        name: The parameter's: ``max_steps`` is ``--max-steps``, and ``set_`` is ``--set``.
        kind: Its type.
        key: The dotted configuration key that it sets; ``None``: none by itself.
        text: What ``--help`` says of it.
        complete: What the shell completes.
        metavar: What ``--help`` calls its value.
    """

    panel: str
    name: str
    kind: Any
    key: str | None
    text: str
    complete: Callable[..., Any] | None = None
    metavar: str | None = None

    @property
    def option(self) -> str:
        """As it is written on the command line."""
        return f"--{self.name.removesuffix('_').replace('_', '-')}"

    @property
    def annotation(self) -> Any:
        """The parameter's, as Typer reads it."""
        shown = typer.Option(
            self.option, help=self.text, rich_help_panel=self.panel, autocompletion=self.complete, metavar=self.metavar
        )
        return Annotated[self.kind | None, shown]


_TABLE: Mapping[str, Sequence[tuple[Any, ...]]] = {
    LAYER: (
        (
            "layer",
            str,
            "layer.structure",
            "Structure of the weight matrices inside the blocks (default: dense).",
            completion.layers,
        ),
        ("n", int, "layer.n", "Order n of --layer: 1/n of the parameters."),
        (
            "embedding",
            str,
            "embedding.structure",
            "Structure of the embedding tables, or an embedding such as define (default: dense); its options: "
            "--set embedding.n=4.",
            completion.embeddings,
        ),
        ("output", str, "output.structure", "Structure of the output layer (default: dense).", completion.layers),
        (
            "model",
            str,
            "model.network",
            "Network, for tasks with several (default: the task's first).",
            completion.networks,
        ),
        ("preset", str, "model.preset", "Size of the model: tiny (default), small, base.", completion.presets),
        ("plugin", list[Path], None, "Python file that registers your own layers; may be repeated.", None, "FILE"),
    ),
    DATA: (
        ("data", str, "data.name", "Dataset (`phmrun data list`; default: the built-in corpus).", completion.datasets),
        ("train_src", str, "data.train_source", "Your own training text, one sentence a line, plain or .gz."),
        ("train_tgt", str, "data.train_target", "Its translation, line by line."),
        ("dev_src", str, "data.dev_source", "Validation text."),
        ("dev_tgt", str, "data.dev_target", "Its translation."),
        ("test_src", str, "data.test_source", "Test text."),
        ("test_tgt", str, "data.test_target", "Its translation."),
        (
            "prefix",
            str,
            "data.prefix",
            "How the names of your files start: corpus/ for corpus/train.en, corpus/train.de, corpus/dev.en …",
        ),
        ("train", str, "data.train", "Your own training data, for tasks with one file per split.", None, "FILE"),
        ("dev", str, "data.dev", "Validation data.", None, "FILE"),
        ("test", str, "data.test", "Test data.", None, "FILE"),
        (
            "train_fraction",
            str,
            "data.train_fraction",
            "Share of the training data to learn from, as 1/4 (default: all).",
        ),
        ("source", str, "data.source", "Language or style to start from (default: the task's)."),
        ("target", str, "data.target", "Language or style to arrive at (default: the task's)."),
    ),
    OPTIMISATION: (
        ("seed", int, "seed", "Of initialisation, order and dropout (default: 1)."),
        ("max_steps", int, "training.max_steps", "Stop after so many optimizer steps (default: the task's)."),
        ("max_epochs", int, "training.max_epochs", "Stop after so many passes over the data (default: none)."),
        ("max_time", str, "training.max_time", "Stop after HH:MM:SS or so many minutes (default: none)."),
        ("lr", float, "training.optimizer.lr", "Peak learning rate (default: the task's)."),
        (
            "batch_size",
            int,
            "batch.size",
            "Target tokens, or sentences with --set batch.unit=sentences, per micro-batch (default: the task's).",
        ),
        ("accumulate", int, "training.accumulate", "Micro-batches per optimizer step (default: 1)."),
        ("precision", str, "training.precision", "Bits: 32 (default), bf16-mixed, 16-mixed, 64."),
    ),
    CONFIG: (
        (
            "config",
            list[str],
            None,
            "YAML file laid over the task's defaults; may be repeated, the last one wins.",
            completion.configs,
            "FILE",
        ),
        (
            "set_",
            list[str],
            None,
            "Any key of the configuration, as in --set model.dropout=0.3; may be repeated, over --config.",
            completion.keys,
            "KEY=VALUE",
        ),
    ),
    HARDWARE: (
        ("accelerator", str, "hardware.accelerator", "auto (default), cpu, gpu, cuda, mps, tpu."),
        ("devices", str, "hardware.devices", 'How many devices, or which, as "0,2"; auto: all (default: 1).'),
        ("nodes", int, "hardware.nodes", "Machines (default: 1)."),
        ("strategy", str, "hardware.strategy", "auto (default), ddp …"),
        ("workers", int, "hardware.workers", "Processes that load data, per training process (default: 0)."),
        ("threads", int, "hardware.threads", "CPU threads for arithmetic; 0: all free cores (default)."),
        ("deterministic", bool, "hardware.deterministic", "Refuse operations that differ from call to call."),
    ),
    LOGGING: (
        ("wandb", str, "logging.wandb", "offline (default, or WANDB_MODE), online, disabled."),
        ("wandb_project", str, "logging.project", "Weights & Biases project (default: phmrun)."),
    ),
}
FLAGS = tuple(Flag(panel, *row) for panel, rows in _TABLE.items() for row in rows)


def spread(verb: Callable[..., None]) -> Callable[..., None]:
    """Replaces each parameter of ``verb`` whose type is a dataclass by the fields of that dataclass."""
    hints = get_type_hints(verb, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if isinstance(hint, type) and dataclasses.is_dataclass(hint)}
    parameters = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name not in groups:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name]))
            continue
        group = groups[parameter.name]
        fields = get_type_hints(group, include_extras=True)
        for field in dataclasses.fields(group):
            default = parameter.empty if field.default is dataclasses.MISSING else field.default
            parameters.append(
                inspect.Parameter(field.name, parameter.KEYWORD_ONLY, default=default, annotation=fields[field.name])
            )

    def spread_verb(**given: Any) -> None:
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            given[name] = group(**{field: given.pop(field) for field in fields})
        verb(**given)

    spread_verb.__name__, spread_verb.__doc__, spread_verb.__module__ = verb.__name__, verb.__doc__, verb.__module__
    spread_verb.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    # Typer would look up those of ``given`` and of the result, and not find them among the parameters.
    spread_verb.__annotations__ = {}
    return spread_verb


def optional(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that lets a verb do without its parameter ``name``, which is then an empty text."""

    def relax(verb: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(verb)
        parameters = [
            parameter.replace(default="") if parameter.name == name else parameter
            for parameter in signature.parameters.values()
        ]
        verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return verb

    return relax


TaskArgument = Annotated[
    str, typer.Argument(help="What is learnt: nmt, style, sva, nli, parse, lm.", autocompletion=completion.tasks)
]
_Given = dataclasses.make_dataclass(
    "_Given",
    [("task", TaskArgument), *((flag.name, flag.annotation, dataclasses.field(default=None)) for flag in FLAGS)],
    frozen=True,
)


class ExperimentOptions(_Given):  # type: ignore[misc, valid-type]
    """Everything that says what an experiment is: ``task``, and a field for each of :data:`FLAGS`."""

    def explicit(self) -> dict[str, tuple[str, Any]]:
        """The flags that were given: configuration key to the flag's name and value."""
        given = ((flag, getattr(self, flag.name)) for flag in FLAGS)
        return {flag.key: (flag.option, value) for flag, value in given if flag.key and value is not None}


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, its unique beginning, or a path.", autocompletion=completion.runs)
]
RunsDirectory = Annotated[
    Path,
    typer.Option(
        "--runs-dir", envvar="PHMRUN_RUNS", help="Where run directories are.", rich_help_panel=RUNS, file_okay=False
    ),
]
DecidedSeeds = Annotated[
    int | None,
    typer.Option(
        "--max-seeds",
        min=5,
        help="Of a sweep that --until-decided ran in another directory of runs: the --max-seeds it was given; here it "
        "is on record.",
    ),
]
Plugin = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Python file with layers, tasks, metrics … of your own; may be repeated.",
        rich_help_panel=LAYER,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.", rich_help_panel=LOGGING)]


def resolve_options(options: ExperimentOptions, *, parent: Path | None = None) -> "Request":
    """The configuration that the options describe; flags are stronger than ``--set``, and that than ``--config``.

    Raises:
        PhmrunError: Unknown names, unknown keys, bad values; all those of the configuration at once.
    """
    from phmrun.experiments import resolve_request

    flags = [(key, value, flag) for key, (flag, value) in options.explicit().items()]
    given = [*settings(options.set_ or []), *flags]
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
    from phmrun.config import ConfigError, Problem
    from phmrun.documents import parse_yaml

    parsed, problems = [], []
    for text in texts:
        key, equals, value = text.partition("=")
        label = f"--set {text}"
        # A key such as "a..b" or " a" would become one that nobody could ever name.
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
