"""The best validation of a run in the unit of its tests, whichever release wrote it. Imports no torch."""

import re
from pathlib import Path
from typing import Any

from phmrun.ledger.history import is_share, shown

BEST = "validation/best"
_MONITOR = re.compile(r"^ +monitor: *(\w+)", re.MULTILINE)


def best_validation(monitor: str, value: float, step: int) -> dict[str, Any]:
    """The score as it is written: a share in per cent, which its unit says."""
    return {"value": shown(monitor, value), "unit": "%" if is_share(monitor) else "", "step": step}


def in_test_units(metrics: dict[str, Any], config: Path) -> dict[str, Any]:
    """Scores as they are written now: until release 0.2 the best validation was a share, and had no unit.

    Args:
        metrics: What stands in ``metrics.json``.
        config: The run's ``config.yaml``, which says what its validation measures.
    """
    best = metrics.get(BEST)
    if not isinstance(best, dict) or "unit" in best or not isinstance(best.get("value"), int | float):
        return metrics
    try:
        found = _MONITOR.search(config.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return metrics
    if found is None:
        return metrics
    return metrics | {BEST: best | best_validation(found[1], best["value"], best.get("step", 0))}
