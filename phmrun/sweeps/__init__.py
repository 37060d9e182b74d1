"""Sweeps: a file that names experiments, the plan of its cells, and what carries them out. Imports no torch."""

from phmrun.sweeps.file import Sweep, SweepFile, load_sweep
from phmrun.sweeps.plan import Cell, Inspected, Plan, plan

__all__ = ["Cell", "Inspected", "Plan", "Sweep", "SweepFile", "load_sweep", "plan"]
