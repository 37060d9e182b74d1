"""Trained networks with some of their matrices replaced by the nearest ones of a structure."""
