"""The entry point ``phmrun``: all verbs, and what becomes of a mistake."""

import errno
import importlib
import io
import os
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple, NoReturn, cast

import typer
from typer.core import TyperGroup

from phmrun import __version__
from phmrun.cli import console
from phmrun.cli.console import Verbosity
from phmrun.errors import ExitCode, Interrupted, PhmrunError, unknown
from phmrun.files import disk_error

AGAIN = 0.05
"""Seconds after which a signal that was lost comes again."""
_ANYWHERE = ("--debug", "--verbose", "-v", "--quiet", "-q")


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


_SUMMARIES: Mapping[str, Mapping[str, str]] = {
    "Experiments": {
        "train": "Trains one model and scores it, or continues where a former call of the same command stopped.",
        "table": "Shows scores by row and column: mean and deviation over seeds, missing cells as –, signatures below.",
        "decide": "Judge systems by the scores of their seeds: different, equivalent, not worse, undecided or "
        "untrained.",
        "claims": "Says of each claim of a paper whether it holds: with effect, 95 % interval, seeds, reduction "
        "and command.",
        "report": "Writes a page with table, pictures, runs, settings and environment: HTML that needs no "
        "network, and Markdown.",
        "eval": "Scores a run and writes metrics.json and the predictions into its directory.",
        "predict": "Reads text, line by line, and writes the predictions for it to standard output.",
        "import": "Makes a run of somebody else's checkpoint, which eval, predict, export and compress take like "
        "one of ours.",
        "compress": "Fits a structure to a trained run's matrices, shows what they keep, and makes a new run of them.",
        "export": "Writes a trained model in another format, and checks that the file gives the same outputs.",
        "sweep": "Many experiments from one file: `phmrun sweep FILE` runs what is not done.",
    },
    "Inspect": {
        "count-params": "Counts the parameters of a model as it would be trained, beside the dense one; no weight is "
        "allocated.",
        "schema": "Prints the JSON Schema of a task's configuration files, or of sweep files: keys, types, "
        "bounds, meanings.",
        "layers": "Weight structures and embeddings: formulas, options, constraints.",
        "data": "List, inspect, fetch, import and check datasets.",
        "runs": "Run directories: list, show, compare, archive, remove.",
        "new": "Write a new structure, task, network or metric with its test: a working template to change.",
        "verify": "Check every link from raw data to the printed number, and name the first broken one (exit code 3).",
        "plot": "Pictures of runs, PNG, SVG or PDF.",
        "results": "Finished runs as small files without weights, which a project can carry: tables are made of them.",
    },
    "Machine": {
        "doctor": "Checks Python, torch, devices, data, the run directory, W&B and the disk.",
        "bench": "Speed of layers and of whole models, against others in the same run.",
    },
    "W&B": {
        "sync": "Replays the history of runs, each as one W&B run of the same name.",
    },
}
"""By panel and verb."""
_PLACES = {
    "eval": "eval.evaluate",
    "import": "import_model.import_model",
    **{name: f"{name}.app" for name in ("sweep", "layers", "data", "runs", "plot", "results", "bench")},
}
"""Where verbs are that are no functions of their own name in a module of that name."""
VERBS = tuple(
    Verb(name, panel, _PLACES.get(name, f"{name}.{name}".replace("-", "_")), summary)
    for panel, summaries in _SUMMARIES.items()
    for name, summary in summaries.items()
)
_BY_NAME = {verb.name: verb for verb in VERBS}


class Unloaded(Verbs):
    """Verbs of which ``commands`` has no more than the list shows."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that the arguments begin with, loaded."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _BY_NAME[cast(str, name)].load(), rest


app = typer.Typer(
    cls=Unloaded,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The options -v, -q and --debug may stand anywhere. Exit codes: 0 fine, 1 a bug, 2 usage, 3 data, "
    "4 training failed, 5 some runs of a sweep failed, 130 interrupted by Ctrl-C, 143 by SIGTERM.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"phmrun {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but results and warnings.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Replace a network's weight matrices by a structure with 1/n of the parameters: what is lost, what is gained?"""
    console.set_verbosity(Verbosity.QUIET if quiet else Verbosity.VERBOSE if verbose else Verbosity.NORMAL)


for _verb in VERBS:
    app.command(_verb.name, rich_help_panel=_verb.panel, help=_verb.summary)(lambda: None)


def whole() -> TyperGroup:
    """The command line with all verbs loaded, for whoever walks through it."""
    group = typer.main.get_group(app)
    group.commands = {verb.name: verb.load() for verb in VERBS}
    return group


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and ends the process with the exit code of ``phmrun.errors.ExitCode``.

    Args:
        arguments: What follows the program's name; by default that of this process.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may be no text
    given = list(sys.argv[1:] if arguments is None else arguments)
    moved = _globals_first(given)
    _listen_to_sigterm()
    try:
        with _lost_interruptions_repeated():
            app(moved, prog_name="phmrun")
    except SystemExit as end:
        if (interruption := _interruption(end)) is not None:  # Typer has made an exit of it
            sys.exit(_report(interruption, given))
        sys.exit(_flushed(end.code))
    except BaseException as error:  # noqa: BLE001  (the one place where every error ends)
        if "--debug" in moved:
            traceback.print_exception(error)
        sys.exit(_report(error, given))
    sys.exit(ExitCode.OK)


def _globals_first(arguments: list[str]) -> list[str]:
    """The arguments with the options that are valid everywhere moved before the verb; ``--`` ends the search."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head, tail = arguments[:end], arguments[end:]
    moved = [argument for argument in head if argument in _ANYWHERE]
    return [*moved, *(argument for argument in head if argument not in _ANYWHERE), *tail]


def _interruption(end: SystemExit) -> KeyboardInterrupt | None:
    """The interruption by a signal that lies behind an exit, if one does."""
    error: BaseException | None = end
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _listen_to_sigterm() -> None:
    """Lets SIGTERM end the program as Ctrl-C does: what has begun is brought to an end, and the reason is written."""

    def end(which: int, frame: object) -> NoReturn:
        raise Interrupted(which)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)


@contextmanager
def _lost_interruptions_repeated() -> Iterator[None]:
    """Sends a signal again where its exception came up in a destructor or a callback, which nothing leaves.

    Python tells of such an exception, drops it and goes on, so that one Ctrl-C in twenty would have no effect.
    """
    tell = sys.unraisablehook

    def hear(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            tell(lost)
            return
        which = lost.exc_value.which if isinstance(lost.exc_value, Interrupted) else signal.SIGINT
        # From another thread and a little later: sent here, it would come up in the same destructor and be lost again.
        again = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, which))
        again.daemon = True
        again.start()

    sys.unraisablehook = hear
    try:
        yield
    finally:
        sys.unraisablehook = tell


def _report(error: BaseException, arguments: Sequence[str]) -> int:
    """Says what went wrong in the user's terms, and returns the exit code."""
    if isinstance(error, PhmrunError):
        console.print_error(error)
        return error.code
    if isinstance(error, KeyboardInterrupt):
        outcome = error.outcome if isinstance(error, Interrupted) else ""
        command = shlex.join(["phmrun", *arguments])
        print(f"\n{outcome}; to continue: {command}" if outcome else "\ninterrupted", file=sys.stderr)
        return error.code if isinstance(error, Interrupted) else ExitCode.INTERRUPTED
    # Whoever read the output has left, as `head` does: nothing went wrong.
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _discard_output()
        return ExitCode.OK
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        console.print_error(PhmrunError("the name of a file is too long", where=f"{str(error.filename)[:100]} …"))
        return ExitCode.USAGE
    if isinstance(error, OSError) and (found := disk_error(error)):
        console.print_error(found)
        return found.code
    # torch's lack of memory is recognised by name, since torch may not be loaded.
    lack = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if lack or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        hint = "Give a smaller --batch-size with a larger --accumulate, or a smaller --preset. "
        hint += "A batch holds at least one sentence: if one is very long, split it or leave it out."
        console.print_error(PhmrunError("the memory is not enough", hint=hint, code=ExitCode.TRAINING))
        return ExitCode.TRAINING
    summary = " ".join(str(error).split())[:300]
    print(
        f"phmrun: this is a bug: {type(error).__name__}: {summary} (run the command again with --debug to see where)",
        file=sys.stderr,
    )
    return ExitCode.BUG


def _flushed(code: str | int | None) -> str | int | None:
    """The exit code, once what was printed has gone out; a reader that has left is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
    return code


def _discard_output() -> None:
    """Points standard output at nothing, so that the interpreter's last flush does not complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
