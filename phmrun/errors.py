"""The one exception that a user's mistake raises, and the exit codes of the command line."""

import difflib
import signal
from collections.abc import Iterable, Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every ``phmrun`` verb."""

    OK = 0
    BUG = 1
    USAGE = 2
    DATA = 3
    TRAINING = 4
    SWEEP = 5
    INTERRUPTED = 130
    TERMINATED = 143


class PhmrunError(Exception):
    """A mistake that the user can mend, shown without a traceback.

    Args:
        what: What is wrong, in one sentence.
        where: The place: ``file:line`` or a dotted config key.
        valid: The values that would have been accepted.
        hint: The next command or edit that mends it.
        code: The exit code of the process.
    """

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        valid: Sequence[str] = (),
        hint: str | None = None,
        code: ExitCode = ExitCode.USAGE,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.valid = tuple(valid)
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        """The whole message on lines of its own: place, fault, valid values, next step."""
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.valid:
            lines.append(f"valid: {', '.join(self.valid)}")
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class Interrupted(KeyboardInterrupt):
    """A signal ended the work.

    Args:
        which: The signal, SIGINT or SIGTERM.
        outcome: What became of the work, in one line; empty where nothing is to be said of it.
    """

    def __init__(self, which: int, outcome: str = "") -> None:
        super().__init__(outcome)
        self.which = signal.Signals(which)
        self.outcome = outcome
        self.code = ExitCode(128 + which)


def nearest(name: str, candidates: Iterable[str], *, most: int = 3) -> list[str]:
    """The candidates that look most like ``name``, best first, dashes and underscores taken as equal."""
    by_key = {candidate.replace("_", "-").lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.replace("_", "-").lower(), by_key, n=most, cutoff=0.5)
    return [by_key[match] for match in matches]


def unknown(
    kind: str, name: str, candidates: Iterable[str], *, where: str | None = None, what: str | None = None
) -> PhmrunError:
    """The error for a name that no registry holds, with the nearest names and all valid ones; ``what`` says it."""
    valid = sorted(map(str, candidates))
    close = nearest(name, valid)
    hint = f"Did you mean {' or '.join(repr(match) for match in close)}?" if close else None
    return PhmrunError(what or f"there is no {kind} {name!r}", where=where, valid=valid, hint=hint)


def counted(count: int, noun: str) -> str:
    """A number of things: "1 cell", "12 cells"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
