"""The run directory: what an experiment is, what it is doing, what came of it. Imports no torch."""

from phmrun.ledger.history import History
from phmrun.ledger.listing import RunSummary
from phmrun.ledger.lock import Holder, Lock
from phmrun.ledger.run import Run
from phmrun.ledger.status import State, Status

__all__ = ["History", "Holder", "Lock", "Run", "RunSummary", "State", "Status"]
