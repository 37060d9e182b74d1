"""What every test gets: phmrun's logger as the program finds it at its start, whatever a test before it made quiet."""

import logging

import pytest


@pytest.fixture(autouse=True)
def fresh_logger() -> None:
    """A command line's ``-q`` sets the logger's level for the whole process; the next test begins without it."""
    logger = logging.getLogger("phmrun")
    logger.setLevel(logging.NOTSET)
    logger.handlers.clear()
