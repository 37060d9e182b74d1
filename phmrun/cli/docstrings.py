"""Help of verbs, from their docstrings.

The text before the first section is the help, an argument's text under ``Args:`` is that of its option, and the lines
under ``Examples:`` are the epilog. Options of several verbs have their text where they are declared.
"""

import copy
import inspect
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import typer
from typer.core import TyperCommand

from phmrun.errors import PhmrunError

FILES = "Data files"
"""Panel of the options of the user's files."""
_SECTION = re.compile(r"^(Args|Attributes|Examples?):\n((?: .*(?:\n|\Z)|\n(?= ))+)", re.MULTILINE)
_FIELD = re.compile(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)
_KEY = re.compile(r"(?P<dashes>--)?(?P<key>[a-z_]\w*(?:\.\w+)+)(?:=(?P<value>.*))?", re.DOTALL)


class Command(TyperCommand):
    """Command of which the options ``--set`` hold keys of the configuration."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, as Click does.

        Raises:
            PhmrunError: A key of the configuration stands without ``--set``; the error has the option that sets it.
            typer.BadParameter: A value is invalid.
            UsageError: An option is unknown; the error has similar ones that fit the task among the arguments.
        """
        if not ctx.resilient_parsing and any("--set" in parameter.opts for parameter in self.params):
            for place, word in enumerate(args):
                setting = _setting_without_option(word, args[place - 1] if place else "", args[place + 1 : place + 2])
                if setting:
                    raise PhmrunError(f"keys of the configuration need --set: --set {shlex.quote(setting)}", where=word)
        words = list(args)  # parsing empties the list
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.replace("Value error, ", "")  # of pydantic, by which Typer checks values
            raise
        except Exception as error:
            if hasattr(error, "possibilities"):  # Click's error of an unknown option
                _fit_to_task(error, words, self.params)
            raise


def _fit_to_task(error: Any, args: Sequence[str], params: Sequence[Any]) -> None:
    """Remove options for other tasks' files from the hint of an unknown option, in place.

    Raises:
        PhmrunError: The option has the name of a key of the task's configuration; the error has the setting.
    """
    from phmrun.registry import TASKS

    task = next((word for word in args if word in TASKS.names()), None)
    if task is None:
        return
    from phmrun.config import leaves

    keys = [key for key, _ in leaves(TASKS.get(task).load("schema")())]
    name = error.option_name.lstrip("-").replace("-", "_")
    if matching := [key for key in keys if key.rpartition(".")[2] == name]:
        what = f"keys of the configuration need --set: --set {min(matching, key=len)}=VALUE"
        raise PhmrunError(what, where=error.option_name) from error
    files = [param for param in params if getattr(param, "rich_help_panel", None) == FILES]
    foreign = [p for p in files if f"data.{p.name.replace('_src', '_source').replace('_tgt', '_target')}" not in keys]
    left_out = {option for param in foreign for option in param.opts}
    error.possibilities = [option for option in error.possibilities or () if option not in left_out]


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
            register(name, **{"cls": Command, **texts, **options})(_documented(verb, shown.texts))
            return verb

        return add


class VerbText(NamedTuple):
    """Parts of a docstring."""

    help: str
    texts: dict[str, str]  # of arguments or attributes, by name
    epilog: str | None  # examples; ``None`` without any


def parse_docstring(docstring: str) -> VerbText:
    """Return help, texts of arguments or attributes, and examples.

    The help is the docstring without these sections. Lines of a text are joined; lines of the first section of examples
    become paragraphs.
    """
    text = f"{inspect.cleandoc(docstring)}\n"
    sections = dict(_SECTION.findall(text))
    fields = sections.pop("Args", sections.pop("Attributes", ""))
    texts = {name: " ".join(body.split()) for name, body in _FIELD.findall(fields)}
    epilogs = [
        "\n\n".join([f"{title}:", *map(str.strip, filter(str.strip, body.split("\n")))])
        for title, body in sections.items()
    ]
    return VerbText(_SECTION.sub("", text).strip(), texts, next(iter(epilogs), None))


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
