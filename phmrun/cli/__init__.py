"""The command line: one file per verb. Nothing heavy is imported before a verb runs."""
