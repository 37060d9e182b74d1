"""Scores of a script: ``{"test/accuracy": 97.1}``, optionally with the counts of each test item."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular
from phmrun.ledger.status import reason_of
from phmrun.metric import find_metric, known_metric
from phmrun.metrics.items import Items, checksum, packed

NAME = re.compile(r"(?!validation/)[A-Za-z][\w.]*/[A-Za-z][\w.-]*")
"""Name of a score: split and metric. "validation/best" is phmrun's own."""
EXAMPLE = '{"test/accuracy": 97.1}'


@dataclass
class Scores:
    """Scores of a run, by name, in the order of their recording.

    Attributes:
        values: Value, signature and further facts of each score.
        items: Packed counts of the test items by score.
        parameters: Parameters of the network; None: unknown.
    """

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    items: dict[str, dict[str, Any]] = field(default_factory=dict)
    parameters: int | None = None

    def add(self, name: str, value: Any, items: Sequence[Any] | None = None, *, signature: str = "script") -> None:
        """Add a score, or replace it.

        Value and items must agree to 1e-6 of the value.

        Args:
            name: Split and metric: "test/accuracy".
            value: Number; None: it is computed from the items.
            items: A count for each test item, such as 1 for a right answer and 0 for a wrong one, or a list of the
                counts that the metric needs. None: no verdict over items.
            signature: Settings of the measurement.

        Raises:
            PhmrunError: (exit 4) The name or a value is malformed, a share without items is a fraction, or the items
                give another value.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise fault(f"{name!r:.60} is not a valid name of a score", 'Names are split and metric: "test/accuracy".')
        entry: dict[str, Any] = {"signature": signature}
        self.items.pop(name, None)
        metric = known_metric(name)
        if items is not None:
            value = self._add_items(name, value, items)
            entry |= {"n": self.items[name]["items"], "unit": "items"}
        elif isinstance(value, float) and 0 < value <= 1 and metric and metric.unit == "%":
            hint = f"Multiply it by 100: {100 * value:g}. If it is less than 1 %, record its items, too."
            raise fault(f"{name} is {value}, which is a fraction; shares are in percent", hint)
        if not _is_number(value):
            kind = "finite number" if isinstance(value, float) else "number"  # NaN: the run has diverged
            raise fault(f"{name} is {value!r:.60}, which is not a {kind}", EXAMPLE)
        if metric and not metric.bounds[0] <= value <= metric.bounds[1]:
            raise fault(f"{name} is {value}, which is outside of {metric.bounds[0]:g} to {metric.bounds[1]:g}", None)
        self.values[name] = {"value": float(value), **entry}

    def _add_items(self, name: str, value: Any, items: Sequence[Any]) -> Any:
        """Add a score's items, and return its value: that of the metric on their sum if ``value`` is None.

        A list of numbers is taken as counts with an amount of 1 each.

        Raises:
            PhmrunError: (exit 4) The items are no natural numbers, or do not fit the metric or the value.
        """
        metric = find_metric(name)
        if metric is None or metric.measure is None:
            raise fault(f"the metric of {name} takes no items", "Give its value alone, or register it by a plug-in.")
        try:
            counts = np.asarray(items, dtype=np.float64)
            counts = np.stack([counts, np.ones_like(counts)], axis=1) if counts.ndim == 1 else counts
            if not len(counts):
                raise ValueError("there are none")
            computed = metric.computed(counts)
            # Two runs are compared over items if both have the same number of them.
            kept = packed(Items(counts, checksum([f"{len(counts)} items"])))
        except (ValueError, TypeError, IndexError) as error:
            hint = "Items are a list of natural numbers, one per test item."
            raise fault(f"the items of {name} cannot be used: {error}", hint) from error
        if _is_number(value) and abs(computed - value) > 1e-6 * max(1.0, abs(value)):
            hint = "Shares are in percent: 97.1. A count of a right item is 1."
            raise fault(f"{name} is {value}, and its items give {computed:.6g}", hint)
        self.items[name] = kept
        return computed if value is None else value


def read_scores(path: Path) -> Scores:
    """Read the scores file of a script.

    A value is a number, or a mapping with "value" and "items"; "parameters" is the number of parameters. Items are a
    list with at least one entry. Any other key of a mapping is an error, which names the file.

    Raises:
        PhmrunError: (exit 4) It is missing, malformed, or has no score.
    """
    where, scores = str(path), Scores()
    try:
        content = parse_json(read_regular(path), unique=True)
        if not isinstance(content, dict) or not content.keys() - {"parameters"}:
            raise fault("there is no score in the file", f"The file is a JSON object: {EXAMPLE}.")
        if "parameters" in content:
            scores.parameters = natural(content.pop("parameters"), "parameters")
        for name, score in content.items():
            entry = score if isinstance(score, dict) else {"value": score}
            if entry.keys() - {"value", "items"}:
                hint = '{"test/accuracy": {"value": 97.1, "items": [1, 0, 1]}}'
                raise fault(f"{name!r:.60} is no number, and has other keys than a value and a list of items", hint)
            scores.add(name, entry.get("value"), entry.get("items"))
    except FileNotFoundError as error:
        hint = f"Write {EXAMPLE}; the key `scores` names the file."
        raise fault("the script has ended and written no scores", hint, where) from error
    except (OSError, ValueError) as error:
        what = f"the scores cannot be read: {reason_of(error)}"
        raise fault(what, f"The file is JSON: {EXAMPLE}.", where) from error
    except PhmrunError as error:
        error.where = where
        raise
    return scores


def natural(value: Any, what: str) -> int:
    """Return a natural number of 63 bits.

    Raises:
        PhmrunError: (exit 4) The value is none; ``what`` names the things that it counts.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise fault(f"{value!r:.60} is not a number of {what}: 0, 1, 2, …", None)
    return value


def fault(what: str, hint: str | None, where: str | None = None) -> PhmrunError:
    """Return an error with exit code 4."""
    return PhmrunError(what, where=where, hint=hint, code=ExitCode.TRAINING)


def _is_number(value: Any) -> bool:
    """True for integers and floats that are finite as a float; False for booleans and other values."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
