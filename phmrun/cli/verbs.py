"""All verbs of ``phmrun``: what the list says of each, and where it is loaded from when it is called."""

import importlib
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperGroup

from phmrun.errors import unknown

EXPERIMENTS, INSPECT, MACHINE, MIRROR = "Experiments", "Inspect", "Machine", "W&B"


class Verbs(TyperGroup):
    """Verbs; where one is asked for that is none of them, the error names them all."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the arguments begin with."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            shown = [name for name, verb in self.commands.items() if not verb.hidden]
            raise unknown("command", args[0], shown, where=ctx.command_path if ctx.parent else None)
        return super().resolve_command(ctx, args)


class Verb(NamedTuple):
    """A command, whose module is loaded only when it is called: the list of all verbs is shown sooner.

    Attributes:
        name: As it is called.
        panel: What it is listed under.
        place: Module in ``phmrun.cli`` and function or ``typer.Typer`` in it.
        summary: The first paragraph of its help.
    """

    name: str
    panel: str
    place: str
    summary: str

    def load(self) -> Any:
        """The command itself."""
        module_name, attribute = self.place.split(".")
        module = importlib.import_module(f"phmrun.cli.{module_name}")
        target, alone = getattr(module, attribute), typer.Typer(add_completion=False)
        if isinstance(target, typer.Typer):
            own: dict[str, Any] = {} if isinstance(target.info.cls, type) else {"cls": Verbs}
            alone.add_typer(target, name=self.name, rich_help_panel=self.panel, **own)
        else:
            alone.command(self.name, rich_help_panel=self.panel, epilog=getattr(module, "EPILOG", None))(target)
        return typer.main.get_group(alone).commands[self.name]


VERBS = (
    Verb(
        "train",
        EXPERIMENTS,
        "train.train",
        "Trains one model and scores it, or continues where a former call of the same command stopped.",
    ),
    Verb(
        "table",
        EXPERIMENTS,
        "table.table",
        "Shows scores by row and column: mean and deviation over seeds, missing cells as –, signatures below.",
    ),
    Verb(
        "claims",
        EXPERIMENTS,
        "claims.claims",
        "Says of each claim of a paper whether it holds: with effect, 95 % interval, seeds, reduction and command.",
    ),
    Verb(
        "report",
        EXPERIMENTS,
        "report.report",
        "Writes a page with table, pictures, runs, settings and environment: HTML that needs no network, and Markdown.",
    ),
    Verb(
        "eval",
        EXPERIMENTS,
        "eval.evaluate",
        "Scores a run and writes metrics.json and the predictions into its directory.",
    ),
    Verb(
        "predict",
        EXPERIMENTS,
        "predict.predict",
        "Reads text, line by line, and writes the predictions for it to standard output.",
    ),
    Verb(
        "import",
        EXPERIMENTS,
        "import_model.import_model",
        "Makes a run of somebody else's checkpoint, which eval, predict, export and compress take like one of ours.",
    ),
    Verb(
        "compress",
        EXPERIMENTS,
        "compress.compress",
        "Fits a structure to a trained run's matrices, shows what they keep, and makes a new run of them.",
    ),
    Verb(
        "export",
        EXPERIMENTS,
        "export.export",
        "Writes a trained model in another format, and checks that the file gives the same outputs.",
    ),
    Verb(
        "sweep", EXPERIMENTS, "sweep.app", "Many experiments from one file: `phmrun sweep FILE` runs what is not done."
    ),
    Verb(
        "count-params",
        INSPECT,
        "count_params.count_params",
        "Counts the parameters of a model as it would be trained, beside the dense one; no weight is allocated.",
    ),
    Verb(
        "schema",
        INSPECT,
        "schema.schema",
        "Prints the JSON Schema of a task's configuration files, or of sweep files: keys, types, bounds, meanings.",
    ),
    Verb("layers", INSPECT, "layers.app", "Weight structures and embeddings: formulas, options, constraints."),
    Verb("data", INSPECT, "data.app", "List, inspect, fetch, import and check datasets."),
    Verb("runs", INSPECT, "runs.app", "Run directories: list, show, compare, archive, remove."),
    Verb("plot", INSPECT, "plot.app", "Pictures of runs, PNG, SVG or PDF."),
    Verb(
        "results",
        INSPECT,
        "results.app",
        "Finished runs as small files without weights, which a project can carry: tables are made of them.",
    ),
    Verb(
        "doctor", MACHINE, "doctor.doctor", "Checks Python, torch, devices, data, the run directory, W&B and the disk."
    ),
    Verb("bench", MACHINE, "bench.app", "Speed of layers and of whole models, against others in the same run."),
    Verb("sync", MIRROR, "sync.sync", "Replays the history of runs, each as one W&B run of the same name."),
)
_BY_NAME = {verb.name: verb for verb in VERBS}


class Unloaded(Verbs):
    """Verbs of which ``commands`` has no more than the list shows."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the arguments begin with, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _BY_NAME[cast(str, name)].load(), rest
