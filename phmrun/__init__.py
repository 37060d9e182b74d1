"""phmrun: what is lost and what is gained when weight matrices become structured."""

from typing import Any

__version__ = "1.0.0"
__all__ = [
    "Recording",
    "TrainedRun",
    "__version__",
    "decide",
    "decide_pairs",
    "load_results",
    "open_run",
    "plan",
    "record",
    "runs",
    "train",
]


def __dir__() -> list[str]:
    """Return the names of this module, those that are imported when they are used included."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import and return a name when it is used.

    Names are those of the Python interface (:mod:`phmrun.experiments`).

    Raises:
        AttributeError: It is not in ``__all__``.
    """
    if name in ("decide", "decide_pairs"):
        from phmrun.statistics import referee

        return getattr(referee, name)
    if name in ("Recording", "record"):
        from phmrun.registry import load

        return load(f"phmrun.tasks.script.recording:{name}")
    if name in __all__:
        from phmrun import experiments

        return getattr(experiments, name)
    raise AttributeError(f"module 'phmrun' has no attribute {name!r}")
