"""The command line run in this process."""

from collections.abc import Callable
from typing import NamedTuple

import pytest


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def phmrun(capfd) -> Callable[..., Result]:
    """Calls ``phmrun`` with these arguments."""
    from phmrun.cli.app import main

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return Result(end.value.code, *capfd.readouterr())

    return run
