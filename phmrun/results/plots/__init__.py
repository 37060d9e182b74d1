"""Plots of runs and sweeps."""
