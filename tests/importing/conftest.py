"""One thread, the surroundings of all tests that train, and the command line."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from surroundings import _quiet_surroundings, prepared_corpora

__all__ = ["_quiet_surroundings", "prepared_corpora"]

torch.set_num_threads(1)


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
