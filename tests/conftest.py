"""What every test gets: phmrun's logger as the program finds it at its start, whatever a test before it made quiet.

Properties are tried at any speed: a machine that other work shares is slow, which says nothing of them.
"""

import logging

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


@pytest.fixture(autouse=True)
def fresh_logger() -> None:
    """A command line's ``-q`` sets the logger's level for the whole process; the next test begins without it."""
    logger = logging.getLogger("phmrun")
    logger.setLevel(logging.NOTSET)
    logger.handlers.clear()
