import signal
import subprocess
import sys
import time

import pytest

from phmrun import __version__
from phmrun.cli import app
from phmrun.cli.app import _globals_first
from phmrun.errors import ExitCode, PhmrunError

VERBS = [
    "train",
    "eval",
    "predict",
    "export",
    "count-params",
    "layers",
    "data",
    "runs",
    "schema",
    "bench",
    "doctor",
    "sync",
]
HEAVY = {"torch", "pytorch_lightning", "wandb", "numpy", "transformers"}


def test_help_lists_every_verb(phmrun):
    result = phmrun("--help")
    assert result.code == 0
    assert all(f" {verb} " in result.out for verb in VERBS)


def test_the_list_loads_no_verb():
    code = (
        "import sys; from phmrun.cli.app import main\ntry: main(['-h'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "yaml", "phmrun.config", "phmrun.cli.train"} & set(done.stderr.split())


def test_verbs_are_listed_by_what_they_say_themselves():
    for verb in app.VERBS:
        assert " ".join(verb.load().help.split("\n\n")[0].split()) == verb.summary


def test_paragraphs_of_help_have_no_line_breaks_of_their_own():
    sweep = next(verb for verb in app.VERBS if verb.name == "sweep").load()
    _, second = sweep.commands["run"].help.split("\n\n")
    assert len(second) > 200
    assert "\n" not in second


def test_version_is_printed(phmrun):
    assert phmrun("--version")[:2] == (0, f"phmrun {__version__}\n")


def test_help_imports_nothing_heavy():
    asked = [["--help"], *([verb, "-h"] for verb in VERBS), ["layers", "show", "--help"]]
    code = (
        "import contextlib, sys\n"
        "from phmrun.cli.app import main\n"
        f"for arguments in {asked!r}:\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main(arguments)\n"
        "    print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage:") == len(asked)
    for arguments, modules in zip(asked, done.stderr.splitlines(), strict=True):
        assert not HEAVY & set(modules.split()), arguments


@pytest.mark.parametrize("arguments", [["trian"], ["train"], ["train", "nmt", "--n", "x"], ["train", "nmt", "--nope"]])
def test_usage_errors(phmrun, arguments):
    result = phmrun(*arguments)
    assert result.code == ExitCode.USAGE
    assert result.out == ""
    assert "Traceback" not in result.err


def test_unknown_verb_brings_the_nearest(phmrun):
    assert "Did you mean 'train'" in phmrun("trian").err
    assert "phmrun runs: there is no command 'frobnicate'\nvalid: archive, compare," in phmrun("runs", "frobnicate").err


def test_bare_command_shows_the_help(phmrun):
    assert "Usage" in phmrun().out


class OutOfMemoryError(RuntimeError):
    """Named like torch's own."""


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (PhmrunError("it broke", where="a.yaml:3", valid=["x", "y"], hint="Do so."), 2, "valid: x, y"),
        (PhmrunError("no data", code=ExitCode.DATA), 3, "no data"),
        (PhmrunError("NaN", code=ExitCode.TRAINING), 4, "NaN"),
        (MemoryError(), 4, "memory"),
        (OutOfMemoryError("CUDA out of memory"), 4, "split it or leave it out"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), 4, "memory"),
        (RuntimeError("shape mismatch\nat line 2"), 1, "this is a bug: RuntimeError: shape mismatch at line 2"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_every_error_has_its_exit_code(phmrun, experiment, error, code, text):
    experiment.error = error
    result = phmrun("train", "nmt")
    assert result.code == code
    assert result.out == ""
    assert text in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_the_traceback_wherever_it_stands(phmrun, experiment, place):
    experiment.error = RuntimeError("shape mismatch")
    arguments = ["train", "nmt"]
    arguments.insert(place, "--debug")
    assert "Traceback" in phmrun(*arguments).err


def test_verbosity_reaches_the_verb(phmrun, experiment):
    messages = []
    for flag in ([], ["-v"], ["-q"]):
        phmrun("train", "nmt", *flag)
        messages.append(experiment.calls[-1][2]["verbosity"])
    assert messages == [0, 1, -1]


def test_global_options_move_to_the_front():
    assert _globals_first(["train", "nmt", "-v", "--n", "8", "--debug"]) == [
        "-v",
        "--debug",
        "train",
        "nmt",
        "--n",
        "8",
    ]
    assert _globals_first(["predict", "--", "-v"]) == ["predict", "--", "-v"]


def test_a_reader_that_leaves_is_no_error():
    command = f'{sys.executable} -c \'from phmrun.cli.app import main; main(["schema", "nmt"])\' | head -n 1'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stdout == "{\n"
    assert done.stderr == ""


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_lost_in_a_destructor(phmrun, experiment, monkeypatch, which):
    """Python drops what a destructor raises, an interruption too; the second time it comes where it can leave."""

    class Gone:
        def __del__(self):
            signal.raise_signal(which)
            for _ in range(1_000_000):  # Python looks for signals at jumps
                pass
            went.append("on within the destructor")

    def train(config, **options):
        Gone()
        went.append("on after it")
        time.sleep(10)

    went = []
    monkeypatch.setattr(experiment, "train", train)
    hook, handler = sys.unraisablehook, signal.getsignal(signal.SIGTERM)
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
    try:
        result = phmrun("train", "nmt", "--data", "builtin")
    finally:
        signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGINT, interrupted)
    assert went == ["on after it"]
    assert result.code == 128 + which
    assert "Exception ignored" not in result.err
    assert sys.unraisablehook is hook
