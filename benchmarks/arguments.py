"""Arguments that all measurements have, and the preparation of the process."""

import argparse
import sys
from collections.abc import Callable
from typing import Any

from phmrun.bench import machine
from phmrun.cli.bench import prepare_process
from phmrun.cli.console import print_error
from phmrun.config.sections import spelled
from phmrun.engine.trained_model import choose_device
from phmrun.errors import PhmrunError


def parser(description: str | None, *, repeats: int) -> argparse.ArgumentParser:
    """Parser with ``--repeats``, ``--threads``, ``--device`` and ``--json``."""
    options = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=repeats, help="rounds; medians are shown")
    options.add_argument("--threads", type=int, default=0, help="CPU threads for arithmetic; 0: torch's own choice")
    options.add_argument("--device", default="auto", help="auto, cpu or cuda")
    options.add_argument("--json", action="store_true", help="print JSON")
    return options


def structure_of(label: str) -> tuple[str, dict[str, Any]]:
    """Return name and options of "phm n=8"."""
    section = spelled(label)
    return section.pop("structure"), section


def start(args: argparse.Namespace) -> dict[str, Any]:
    """Set the threads, warn if the machine is busy, and return the facts of the machine."""
    prepare_process(args.threads)
    device = choose_device(args.device)
    machine.warn_if_busy(device)
    return machine.facts(device)


def run(main: Callable[[], None]) -> None:
    """Call a script's function; an error in its arguments is printed without a traceback, with its exit code."""
    try:
        main()
    except PhmrunError as error:
        print_error(error)
        sys.exit(error.code)
