"""Run directories: configuration, state, scores and history of experiments.

The package imports no torch.
"""

from phmrun.ledger.directory import State, Status
from phmrun.ledger.lock import Holder, Lock
from phmrun.ledger.run import History, Run
from phmrun.ledger.wandb_mirror import Mirror, Synced, sync, wandb_mode
