"""Text from data and file names, made harmless for where it is going: a terminal, Markdown, LaTeX, a spreadsheet, bash.

Whoever wrote the data did not mean to write a command, and whoever did shall not succeed.
"""

import re
import shlex
import unicodedata
from pathlib import Path
from typing import Any

_TURNS_TEXT = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of what follows, so that a line reads as another than it is."""
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
    """A text without characters that steer a terminal or turn the direction of reading: they are shown as escapes.

    Line ends and tabs stay.
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
    """:func:`printable`, with every run of white space as one space."""
    return printable(" ".join(text.split()))


def markdown(text: str) -> str:
    """A text as Markdown shows it as it is, on one line: no link, picture, emphasis, HTML or cell comes out of it."""
    return _MARKUP.sub(lambda found: f"\\{found[0]}", one_line(text))


def fenced(text: str, language: str = "") -> str:
    """A text as a block of code in Markdown; the fence is longer than any within."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text.rstrip())}\n{fence}"


def latex(text: str) -> str:
    """A text as LaTeX prints it, on one line, so that it cannot leave a comment either."""
    return "".join(_LATEX.get(character, character) for character in one_line(text))


def spreadsheet(value: Any) -> Any:
    """A cell of comma-separated values: text that a spreadsheet takes for a formula gets an apostrophe before it."""
    if not isinstance(value, str) or not value.lstrip().startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def shell_word(text: str) -> str:
    """A word of bash, on one line whatever it holds."""
    if text.isprintable():
        return shlex.quote(text)
    named = text.encode("utf-8", "surrogateescape")  # the bytes that the file system has for a name
    codes = (chr(byte) if 32 <= byte < 127 and byte not in b"'\\" else f"\\x{byte:02x}" for byte in named)
    return "$'" + "".join(codes) + "'"


def shortened(text: str, places: dict[str, Path]) -> str:
    """A text in which paths below some ``places`` begin with their names: ``{"$PHMRUN_DATA": …, "~": …}``."""
    for name, path in sorted(places.items(), key=lambda item: -len(str(item[1]))):
        if len(path.parts) > 1:
            text = re.sub(rf"{re.escape(str(path))}(?=[/\\]|\b)", lambda _, name=name: name, text)  # type: ignore[misc]
    return text
