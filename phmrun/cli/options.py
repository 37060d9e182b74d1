"""Options that several verbs share, each declared once.

A group of options is a dataclass whose fields are Typer parameters. ``spread`` turns a verb that takes such a group
into one that takes its fields, so that Typer sees them all and the verb sees one typed object.
"""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from phmrun.cli import completion

DATA, LAYER, OPTIMISATION, CONFIG = "Data", "Layer", "Optimisation", "Configuration"
HARDWARE, LOGGING, RUNS = "Hardware", "Logging", "Run"


@dataclass(frozen=True)
class Key:
    """The dotted configuration key that an option sets."""

    name: str


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


@dataclass(frozen=True)
class ExperimentOptions:
    """Everything that says what an experiment is; an option left out is None or empty."""

    task: Annotated[
        str, typer.Argument(help="What is learnt: nmt, style, sva, nli, parse, lm.", autocompletion=completion.tasks)
    ]

    layer: Annotated[
        str | None,
        Key("layer.structure"),
        typer.Option(
            help="Structure of the weight matrices inside the blocks (default: dense).",
            rich_help_panel=LAYER,
            autocompletion=completion.layers,
        ),
    ] = None
    n: Annotated[
        int | None,
        Key("layer.n"),
        typer.Option("--n", help="Order n of --layer: 1/n of the parameters.", rich_help_panel=LAYER),
    ] = None
    embedding: Annotated[
        str | None,
        Key("embedding.structure"),
        typer.Option(
            help="Structure of the embedding tables, or an embedding such as define (default: dense); its options: "
            "--set embedding.n=4.",
            rich_help_panel=LAYER,
            autocompletion=completion.embeddings,
        ),
    ] = None
    output: Annotated[
        str | None,
        Key("output.structure"),
        typer.Option(
            help="Structure of the output layer (default: dense).",
            rich_help_panel=LAYER,
            autocompletion=completion.layers,
        ),
    ] = None
    model: Annotated[
        str | None,
        Key("model.network"),
        typer.Option(
            help="Network, for tasks with several (default: the task's first).",
            rich_help_panel=LAYER,
            autocompletion=completion.networks,
        ),
    ] = None
    preset: Annotated[
        str | None,
        Key("model.preset"),
        typer.Option(
            help="Size of the model: tiny (default), small, base.",
            rich_help_panel=LAYER,
            autocompletion=completion.presets,
        ),
    ] = None
    plugin: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Python file that registers your own layers; may be repeated.", rich_help_panel=LAYER
        ),
    ] = None

    data: Annotated[
        str | None,
        Key("data.name"),
        typer.Option(
            help="Dataset (`phmrun data list`; default: the built-in corpus).",
            rich_help_panel=DATA,
            autocompletion=completion.datasets,
        ),
    ] = None
    train_src: Annotated[
        str | None,
        Key("data.train_source"),
        typer.Option(help="Your own training text, one sentence a line, plain or .gz.", rich_help_panel=DATA),
    ] = None
    train_tgt: Annotated[
        str | None,
        Key("data.train_target"),
        typer.Option(help="Its translation, line by line.", rich_help_panel=DATA),
    ] = None
    dev_src: Annotated[
        str | None, Key("data.dev_source"), typer.Option(help="Validation text.", rich_help_panel=DATA)
    ] = None
    dev_tgt: Annotated[
        str | None, Key("data.dev_target"), typer.Option(help="Its translation.", rich_help_panel=DATA)
    ] = None
    test_src: Annotated[str | None, Key("data.test_source"), typer.Option(help="Test text.", rich_help_panel=DATA)] = (
        None
    )
    test_tgt: Annotated[
        str | None, Key("data.test_target"), typer.Option(help="Its translation.", rich_help_panel=DATA)
    ] = None
    prefix: Annotated[
        str | None,
        Key("data.prefix"),
        typer.Option(
            help="How the names of your files start: corpus/ for corpus/train.en, corpus/train.de, corpus/dev.en …",
            rich_help_panel=DATA,
        ),
    ] = None
    train: Annotated[
        str | None,
        Key("data.train"),
        typer.Option(
            metavar="FILE", help="Your own training data, for tasks with one file per split.", rich_help_panel=DATA
        ),
    ] = None
    dev: Annotated[
        str | None, Key("data.dev"), typer.Option(metavar="FILE", help="Validation data.", rich_help_panel=DATA)
    ] = None
    test: Annotated[
        str | None, Key("data.test"), typer.Option(metavar="FILE", help="Test data.", rich_help_panel=DATA)
    ] = None
    train_fraction: Annotated[
        str | None,
        Key("data.train_fraction"),
        typer.Option(help="Share of the training data to learn from, as 1/4 (default: all).", rich_help_panel=DATA),
    ] = None
    source: Annotated[
        str | None,
        Key("data.source"),
        typer.Option("--source", help="Language or style to start from (default: the task's).", rich_help_panel=DATA),
    ] = None
    target: Annotated[
        str | None,
        Key("data.target"),
        typer.Option("--target", help="Language or style to arrive at (default: the task's).", rich_help_panel=DATA),
    ] = None

    seed: Annotated[
        int | None,
        Key("seed"),
        typer.Option(help="Of initialisation, order and dropout (default: 1).", rich_help_panel=OPTIMISATION),
    ] = None
    max_steps: Annotated[
        int | None,
        Key("training.max_steps"),
        typer.Option(help="Stop after so many optimizer steps (default: the task's).", rich_help_panel=OPTIMISATION),
    ] = None
    max_epochs: Annotated[
        int | None,
        Key("training.max_epochs"),
        typer.Option(help="Stop after so many passes over the data (default: none).", rich_help_panel=OPTIMISATION),
    ] = None
    max_time: Annotated[
        str | None,
        Key("training.max_time"),
        typer.Option(help="Stop after HH:MM:SS or so many minutes (default: none).", rich_help_panel=OPTIMISATION),
    ] = None
    lr: Annotated[
        float | None,
        Key("training.optimizer.lr"),
        typer.Option(help="Peak learning rate (default: the task's).", rich_help_panel=OPTIMISATION),
    ] = None
    batch_size: Annotated[
        int | None,
        Key("batch.size"),
        typer.Option(
            help="Target tokens, or sentences with --set batch.unit=sentences, per micro-batch (default: the task's).",
            rich_help_panel=OPTIMISATION,
        ),
    ] = None
    accumulate: Annotated[
        int | None,
        Key("training.accumulate"),
        typer.Option(help="Micro-batches per optimizer step (default: 1).", rich_help_panel=OPTIMISATION),
    ] = None
    precision: Annotated[
        str | None,
        Key("training.precision"),
        typer.Option(help="Bits: 32 (default), bf16-mixed, 16-mixed, 64.", rich_help_panel=OPTIMISATION),
    ] = None

    config: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="YAML file laid over the task's defaults; may be repeated, the last one wins.",
            rich_help_panel=CONFIG,
            autocompletion=completion.configs,
        ),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any key of the configuration, as in --set model.dropout=0.3; may be repeated, over --config.",
            rich_help_panel=CONFIG,
            autocompletion=completion.keys,
        ),
    ] = None

    accelerator: Annotated[
        str | None,
        Key("hardware.accelerator"),
        typer.Option(help="auto (default), cpu, gpu, cuda, mps, tpu.", rich_help_panel=HARDWARE),
    ] = None
    devices: Annotated[
        str | None,
        Key("hardware.devices"),
        typer.Option(help='How many devices, or which, as "0,2"; auto: all (default: 1).', rich_help_panel=HARDWARE),
    ] = None
    nodes: Annotated[
        int | None,
        Key("hardware.nodes"),
        typer.Option(help="Machines (default: 1).", rich_help_panel=HARDWARE),
    ] = None
    strategy: Annotated[
        str | None,
        Key("hardware.strategy"),
        typer.Option(help="auto (default), ddp …", rich_help_panel=HARDWARE),
    ] = None
    workers: Annotated[
        int | None,
        Key("hardware.workers"),
        typer.Option(help="Processes that load data, per training process (default: 0).", rich_help_panel=HARDWARE),
    ] = None
    threads: Annotated[
        int | None,
        Key("hardware.threads"),
        typer.Option(help="CPU threads for arithmetic; 0: torch's own choice (default).", rich_help_panel=HARDWARE),
    ] = None
    deterministic: Annotated[
        bool | None,
        Key("hardware.deterministic"),
        typer.Option(
            "--deterministic", help="Refuse operations that differ from call to call.", rich_help_panel=HARDWARE
        ),
    ] = None

    wandb: Annotated[
        str | None,
        Key("logging.wandb"),
        typer.Option(help="offline (default, or WANDB_MODE), online, disabled.", rich_help_panel=LOGGING),
    ] = None
    wandb_project: Annotated[
        str | None,
        Key("logging.project"),
        typer.Option(help="Weights & Biases project (default: phmrun).", rich_help_panel=LOGGING),
    ] = None

    def explicit(self) -> dict[str, tuple[str, Any]]:
        """The flags that were given: configuration key to the flag's name and value."""
        given = {}
        for name, hint in get_type_hints(type(self), include_extras=True).items():
            value = getattr(self, name)
            for mark in get_args(hint):
                if isinstance(mark, Key) and value is not None:
                    given[mark.name] = (f"--{name.replace('_', '-')}", value)
        return given


RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Run id, its unique beginning, or a path.", autocompletion=completion.runs),
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
        metavar="FILE", help="Python file that registers your own layers; may be repeated.", rich_help_panel=LAYER
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.", rich_help_panel=LOGGING)]
