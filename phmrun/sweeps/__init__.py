"""Sweeps: a file of experiments, its plan, and their execution.

Imports no torch.
"""
