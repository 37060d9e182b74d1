"""Training with Lightning: checkpoints, exact resume, optimizers, schedules."""
