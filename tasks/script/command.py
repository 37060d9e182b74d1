"""Placeholders of a script's command: ``{key}`` or ``{key|default}``."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from phmrun.errors import ExitCode, PhmrunError, nearest
from phmrun.files import no_file
from phmrun.tasks.script.config import SCRIPTS, ScriptExperiment

PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)(?:\|([^{}]*))?\}")
"""Key, and a default after ``|``. Other braces are ordinary characters."""
LAYERS = ("layer", "embedding", "output")
PYTHON = ("python", "python3")


def words_of(config: ScriptExperiment, run: Path) -> list[str]:
    """Return program and arguments of a run.

    Placeholders are replaced; each value stays one argument. ``python`` and ``python3`` become phmrun's interpreter.
    With ``shell``, the result is "sh", "-c" and the command with quoted values.

    Args:
        config: Resolved configuration.
        run: Folder of the script's files.

    Raises:
        PhmrunError: (exit 2) A placeholder has no value, or a quote is not closed.
    """
    values = _values(config, run)
    if config.shell:
        return ["sh", "-c", _filled(config.command, values, shlex.quote)]
    program, *arguments = (_filled(word, values) for word in _words(config.command))
    return [sys.executable if program in PYTHON else program, *arguments]


def scores_path(config: ScriptExperiment, run: Path) -> Path:
    """Return the path of the scores file, with placeholders replaced.

    A relative one is in the script's working directory, which is absolute.

    Raises:
        PhmrunError: (exit 2) A placeholder has no value.
    """
    return config.folder / _filled(config.scores, _values(config, run))


def check(config: ScriptExperiment) -> None:
    """Check that each placeholder has a value, and each setting a placeholder.

    Placeholders of the command and of ``scores`` count. That of a section stands for all of its keys.

    Raises:
        PhmrunError: (exit 2) There is no command, a quote is not closed, a placeholder has neither value nor default,
            a setting has no placeholder, or the file of scores is not in the run's folder. Seed, run folder and dense
            layers need none.
    """
    if not config.command.strip():
        raise PhmrunError("there is no command", where="command", hint="command: python train.py --seed {seed}")
    words = _words(config.command)
    values = _values(config, Path("run"))
    used = [match[1] for word in (*words, config.scores) for match in PLACEHOLDER.finditer(word)]
    missing = [
        match[1]
        for word in (*words, config.scores)
        for match in PLACEHOLDER.finditer(word)
        if match[2] is None and _value(values, match[1]) is None
    ]
    if missing:
        names = sorted(_leaves(values))
        close = nearest(missing[0], names)
        advice = f"Did you mean {{{close[0]}}}? " if close else ""
        raise PhmrunError(
            f"no value for {', '.join(f'{{{name}}}' for name in dict.fromkeys(missing))} in this cell",
            where="command",
            valid=names,
            hint=f"{advice}{{{missing[0]}|0}} has the default 0.",
        )
    set_here = _leaves({key: value for key, value in values.items() if key not in ("seed", "run", *LAYERS)})
    set_here |= _leaves({key: values[key] for key in LAYERS if values[key] != {"structure": "dense"}})
    unused = [key for key in set_here if not any(f"{key}.".startswith(f"{name}.") for name in used)]
    if unused:
        raise PhmrunError(
            f"the command has no placeholder for {', '.join(unused)}, so the setting would have no effect",
            where="command",
            hint=f"Add {{{unused[0]}}} to the command, or remove {unused[0]} from the settings.",
        )
    place = Path(os.path.normpath(scores_path(config, Path("run"))))
    if Path("run").absolute() not in place.parents:
        raise PhmrunError(
            "several runs would share this file of scores: it is not in the run's folder {run}",
            where="scores",
            valid=["{run}/scores.json"],
            hint="Give the folder to the script, as in command: python train.py --out {run}. For a script that writes "
            'into its working directory: shell: true and command: cd {run} && python "$OLDPWD"/train.py',
        )


def require_program(config: ScriptExperiment) -> None:
    """Check that program and script of a command exist on this machine.

    The script is the first argument, if it ends like a script. A shell's command is not checked.

    Raises:
        PhmrunError: (exit 3) One of them does not exist.
    """
    if config.shell:
        return
    program, *arguments = words_of(config, Path("run"))
    path = config.folder / program
    if not (path.is_file() if "/" in program else shutil.which(program)):
        raise PhmrunError(f"there is no program {program!r}", where="command", code=ExitCode.DATA)
    for script in arguments[:1]:
        if script.endswith(SCRIPTS) and not (path := config.folder / script).is_file():
            hint = f"Paths are below {config.folder}."
            raise PhmrunError(f"the script {no_file(path)}", where=str(path), hint=hint, code=ExitCode.DATA)


def _words(command: str) -> list[str]:
    """Split a command into words by the shell's rules of quoting.

    Placeholders stay whole. An empty command is one empty word.

    Raises:
        PhmrunError: (exit 2) A quote is not closed.
    """
    try:
        # A default may hold spaces, so placeholders are kept whole.
        kept = PLACEHOLDER.sub(lambda match: match[0].replace(" ", "\0"), command)
        return [word.replace("\0", " ") for word in shlex.split(kept)] or [""]
    except ValueError as error:
        raise PhmrunError(f"the command cannot be split into words: {error}", where="command") from error


def _values(config: ScriptExperiment, run: Path) -> dict[str, Any]:
    """Return the nested values of placeholders.

    These are the settings, the seed, the absolute path of the run's folder, and layer, embedding and output with their
    options.
    """
    layers = {key: getattr(config, key).arguments for key in LAYERS}
    extras = config.settings.__pydantic_extra__ or {}
    return {**layers, **extras, "seed": config.seed, "run": str(run.absolute())}


def _value(values: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key; None if there is none."""
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values that are no mappings and not None, by dotted key."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            leaves |= _leaves(value, f"{prefix}{key}.")
        elif value is not None:
            leaves[f"{prefix}{key}"] = value
    return leaves


def _filled(template: str, values: Mapping[str, Any], quote: Callable[[str], str] = str) -> str:
    """Return a template with its placeholders replaced.

    ``quote`` is applied to each value.

    Raises:
        PhmrunError: (exit 2) A placeholder has neither a value nor a default.
    """

    def replace(match: re.Match[str]) -> str:
        """Return the quoted value of a placeholder, or its default."""
        value = _value(values, match[1])
        if value is None and match[2] is None:
            raise PhmrunError(f"no value for {match[0]}", where="command", valid=sorted(_leaves(values)))
        return quote(match[2] if value is None else _text(value))

    return PLACEHOLDER.sub(replace, template)


def _text(value: Any) -> str:
    """Return a value as an argument of the command.

    A text is unchanged; a structure without options is its name; anything else is JSON (true, 0.1, [1, 2]).
    """
    if isinstance(value, Mapping) and value.keys() == {"structure"}:
        return str(value["structure"])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
