"""Escaping of untrusted text for terminals, Markdown, LaTeX, spreadsheets and bash.

Text from data and file names must never act as markup or as a command.
"""

import re
import shlex
import unicodedata
from pathlib import Path
from typing import Any

_TURNS_TEXT = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of the following text, which can disguise a line."""
_MARKUP = re.compile(
    r"[\\`\[\]<>|]|\*(?!$)"  # code, links, pictures, HTML, the cells of a table; emphasis, which an end cannot begin
    r"|(?<![^\W_])_|_(?![^\W_])"  # an underscore that is not within a word
    r"|~(?=~)|&(?=#?\w+;)"  # struck out; an entity
    r"|:(?=//)|(?<=www)\."  # addresses that would become links
)
_FORMULA = ("=", "+", "-", "@")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"$\dagger$",
    "°": r"$^\circ$",
    "‡": r"$\ddagger$",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "δ": r"$\delta$",
    "≈": r"$\approx$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "→": r"$\to$",
    **{character: f"${character}$" for character in "<>|*"},
    "·": r"$\cdot$",
    "×": r"$\times$",
    "−": "$-$",
    "…": r"\dots{}",
    "–": "--",
}


def printable(text: str) -> str:
    r"""Escape control characters, lone surrogates and changes of reading direction.

    They become ``\x1b`` or ``\u202e``. They can then not affect a terminal. Line feeds and tabs are kept.
    """
    if text.isprintable():
        return text
    shown = []
    for character in text:
        if character not in "\n\t" and (unicodedata.category(character) in ("Cc", "Cs") or character in _TURNS_TEXT):
            character = f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"
        shown.append(character)
    return "".join(shown)


def one_line(text: str) -> str:
    """Apply :func:`printable`, and join the text to one line.

    Every run of white space becomes one space; at both ends it is removed.
    """
    return printable(" ".join(text.split()))


def markdown(text: str) -> str:
    """Escape a text for Markdown, on one line.

    Backslashes are put before markup, so it forms no link, picture, emphasis, HTML or cell. It is first made printable.
    Marks that act at the start of a line only (``#``, ``-``, ``1.``), ``_`` within a word, a last ``*`` and a single
    ``~`` stay.
    """
    return _MARKUP.sub(lambda match: f"\\{match[0]}", one_line(text))


def fenced(text: str, language: str = "") -> str:
    """Format a text as a code block in Markdown.

    The fence is longer than any in the text. Control characters are escaped, and white space at the end is removed.
    """
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text.rstrip())}\n{fence}"


def latex(text: str) -> str:
    """Escape a text for LaTeX, on one line.

    Special characters and some symbols become LaTeX's commands. It cannot end a comment either.
    """
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def spreadsheet(value: Any) -> Any:
    """Escape a CSV cell.

    Control characters are escaped. A text that would be a formula, by ``= + - @`` at its start or after white space,
    gets a leading apostrophe, unless it is a number. Values that are no text are returned unchanged.
    """
    if not isinstance(value, str):
        return value
    value = printable(value)
    if not value.lstrip().startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def shell_word(text: str) -> str:
    r"""Quote a word for bash, on one line.

    A text with a character that is not printable is written as ``$'…'``, in which quotes, backslashes and all bytes
    outside printable ASCII are ``\x..``. Invalid bytes of file names are kept.
    """
    if text.isprintable():
        return shlex.quote(text)
    named = text.encode("utf-8", "surrogateescape")  # the file name's bytes
    codes = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in named)
    return "$'" + "".join(codes) + "'"


def shortened(text: str, places: dict[str, Path]) -> str:
    """Replace known places, and the beginnings of paths below them, by the places' names.

    As in ``{"$PHMRUN_DATA": …, "~": …}``. Longer paths are replaced first; the root directory never. Paths that only
    contain a place's name stay, such as ``/data-old`` and ``/mnt/data`` for ``/data``.
    """
    for name, path in sorted(places.items(), key=lambda item: -len(str(item[1]))):
        if len(path.parts) > 1:
            place = rf"(?<![\w./\\-]){re.escape(str(path))}(?![\w-]|\.\w)"
            text = re.sub(place, lambda _, name=name: name, text)  # type: ignore[misc]
    return text
