"""Entry point ``phmrun``: all verbs, global options, and handling of errors."""

import errno
import importlib
import io
import itertools
import logging
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Any, NamedTuple, NoReturn, cast

import typer
from typer.core import TyperGroup

from phmrun import __version__
from phmrun.cli import console
from phmrun.cli.docstrings import VerbGroup
from phmrun.errors import ExitCode, Interrupted, PhmrunError, unknown
from phmrun.escaping import printable
from phmrun.files import disk_error
from phmrun.plugin_errors import plugin_error

AGAIN = 0.05
"""Delay before a lost signal is sent again, in seconds."""
LOADER = "<frozen importlib._bootstrap>"
"""File of the frames in which Python loads modules."""
_ANYWHERE = ("--debug", "--verbose", "-v", "--quiet", "-q")


class Verbs(TyperGroup):
    """Group of verbs.

    The error of an unknown verb lists all of them.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, command and remaining arguments of the verb called.

        Options, and unknown words during completion, are left to Click.

        Raises:
            PhmrunError: The verb is unknown; the error lists the visible ones.
        """
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            shown = [name for name, verb in self.commands.items() if not verb.hidden]
            raise unknown("command", args[0], shown, where=ctx.command_path if ctx.parent else None)
        return super().resolve_command(ctx, args)


class Verb(NamedTuple):
    """Verb whose module is imported when it is called.

    The list of all verbs therefore imports none of their modules.

    Attributes:
        name: Name on the command line.
        panel: Panel of ``phmrun --help``.
        place: Module in ``phmrun.cli`` and function, or ``typer.Typer``, as ``module.name``.
        summary: First paragraph of the verb's help.
    """

    name: str
    panel: str
    place: str
    summary: str

    def load(self) -> Any:
        """Import the verb's module, and return its click command.

        A Typer app becomes a group of commands, a function one command.
        """
        module_name, attribute = self.place.split(".")
        module = importlib.import_module(f"phmrun.cli.{module_name}")
        target, alone = getattr(module, attribute), VerbGroup(add_completion=False)
        if isinstance(target, typer.Typer):
            help_of_group: dict[str, Any] = {"help": self.summary, "no_args_is_help": True, "cls": Verbs}
            alone.add_typer(target, name=self.name, rich_help_panel=self.panel, **help_of_group)
        else:
            alone.command(self.name, rich_help_panel=self.panel)(target)
        return typer.main.get_group(alone).commands[self.name]


_SUMMARIES: Mapping[str, Mapping[str, str]] = {
    "Daily": {
        "train": "Train one model and score it.",
        "eval": "Score a trained run.",
        "predict": "Predict with a trained run: text line by line in, predictions to standard output.",
        "runs": "Run directories: list, show, compare, reproduce, remove.",
        "plot": "Plot runs and sweeps as PNG, SVG or PDF.",
        "data": "List, inspect, fetch and check datasets.",
        "new": "Write a plug-in file with a new structure, task, network or metric: a working example to change.",
    },
    "Compare": {
        "sweep": "Run many experiments from one file: `phmrun sweep FILE` runs all unfinished cells.",
        "table": "Show a table of scores: mean ± standard deviation over seeds, verdicts, signatures.",
        "decide": "Judge systems by the scores of their seeds: different, equivalent, not worse, undecided or "
        "untrained.",
        "report": "Write a report of a sweep or of runs (table, plots, settings, environment) as HTML and Markdown.",
        "count-params": "Count the parameters of a model, next to those of the dense model.",
        "layers": "Weight structures and embeddings: formulas, options, constraints.",
    },
    "Ship": {
        "import": "Import an external checkpoint as a run.",
        "compress": "Compress a trained run: replace its matrices by their nearest structured ones.",
        "shrink": "Find the cheapest way to make a trained model smaller.",
        "export": "Export a trained model to another format, and check that its outputs are the same.",
    },
    "Papers and records": {
        "results": "Store finished runs as small files without weights; tables are built from them.",
        "verify": "Check every link from raw data to the printed number, and name the first broken one (exit code 3).",
        "sync": "Upload runs to Weights & Biases, or write them for TensorBoard.",
        "schema": "Print the JSON Schema of a task's configuration or of sweep files: keys, types, defaults.",
    },
    "Machine": {
        "doctor": "Check Python, torch, devices, data, the run directory, W&B and the disk.",
        "bench": "Measure the speed of layers and models, relative to a baseline in the same process.",
    },
}
"""Summaries by panel and verb."""
_PLACES = {
    "eval": "eval.evaluate",
    "import": "import_model.import_model",
    **{name: f"{name}.app" for name in ("data", "runs", "plot", "results", "bench")},
}
"""Places of the verbs that are not functions of the same name in a module of that name."""
VERBS = tuple(
    Verb(name, panel, _PLACES.get(name, f"{name}.{name}".replace("-", "_")), summary)
    for panel, summaries in _SUMMARIES.items()
    for name, summary in summaries.items()
)
_BY_NAME = {verb.name: verb for verb in VERBS}


class Unloaded(Verbs):
    """Group of verbs that are imported when they are called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, imported command and remaining arguments of a verb.

        Raises:
            PhmrunError: The verb is unknown.
        """
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _BY_NAME[cast(str, name)].load(), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the verb.

        Raises:
            PhmrunError: A value is none of an option's choices; the error suggests the nearest.
        """
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if choice := re.search(r"'(.*)' is not one of '(.*)'", error.message):
                where = error.param.opts[0] if error.param else None
                raise unknown("value", choice[1], choice[2].split("', '"), where=where) from error
            raise


app = typer.Typer(
    cls=Unloaded,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The options -v, -q and --debug are valid anywhere on the command line. Exit codes: 0 success, 1 bug in "
    "phmrun (`decide --require`: not shown), 2 usage error, 3 data error, 4 training failed, 5 runs of a sweep failed, "
    "130 interrupted by Ctrl-C, 143 by SIGTERM.",
)


def _print_version(wanted: bool) -> None:
    """Print the version and exit, if ``wanted``; otherwise do nothing.

    Raises:
        typer.Exit: After the version.
    """
    if wanted:
        print(f"phmrun {__version__}")
        raise typer.Exit


@app.callback()
def everywhere(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print debug messages.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only results and warnings.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error.")] = False,
) -> None:
    """Train networks with structured weight matrices of 1/n of the parameters, and compare them with dense ones."""
    console.set_verbosity(logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO)


for _verb in VERBS:
    app.command(_verb.name, rich_help_panel=_verb.panel, help=_verb.summary)(lambda: None)


def whole() -> TyperGroup:
    """Return the command line with all verbs imported."""
    group = typer.main.get_group(app)
    group.commands = {verb.name: verb.load() for verb in VERBS}
    return group


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with a code of ``phmrun.errors.ExitCode``.

    With ``--debug``, the traceback of an error is printed, too.

    Args:
        arguments: Arguments without the program's name; None: those of this process.
    """
    _open_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file name may be invalid Unicode
    words = list(sys.argv[1:] if arguments is None else arguments)
    moved = _globals_first(words)
    code: str | int | None = ExitCode.OK
    _listen()
    try:
        _require_unicode(words)
        with _lost_interruptions_repeated():
            app(moved, prog_name="phmrun")
    except BaseException as error:  # noqa: BLE001  (the only place that handles all errors)
        interruption = _interruption(error) if isinstance(error, SystemExit) else None
        if isinstance(error, SystemExit) and not interruption and not plugin_error(error):
            # Click exits with 1 if the reader of the output has closed it, as `head` does; this is no error.
            code = ExitCode.OK if isinstance(error.__context__, BrokenPipeError) else error.code
        else:
            if "--debug" in moved:
                traceback.print_exception(error)
            code = _report(interruption or error, words)  # Typer turns an interruption into an exit
    sys.exit(_flushed(code))


class _Lossy(io.FileIO):
    """Standard error that drops what cannot be written, so that a full disk ends no run."""

    def write(self, data: Any) -> int:
        """Write bytes; return the number of those written or dropped."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


def _open_streams() -> None:
    """Open closed standard streams on the null device, and make standard error lossy.

    Otherwise the next file that is opened would take the place of a closed stream.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(place, "w" if place else "r", encoding="utf-8", closefd=False))  # noqa: SIM115
    if (stream := sys.__stderr__) is not None and sys.stderr is stream:
        raw = io.BufferedWriter(_Lossy(stream.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, encoding=stream.encoding, line_buffering=True)


def _require_unicode(words: Sequence[str]) -> None:
    """Check that arguments, places of phmrun's folders, and the working folder are Unicode.

    Records of a run name them, and are UTF-8.

    Raises:
        PhmrunError: A byte of one is not UTF-8.
    """
    texts = {f"argument {place}": word for place, word in enumerate(words, 1)}
    texts |= {name: value for name, value in os.environ.items() if name.startswith("PHMRUN_")}
    with suppress(OSError):  # it was removed
        texts["the working folder"] = os.getcwd()  # noqa: PTH109  (a path of this form)
    for where, text in texts.items():
        if any("\udc80" <= character <= "\udcff" for character in text):
            hint = "Rename the file or folder, for example with mv, and give the command again."
            raise PhmrunError(f"{printable(text)} has a byte that is not UTF-8", where=where, hint=hint)


def _globals_first(arguments: list[str]) -> list[str]:
    """Return the arguments with the global options moved to the front.

    These are --debug, --verbose, -v, --quiet and -q, also where they are the value of another option. Their order
    stays. Arguments after ``--`` are not moved.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head, tail = arguments[:end], arguments[end:]
    moved = [argument for argument in head if argument in _ANYWHERE]
    return [*moved, *(argument for argument in head if argument not in _ANYWHERE), *tail]


def _interruption(end: SystemExit) -> KeyboardInterrupt | None:
    """Return the KeyboardInterrupt among the causes of an exit, or None."""
    error: BaseException | None = end
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error


def _listen() -> None:
    """Make SIGTERM raise :class:`Interrupted`, and put signals off while modules load, for at most 5 seconds.

    A run then ends as by Ctrl-C. Extensions lose an exception that is raised while they load, and stay half loaded.
    Only in the main thread, and for signals with their default action.
    """
    left = itertools.count(round(5 / AGAIN), -1)

    def end(which: int, frame: FrameType | None) -> None:
        """Raise the interruption by this signal, or send it again later."""
        if any(place.f_code.co_filename == LOADER for place, _ in traceback.walk_stack(frame)) and next(left) > 0:
            _send_again(which)
        elif which == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise Interrupted(which)

    for which, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if threading.current_thread() is threading.main_thread() and signal.getsignal(which) is usual:
            signal.signal(which, end)


def _send_again(which: int) -> None:
    """Send a signal to the main thread after 0.05 seconds.

    Another thread sends it: sent here, it would be handled at the same place.
    """
    again = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident, which))
    again.daemon = True
    again.start()


@contextmanager
def _lost_interruptions_repeated() -> Iterator[None]:
    """Repeat, inside the block, a signal whose exception was lost.

    The signals are SIGINT and SIGTERM. Python reports and drops exceptions in destructors and callbacks, so that about
    one Ctrl-C in twenty would have no effect.
    """
    tell = sys.unraisablehook

    def hear(lost: "sys.UnraisableHookArgs") -> None:
        """Send a lost interruption again after 0.05 seconds.

        Other exceptions are passed to the previous hook.
        """
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            tell(lost)
            return
        _send_again(lost.exc_value.which if isinstance(lost.exc_value, Interrupted) else signal.SIGINT)

    sys.unraisablehook = hear
    try:
        yield
    finally:
        sys.unraisablehook = tell


def _report(error: BaseException, arguments: Sequence[str]) -> int:
    """Print an error on standard error, and return the exit code.

    A :class:`PhmrunError` has its own code. Interruptions give 130 or that of their signal, with the command that
    continues if there is progress. A closed pipe prints nothing and gives 0. Too long names give 2, disk errors 3, lack
    of memory and errors of plug-ins 4. Any other error is printed as a bug, code 1.
    """
    if isinstance(error, KeyboardInterrupt):
        outcome = error.outcome if isinstance(error, Interrupted) else ""
        command = shlex.join(["phmrun", *arguments])
        print(f"\n{outcome}; to continue: {command}" if outcome else "\ninterrupted", file=sys.stderr)
        return error.code if isinstance(error, Interrupted) else ExitCode.INTERRUPTED
    # The reader of the output has closed it, as `head` does; this is no error.
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _discard_output()
        return ExitCode.OK
    if fault := _fault(error):
        console.print_error(fault)
        return fault.code
    summary = " ".join(str(error).split())[:300]
    print(
        f"phmrun: this is a bug: {type(error).__name__}: {summary} (run the command again with --debug to see where)",
        file=sys.stderr,
    )
    return ExitCode.BUG


def _fault(error: BaseException) -> PhmrunError | None:
    """Return the user's error that is behind an exception; None for a bug."""
    if isinstance(error, PhmrunError):
        return error
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return PhmrunError("the file name is too long", where=f"{str(error.filename)[:100]} …")
    if isinstance(error, OSError) and (fault := disk_error(error)):
        return fault
    # torch's out-of-memory error is recognized by name, since torch may not be imported.
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if out_of_memory or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        hint = "Use a smaller --batch-size, with --set training.accumulate=2, or a smaller --preset. "
        hint += "A batch holds at least one sentence: if one is very long, split it or leave it out."
        return PhmrunError("out of memory", hint=hint, code=ExitCode.TRAINING)
    return plugin_error(error)


def _flushed(code: str | int | None) -> str | int | None:
    """Flush standard output and return ``code``, or that of an error of the disk if ``code`` is 0.

    A closed pipe is no error. Later output is discarded.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_output()
        return code or _report(error, ())
    return code


def _discard_output() -> None:
    """Redirect standard output to the null device.

    So the interpreter's last flush does not fail.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
