"""User errors and the exit codes of the command line."""

import difflib
import signal
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path


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
    """Error that the user can correct, shown without a traceback.

    Args:
        what: What is wrong, in one sentence.
        where: Place of the fault: a file, ``file:line`` or a dotted config key.
        valid: Accepted values.
        hint: Command or edit that corrects it.
        code: Exit code of the process.
    """

    def __init__(
        self,
        what: str,
        *,
        where: Path | str | None = None,
        valid: Sequence[str] = (),
        hint: str | None = None,
        code: ExitCode = ExitCode.USAGE,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = str(where) if isinstance(where, Path) else where
        self.valid = tuple(valid)
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        """Message of up to three lines: place and fault, valid values, next step."""
        lines = [f"{self.where}: {self.what}" if self.where else self.what]
        if self.valid:
            lines.append(f"valid: {', '.join(self.valid)}")
        if self.hint:
            lines.append(self.hint)
        return "\n".join(lines)


class Interrupted(KeyboardInterrupt):
    """Interruption of the work by a signal.

    Args:
        which: Number of the signal, SIGINT or SIGTERM.
        outcome: State of the work in one line; may be empty.
    """

    def __init__(self, which: int, outcome: str = "") -> None:
        super().__init__(outcome)
        self.which = signal.Signals(which)
        self.outcome = outcome
        self.code = ExitCode(128 + which)


def nearest(name: str, candidates: Iterable[str]) -> list[str]:
    """Return at most three candidates similar to ``name``, best first.

    The result is empty if none is similar. Similar is a ratio of 0.5 or more by difflib. Case is ignored; dashes and
    underscores are equal.
    """
    by_key = {candidate.replace("_", "-").lower(): candidate for candidate in candidates}
    matches = difflib.get_close_matches(name.replace("_", "-").lower(), by_key, n=3, cutoff=0.5)
    return [by_key[match] for match in matches]


def unknown(
    kind: str, name: str, candidates: Iterable[str], *, where: Path | str | None = None, what: str | None = None
) -> PhmrunError:
    """Return the error (exit 2) for an unknown name.

    It has the nearest and all valid names. ``what`` replaces the default message "there is no KIND NAME".
    """
    valid = sorted(map(str, candidates))
    close = nearest(name, valid)
    hint = f"Did you mean {' or '.join(repr(match) for match in close)}?" if close else None
    return PhmrunError(what or f"there is no {kind} {name!r}", where=where, valid=valid, hint=hint)


def data_error(what: str, where: Path | str | None = None, hint: str | None = None) -> PhmrunError:
    """Return the error (exit 3) for data that cannot be used; the arguments are those of :class:`PhmrunError`."""
    return PhmrunError(what, where=where, hint=hint, code=ExitCode.DATA)


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: "1 cell", "12 cells".

    Plurals add "s".
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
