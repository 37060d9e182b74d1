import os
import subprocess
import sys

import pytest

from phmrun import __version__
from phmrun.cli.app import VERBS, _globals_first
from phmrun.errors import ExitCode, PhmrunError

HEAVY = {"torch", "pytorch_lightning", "wandb", "numpy", "transformers"}


def test_help_lists_every_verb(phmrun):
    result = phmrun("--help")
    assert result.code == 0
    assert all(f" {verb.name} " in result.out for verb in VERBS)


def test_the_list_loads_no_verb():
    code = (
        "import sys; from phmrun.cli.app import main\ntry: main(['-h'])\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "yaml", "phmrun.config", "phmrun.cli.train"} & set(done.stderr.split())


def test_a_signal_waits_until_modules_are_loaded(tmp_path):
    (tmp_path / "half.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n")
    code = (
        # a process in the background ignores SIGINT
        "import signal, time\nfrom phmrun.cli import app\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "app._listen()\nimport half\ntry: time.sleep(9)\nexcept KeyboardInterrupt: print(half.whole)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment) == b"True\n"


def test_version_is_printed(phmrun):
    assert phmrun("--version")[:2] == (0, f"phmrun {__version__}\n")


def test_help_imports_nothing_heavy():
    asked = [["--help"], *([verb.name, "-h"] for verb in VERBS if verb.name != "sweep")]  # which imports NumPy
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


def test_unknown_verb_or_value_brings_the_nearest(phmrun):
    assert "Did you mean 'train'" in phmrun("trian").err
    assert "--over: there is no value 'tiem'" in (err := phmrun("plot", "history", "--over", "tiem", "latest").err)
    assert "Did you mean 'time'" in err
    assert "phmrun runs: there is no command 'frobnicate'\nvalid: compare," in phmrun("runs", "frobnicate").err


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


def test_global_options_move_to_the_front():
    moved = ["-v", "--debug", "train", "nmt", "--n", "8"]
    assert _globals_first(["train", "nmt", "-v", "--n", "8", "--debug"]) == moved
    assert _globals_first(["predict", "--", "-v"]) == ["predict", "--", "-v"]
