"""Placeholders of a script's command: ``{key}`` or ``{key|default}``."""

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phmrun.documents import flat, value_at
from phmrun.errors import PhmrunError, unknown
from phmrun.tasks.script.config import ScriptExperiment

PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)(?:\|([^{}]*))?\}")
"""Key, and a default after ``|``. Other braces are ordinary characters."""


def words_and_scores(config: ScriptExperiment, run: Path) -> tuple[list[str], Path]:
    """Return program and arguments of a run, and the path of its scores.

    Placeholders are replaced; each value stays one argument. ``python`` and ``python3`` become phmrun's interpreter.

    Args:
        config: Resolved configuration.
        run: Folder of the script's files.

    Raises:
        PhmrunError: (exit 2) There is no command, a placeholder has no value, or a quote is not closed.
    """
    if not config.command.strip():
        raise PhmrunError("there is no command", where="command", hint="command: python train.py --seed {seed}")
    try:
        # A default may hold spaces, so placeholders are kept whole.
        kept = PLACEHOLDER.sub(lambda match: match[0].replace(" ", "\0"), config.command)
        words = [word.replace("\0", " ") for word in shlex.split(kept)]
    except ValueError as error:
        raise PhmrunError(f"the command cannot be split into words: {error}", where="command") from error
    values = _values(config, run)
    program, *arguments = (_filled(word, values) for word in words)
    interpreted = sys.executable if program in ("python", "python3") else program
    return [interpreted, *arguments], Path(_filled(config.scores, values))


def check(config: ScriptExperiment) -> None:
    """Check that each placeholder has a value, and each setting a placeholder.

    Placeholders of the command and of ``scores`` count. That of a section stands for all of its keys.

    Raises:
        PhmrunError: (exit 2) There is no command, a quote is not closed, a placeholder has neither value nor default,
            a setting has no placeholder, or the file of scores is not in the run's folder. Seed, run folder and dense
            layers need none.
    """
    _, scores = words_and_scores(config, Path("run"))
    values = _values(config, Path("run"))
    used = [f"{match[1]}." for match in PLACEHOLDER.finditer(f"{config.command} {config.scores}")]
    dense = [f"{key}.structure" for key in config.structures if values[key] == {"structure": "dense"}]
    optional = {"seed", "run", *dense}
    unused = [*({"seed", "run"} & (config.settings.__pydantic_extra__ or {}).keys())]
    unused += [key for key in _leaves(values) if key not in optional and not f"{key}.".startswith(tuple(used))]
    if unused:
        what = f"the command has no placeholder for {', '.join(unused)}, so the setting would have no effect"
        hint = f"Add {{{unused[0]}}} to the command, or remove {unused[0]} from the settings."
        raise PhmrunError(what, where="command", hint=hint)
    if not config.scores.startswith("{run}/") or ".." in scores.parts:
        what = "several runs would share this file of scores: it is not in the run's folder {run}"
        hint = "Give the folder to the script, as in command: python train.py --out {run}"
        raise PhmrunError(what, where="scores", valid=["{run}/scores.json"], hint=hint)


def _values(config: ScriptExperiment, run: Path) -> dict[str, Any]:
    """Return the values of placeholders, nested.

    These are the settings, the seed, the absolute path of the run's folder, and layer, embedding and output with their
    options.
    """
    settings = config.settings.__pydantic_extra__ or {}
    return {**config.structures, **settings, "seed": config.seed, "run": str(run.absolute())}


def _leaves(values: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of values that are neither sections nor None, sorted."""
    return sorted(key for key, value in flat(values).items() if value is not None)


def _filled(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with its placeholders replaced.

    A text is unchanged; a structure without options is its name; anything else is JSON (true, 0.1, [1, 2]).

    Raises:
        PhmrunError: (exit 2) A placeholder has neither a value nor a default.
    """

    def replace(match: re.Match[str]) -> str:
        """Return the value of a placeholder as text, or its default."""
        value = value_at(values, match[1], default=match[2])
        if value is None:
            what = f"no value for {match[0]} in this cell; {{{match[1]}|0}} has the default 0"
            raise unknown("key", match[1], _leaves(values), where="command", what=what)
        if isinstance(value, Mapping) and value.keys() == {"structure"}:
            value = value["structure"]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return PLACEHOLDER.sub(replace, template)
