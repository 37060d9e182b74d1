"""The Lightning side: modules, data modules, exact resume, optimisers, schedules, progress."""
