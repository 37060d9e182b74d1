"""Help of verbs, from their docstrings.

The text before the first section is the help, an argument's text under ``Args:`` is that of its option, and the lines
under ``Examples:`` are the epilog. Options of several verbs have their text where they are declared.
"""

import copy
import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typer

_SECTION = re.compile(r"^(Args|Examples?):\n((?: .*(?:\n|\Z)|\n(?= ))+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


class VerbGroup(typer.Typer):
    """Group of verbs whose docstrings are their help."""

    def command(  # type: ignore[override]
        self, name: str | None = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that adds a verb, and returns it unchanged; options are those of Typer."""
        register = super().command

        def add(verb: Callable[..., Any]) -> Callable[..., Any]:
            help_text, arguments, epilog = parse_docstring(verb.__doc__ or "")
            register(name, **{"help": help_text, "epilog": epilog, **options})(_documented(verb, arguments))
            return verb

        return add


def parse_docstring(docstring: str) -> tuple[str, dict[str, str], str | None]:
    """Return the help, the text of each argument, and the epilog, which is ``None`` without examples."""
    text = inspect.cleandoc(docstring)
    sections = dict(_SECTION.findall(f"{text}\n"))
    arguments = {name: " ".join(body.split()) for name, body in _ARGUMENT.findall(sections.pop("Args", ""))}
    examples = [
        "\n\n".join([f"{title}:", *(line.strip() for line in body.splitlines() if line.strip())])
        for title, body in sections.items()
    ]
    return _SECTION.sub("", f"{text}\n").strip(), arguments, next(iter(examples), None)


def _documented(verb: Callable[..., Any], texts: dict[str, str]) -> Callable[..., Any]:
    """Add the texts of options and arguments to a verb's signature, in place, and return the verb."""
    signature = inspect.signature(verb)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.name in texts:
            annotated = get_origin(parameter.annotation) is Annotated
            kind, *infos = get_args(parameter.annotation) if annotated else (parameter.annotation,)
            info = copy.copy(infos[0]) if infos else typer.Option()
            info.help = texts[parameter.name]
            parameter = parameter.replace(annotation=Annotated[kind, info])
        parameters.append(parameter)
    verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return verb
