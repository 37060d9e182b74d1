"""Sweeps: a file of experiments, its plan, and their execution.

Imports no torch.
"""

from phmrun.sweeps.cell import Cell, Inspected
from phmrun.sweeps.file import Sweep, SweepFile, load_sweep
from phmrun.sweeps.plan import Plan, plan
