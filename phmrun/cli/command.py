"""Command whose error shows how a key of the configuration is set.

Hydra has ``model.dropout=0.3`` as an argument, Lightning's command line ``--model.dropout 0.3``; ours has ``--set``.
"""

import re
import shlex
from typing import Any

import typer
from typer.core import TyperCommand

from phmrun.errors import PhmrunError

_KEY = re.compile(r"(?P<dashes>--)?(?P<key>[a-z_]\w*(?:\.\w+)+)(?:=(?P<value>.*))?", re.DOTALL)


class Command(TyperCommand):
    """Command of which the options ``--set`` hold keys of the configuration."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, as Click does.

        Raises:
            PhmrunError: A key of the configuration stands without ``--set``; the error has the option that sets it.
            typer.BadParameter: A value is invalid.
        """
        if not ctx.resilient_parsing and any("--set" in parameter.opts for parameter in self.params):
            for place, word in enumerate(args):
                setting = _setting_without_option(word, args[place - 1] if place else "", args[place + 1 : place + 2])
                if setting:
                    raise PhmrunError(f"keys of the configuration need --set: --set {shlex.quote(setting)}", where=word)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.replace("Value error, ", "")  # of pydantic, by which Typer checks values
            raise


def _setting_without_option(word: str, before: str, after: list[str]) -> str | None:
    """Return ``key=value`` of a word that names a key without ``--set``, or None.

    ``model.dropout=0.3`` is one only if no option stands before it, of which it could be the value. The value of
    ``--model.dropout`` may be the next word.
    """
    match = _KEY.fullmatch(word)
    if match is None or (match["dashes"] is None and (match["value"] is None or before.startswith("-"))):
        return None
    value = match["value"]
    if value is None:
        value = after[0] if after and not after[0].startswith("--") else "VALUE"
    return f"{match['key']}={value}"
