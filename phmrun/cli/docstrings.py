"""Help of verbs, from their docstrings.

The text before the first section is the help, an argument's text under ``Args:`` is that of its option, and the lines
under ``Examples:`` are the epilog. Options of several verbs have their text where they are declared.
"""

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer

_SECTION = re.compile(r"^(Args|Attributes|Examples?):\n((?: .*(?:\n|\Z)|\n(?= ))+)", re.MULTILINE)
_FIELD = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


class VerbGroup(typer.Typer):
    """Group of verbs whose docstrings are their help."""

    def command(  # type: ignore[override]
        self, name: str | None = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that adds a verb.

        The decorator returns the verb unchanged. Options are those of Typer; they override help and epilog of the
        docstring.
        """
        register = super().command

        def add(verb: Callable[..., Any]) -> Callable[..., Any]:
            shown = parse_docstring(verb.__doc__ or "")
            texts = {"help": shown.help, "epilog": shown.epilog}
            register(name, **{**texts, **options})(_documented(verb, shown.texts))
            return verb

        return add


class VerbText(NamedTuple):
    """Parts of a docstring."""

    help: str
    texts: dict[str, str]  # of arguments or attributes, by name
    epilog: str | None  # examples; ``None`` without any


def parse_docstring(docstring: str) -> VerbText:
    """Return help, texts of arguments or attributes, and examples.

    The help is the docstring without these sections. Lines of a paragraph or text are joined, so that they fit any
    terminal; lines of the first section of examples become paragraphs.
    """
    text = f"{inspect.cleandoc(docstring)}\n"
    sections = dict(_SECTION.findall(text))
    fields = sections.pop("Args", sections.pop("Attributes", ""))
    texts = {name: " ".join(body.split()) for name, body in _FIELD.findall(fields)}
    epilogs = [
        "\n\n".join([f"{title}:", *map(str.strip, filter(str.strip, body.split("\n")))])
        for title, body in sections.items()
    ]
    paragraphs = _SECTION.sub("", text).strip().split("\n\n")
    return VerbText("\n\n".join(" ".join(part.split()) for part in paragraphs), texts, next(iter(epilogs), None))


def with_text(annotation: Any, text: str | None) -> Any:
    """Return a parameter's annotation for Typer with a help text.

    It is unchanged if ``text`` is ``None``. An annotation without an option or argument becomes an option.
    """
    if text is None:
        return annotation
    annotated = get_origin(annotation) is Annotated
    kind, *infos = get_args(annotation) if annotated else (annotation,)
    info = copy.copy(infos[0]) if infos else typer.Option()
    info.help = text
    return Annotated[kind, info]


def _documented(verb: Callable[..., Any], texts: Mapping[str, str]) -> Callable[..., Any]:
    """Add the texts of options and arguments to a verb.

    Its signature is changed in place; parameters without a text keep theirs. The verb is returned.
    """
    signature = inspect.signature(verb)
    parameters = [
        parameter.replace(annotation=with_text(parameter.annotation, texts.get(name)))
        for name, parameter in signature.parameters.items()
    ]
    verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return verb
