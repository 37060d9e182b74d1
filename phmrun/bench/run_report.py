"""Report of a run's benchmark: phases, their measurements, and the amount of both."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from phmrun.bench.timing import Operation, Timing
from phmrun.ledger import Run
from phmrun.ledger.environment import now


@dataclass(frozen=True)
class Amount:
    """Amount of measurements."""

    rounds: int = 5  # measurements of each system, whose median is reported
    batches: int = 8  # training batches in a measurement
    sizes: Sequence[int] = (1, 64)  # batch sizes of decoding
    sentences: int = 256  # test sentences per measurement, for batches
    single: int = 24  # test sentences per measurement, for batch size 1


USUAL = Amount()


@dataclass
class Phase:
    """Phase of a benchmark, with its measurements."""

    name: str  # "training", "beam 5, batch 64" …
    unit: str  # unit of a rate, per second
    amount: int  # units in one measurement
    # seconds per measurement, by system; the run's model is first
    timings: dict[str, Timing] = field(default_factory=dict)
    peak_memory: int = 0  # peak bytes in this phase with the run's model only
    operations: list[Operation] = field(default_factory=list)  # profile of the run's model, if requested
    application: str | None = None  # application of the weights in decoding
    trains: bool = False  # True for training, where weights may be random
    steps: int = 0  # optimizer steps in one measurement of training

    @property
    def rates(self) -> dict[str, float]:
        """Units per second, by system: the amount / the median seconds."""
        return {name: self.amount / timing.median for name, timing in self.timings.items()}

    @property
    def ratios(self) -> dict[str, float]:
        """Speed of the run's model / the opponent's, by opponent; empty without any."""
        first, *others = self.timings
        return {name: self.timings[name].ratio(self.timings[first]) for name in others}

    def to_json(self) -> dict[str, Any]:
        """Return the measurements as a JSON object, always with the same keys.

        "phase", "unit" (per second), "amount", "steps", "rates" and "ratios" by system, "seconds" (lists by system),
        "peak_memory_bytes", "application" (or None), and "profile", a list that is empty without one.
        """
        return {
            "phase": self.name,
            "unit": f"{self.unit}/s",
            "amount": self.amount,
            "steps": self.steps,
            "rates": self.rates,
            "ratios": self.ratios,
            "seconds": {name: list(timing.seconds) for name, timing in self.timings.items()},
            "peak_memory_bytes": self.peak_memory,
            "application": self.application,
            "profile": [operation._asdict() for operation in self.operations],
        }


@dataclass(frozen=True)
class Report:
    """Result of a run's benchmark."""

    run: Run
    layer: str  # structure and options of its layers
    machine: dict[str, Any]  # facts of the machine
    phases: list[Phase]  # measured phases

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object.

        Keys: "run_id", "run_dir", "layer", "machine", and "phases" as by :meth:`Phase.to_json`.
        """
        return {
            "run_id": self.run.id,
            "run_dir": str(self.run.path),
            "layer": self.layer,
            "machine": self.machine,
            "phases": [phase.to_json() for phase in self.phases],
        }

    def record(self) -> None:
        """Add the run's own times, by phase, to its ``bench.json``.

        Phases of the same name are replaced. The opponents' times are left out; only their names are written.
        """
        measured = now()
        self.run.add_bench(
            {
                phase.name: {
                    "unit": f"{phase.unit}/s",
                    "amount": phase.amount,
                    "steps": phase.steps,
                    "seconds": list(phase.timings["run"].seconds),
                    "median_seconds": phase.timings["run"].median,
                    "peak_memory_bytes": phase.peak_memory,
                    "beside": [name for name in phase.timings if name != "run"],
                    "machine": self.machine,
                    "measured": measured,
                }
                for phase in self.phases
            }
        )
