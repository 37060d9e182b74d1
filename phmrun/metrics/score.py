"""One measured value with everything that is needed to compare it with another."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Score:
    """A value that says how it came about."""

    name: str  # what was measured: "BLEU"
    value: float  # the measured value
    signature: str  # how exactly, as `key:value` pairs joined by `|`; scores compare only where signatures agree
    n: int  # what the value is taken over, in `unit`
    unit: str = "sentences"  # what is counted: "sentences", "tokens"
    # the 95% confidence interval (low, high) over resampled test sets; None where none was asked for
    ci: tuple[float, float] | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)  # further numbers of the same measurement, by name
    warnings: tuple[str, ...] = ()  # what a reader of the value must know

    def to_json(self) -> dict[str, Any]:
        """A value for ``json.dumps``; what is empty is left out. The name is the key it is stored under."""
        result: dict[str, Any] = {"value": self.value, "signature": self.signature}
        if self.ci is not None:
            result["ci"] = list(self.ci)
        result |= {"n": self.n, "unit": self.unit}
        if self.extras:
            result["extras"] = dict(self.extras)
        if self.warnings:
            result["warnings"] = list(self.warnings)
        return result

    def __str__(self) -> str:
        """``BLEU 34.56 [33.10, 36.02] (1,000 sentences, nrefs:1|…)``."""
        interval = "" if self.ci is None else f" [{self.ci[0]:.2f}, {self.ci[1]:.2f}]"
        return f"{self.name} {self.value:.2f}{interval} ({self.n:,} {self.unit}, {self.signature})"
