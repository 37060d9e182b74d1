"""Run directories: configuration, state, scores and history of experiments.

The package imports no torch.
"""

from phmrun.ledger.lock import Lock
from phmrun.ledger.run import Run
from phmrun.ledger.status import State
