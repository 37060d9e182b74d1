"""How fast layers and whole models are, against what a user would take instead: measured in turns, in one process."""
