"""The Lightning side: fit, checkpoint, exact resume, optimisers, schedules."""
