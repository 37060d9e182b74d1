"""Score: a value with its signature, sample size and confidence interval."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Score:
    """Value of a metric with everything needed to compare it.

    Attributes:
        name: Name of the metric: "BLEU".
        value: Measured value.
        signature: Settings as ``key:value`` pairs joined by ``|``; only scores with equal signatures are comparable.
        n: Sample size, in ``unit``.
        unit: Unit of the sample size: "sentences", "tokens".
        ci: 95 % confidence interval (low, high); None if not computed.
        extras: Further results of the measurement, by name.
        warnings: Caveats about the value.
    """

    name: str
    value: float
    signature: str
    n: int
    unit: str = "sentences"
    ci: tuple[float, float] | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def signed(self, extra: str) -> "Score":
        """Return a copy with ``extra`` appended to the signature."""
        return replace(self, signature=self.signature + extra)

    def to_json(self) -> dict[str, Any]:
        """Return the score as a JSON object.

        Keys: "value", "signature", "ci", "n", "unit", "extras" and "warnings". "ci" is left out if it is None, "extras"
        and "warnings" if they are empty. The name is left out.
        """
        result: dict[str, Any] = {"value": self.value, "signature": self.signature}
        if self.ci is not None:
            result["ci"] = list(self.ci)
        result |= {"n": self.n, "unit": self.unit}
        if self.extras:
            result["extras"] = dict(self.extras)
        if self.warnings:
            result["warnings"] = list(self.warnings)
        return result
