"""Run directories: configuration, state, scores and history of experiments.

The package imports no torch.
"""

from phmrun.ledger.history import History
from phmrun.ledger.lock import Holder, Lock
from phmrun.ledger.run import Run
from phmrun.ledger.status import State, Status
from phmrun.ledger.wandb_mirror import Mirror, sync, wandb_mode
