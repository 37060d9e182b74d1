"""Cell of a sweep: an experiment with its configuration, run id and fault."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from phmrun.config import Experiment
from phmrun.errors import PhmrunError
from phmrun.sweeps.selection import SEED, label_of


class Inspected(NamedTuple):
    """Facts about an experiment beyond its configuration."""

    parameters: int | None  # of its network; None: unknown to phmrun
    fingerprints: Mapping[str, str]  # SHA-256 sums of its data and plug-ins, by name
    exact: bool = True  # True: counted for the data's vocabulary; False: for the configured maximum


Inspect = Callable[[Experiment], Inspected]
"""Inspector of an experiment.

Raises ``PhmrunError`` if the network cannot be built, or with exit code 3 if the data are missing.
"""


@dataclass(frozen=True)
class Cell:
    """Experiment of a sweep.

    Attributes:
        at: Its value of each grid key, or its row and column; and its seed.
        config: Its configuration; ``None`` if that is invalid.
        origin: Sources of the values set by the user, by dotted key.
        run_id: The id that ``phmrun train`` gives it; ``None`` if it cannot be run.
        parameters: Parameters of its network; ``None`` if that cannot be built.
        fault: Reason why it cannot be run; ``None`` if it can.
        marks: SHA-256 checksums of its data and plug-ins, by name; empty if the data are missing.
        baseline: True if the sweep's key ``baseline`` fits it; ``None`` without that key.
        departs: Difference of its network from that of its row in the paper; empty if none.
        versions: Differences of its run from this version of phmrun; empty if none.
        exact: True if ``parameters`` are for the data's vocabulary; False: for the configured maximum.
        at_edge: Tuned keys whose value is the least or greatest tried.
        chose_settings: True if the row's tuned values were chosen with this seed.
        own_choice: Keys whose values this seed chose by itself; empty unless it is a replicate.
        choices: Number of values among which it chose; 0 unless it is a replicate.
        searching: True if trials of its seed are still to come, so that it has no result yet.
    """

    at: Mapping[str, Any]
    config: Experiment | None
    origin: Mapping[str, str]
    run_id: str | None
    parameters: int | None
    fault: PhmrunError | None
    marks: Mapping[str, str] = field(default_factory=dict)
    baseline: bool | None = None
    departs: str = ""
    versions: tuple[str, ...] = ()
    exact: bool = True
    at_edge: tuple[str, ...] = ()
    chose_settings: bool = False
    own_choice: tuple[str, ...] = ()
    choices: int = 0
    searching: bool = False

    @property
    def label(self) -> str:
        """Short text of the cell's values: ``layer phm n=4 · seed 1``.

        The value of the key ``row`` is shown without its key.
        """
        return " · ".join(value if key == "row" else f"{key} {value}" for key, value in self.labels.items())

    @property
    def labels(self) -> dict[str, str]:
        """Value at each key of ``at``, as short text."""
        return {key: label_of(value) for key, value in self.at.items()}

    @property
    def row(self) -> tuple[tuple[str, str], ...]:
        """Keys and texts of the values that cells of one row share: all except the seed."""
        return tuple((key, text) for key, text in self.labels.items() if key != SEED)


Make = Callable[[Cell, Mapping[str, Any]], Cell]  # builds a cell from another and values by dotted key
