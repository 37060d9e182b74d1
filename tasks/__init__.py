"""The tasks: one package each, with its config, its data and its Lightning module."""
