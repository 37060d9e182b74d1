"""``phmrun doctor``: checks of the machine, each with advice."""

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

import typer

from phmrun.cli import console
from phmrun.cli.options import Json, RunsDirectory
from phmrun.errors import ExitCode, PhmrunError, counted
from phmrun.ledger.wandb_mirror import wandb_mode
from phmrun.progress import waiting

_LITTLE_SPACE = 2 * 2**30  # bytes: a few runs of the preset base with checkpoints


class Check(NamedTuple):
    """Result of a check.

    Attributes:
        name: Name of the check.
        status: "ok"; "warning": a part of phmrun will not work; "failed": phmrun will not work.
        found: State of the machine.
        advice: Advice; may be empty.
    """

    name: str
    status: Literal["ok", "warning", "failed"]
    found: str
    advice: str = ""


def doctor(runs_dir: RunsDirectory = Path("runs"), as_json: Json = False) -> None:
    """Check Python, torch, devices, data, the run directory, W&B and the disk.

    Warnings are no failure. If a check has failed, the exit code is 2.
    """
    with waiting("preparing"):
        checks = [*_torch(), *_data(), *_machine(runs_dir)]
    failed = [check for check in checks if check.status == "failed"]
    if as_json:
        console.print_json({"usable": not failed, "checks": [check._asdict() for check in checks]})
    else:
        marks = {"ok": "[green]✓[/]", "warning": "[yellow]![/]", "failed": "[red]✗[/]"}
        out = console.stdout()
        for number, check in enumerate(checks, start=1):
            out.print(f"{number:>2} {marks[check.status]} {check.name}: ", end="")
            console.print_line(check.found)
            if check.advice:
                console.print_line(f"     → {check.advice}")
    if failed:
        raise typer.Exit(ExitCode.USAGE)


def _torch() -> Iterator[Check]:
    """Yield checks of Python, torch, devices and bfloat16.

    If torch fails to import, yield only the first two, the second as failed. A machine without a GPU is a warning.
    """
    yield Check("Python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Check("torch", "failed", f"does not import: {error}", "pip install torch, for your system: pytorch.org.")
        return
    threads, cores = counted(torch.get_num_threads(), "thread"), counted(os.cpu_count() or 1, "core")
    yield Check("torch", "ok", f"{torch.__version__}, {threads} on {cores}")
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        yield Check("devices", "ok", ", ".join(names))
    elif torch.backends.mps.is_available():
        yield Check("devices", "ok", "mps")
    else:
        advice = "Small networks train in minutes here; large ones want a GPU and a torch that was built for it."
        yield Check("devices", "warning", "CPU only", advice)
    yield _bf16()


def _bf16() -> Check:
    """Return a check for bfloat16, with advice on ``--precision``.

    The status is always "ok".
    """
    from phmrun.kernels.processor import has_bf16

    if not has_bf16():
        advice = "Train with --precision 32 on the CPU: bf16-mixed takes two to nine times as long here."
        return Check("bfloat16", "ok", "the processor does not compute in it", advice)
    advice = "--precision bf16-mixed is faster than 32 here for networks whose time goes into matrix products."
    return Check("bfloat16", "ok", "the processor computes in it", advice)


def _data() -> Iterator[Check]:
    """Yield checks of the data directory and of the datasets in it.

    An unusable directory, or no dataset besides the built-in corpus, is a warning.
    """
    from phmrun.datasets import CATALOGUE, data_dir, is_here

    advice = "Name a directory in PHMRUN_DATA; the built-in corpus needs none of its files."
    yield _writable("data directory", data_dir(), advice, fatal=False)
    if not os.access(_existing(data_dir()), os.R_OK | os.X_OK):
        return
    names = CATALOGUE.names()
    here = [name for name in names if is_here(CATALOGUE.get(name))]
    if here:
        yield Check("datasets", "ok", f"{', '.join(here)} ({len(here)} of {len(names)})")
    else:
        yield Check("datasets", "warning", "only the built-in corpus", "phmrun data list, then phmrun data fetch NAME.")


def _machine(runs_dir: Path) -> Iterator[Check]:
    """Yield checks of the directory of runs, W&B, and the disk.

    An unusable directory of runs has failed. A missing W&B, one without a key for online mode, and less than 2 GiB of
    space are warnings.
    """
    yield _writable("runs directory", runs_dir, "Give another with --runs-dir or PHMRUN_RUNS.")
    yield _mirror()
    # The directory may not exist yet, which disk_usage does not accept.
    existing = _existing(runs_dir)
    free = shutil.disk_usage(existing).free
    advice = "Make room, or put runs elsewhere with --runs-dir." if free < _LITTLE_SPACE else ""
    yield Check("disk", "warning" if advice else "ok", f"{free / 2**30:.1f} GiB free at {existing}", advice)


def _mirror() -> Check:
    """Return a check of W&B's mode, and of the key that online mode needs."""
    try:
        mode, installed = wandb_mode(), version("wandb")
    except PackageNotFoundError:
        return Check("W&B", "warning", "not installed", "pip install wandb, or train with --wandb disabled.")
    except PhmrunError as error:
        return Check("W&B", "failed", error.what, f"Valid: {', '.join(error.valid)}.")
    if mode == "online" and "WANDB_API_KEY" not in os.environ:
        text, advice = "online, but WANDB_API_KEY is not set", "Set it, unless `wandb login` has been run."
        return Check("W&B", "warning", text, advice)
    return Check("W&B", "ok", f"{installed}, {mode}")


def _writable(name: str, folder: Path, advice: str, *, fatal: bool = True) -> Check:
    """Return a check that a directory can be written or created.

    Nothing is created. If it is not, the check has failed, or is a warning without ``fatal``.
    """
    existing = _existing(folder)
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Check(name, "ok", str(folder) if existing == folder.absolute() else f"{folder} (will be created)")
    return Check(name, "failed" if fatal else "warning", f"{folder} cannot be written", advice)


def _existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists and may be seen."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if os.access(path, os.F_OK))
