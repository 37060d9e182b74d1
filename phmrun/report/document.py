"""Pages as a tree of parts, written as self-contained HTML or as Markdown.

Imports no torch. Paths below the data directory or the user's home are shortened, since other people read the pages.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from phmrun.escaping import fenced, markdown
from phmrun.files import write_text
from phmrun.ledger.card import shared
from phmrun.results.render import escaped, html_table, markdown_table

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid #8886; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #8884; text-align: left; vertical-align: top; }
td.number { text-align: right; white-space: nowrap; }
pre { overflow-x: auto; padding: .7rem; background: #8881; border-radius: 4px; font-size: 13px; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; background: #fff; }
figcaption, .note { color: #777; font-size: 13px; overflow-wrap: anywhere; }
""".strip()


@dataclass(frozen=True)
class Text:
    """Paragraph, in small print if ``note``."""

    text: str
    note: bool = False


@dataclass(frozen=True)
class Listing:
    """Table of texts and numbers.

    With a title, it is collapsed.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""


@dataclass(frozen=True)
class Picture:
    """SVG file with a caption.

    Markdown refers to it by ``link``, or by its file name if that is empty.
    """

    path: Path
    caption: str
    link: str = ""


@dataclass(frozen=True)
class Code:
    """Preformatted text, such as a configuration.

    With a title, HTML collapses it.
    """

    text: str
    language: str = ""
    title: str = ""


@dataclass(frozen=True)
class Links:
    """List of links to other pages: title, address relative to this page, and a remark."""

    items: Sequence[tuple[str, str, str]]


Part = Text | Listing | Picture | Code | Links


@dataclass(frozen=True)
class Section:
    """Parts under a heading."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Document:
    """Page with an opening and sections."""

    title: str
    opening: Sequence[Part]
    sections: Sequence[Section]


def to_html(document: Document) -> str:
    """Return the page as self-contained HTML.

    Pictures are embedded from their files.
    """
    body = [f"<h1>{escaped(document.title)}</h1>", *map(_html, document.opening)]
    for section in document.sections:
        body += [f"<h2>{escaped(section.title)}</h2>", *map(_html, section.parts)]
    lines = "\n".join(body)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escaped(document.title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{lines}\n"
        f"</body>\n</html>\n"
    )


def to_markdown(document: Document) -> str:
    """Return the page as Markdown; pictures are linked files."""
    blocks = [f"# {_marked(document.title)}", *map(_markdown, document.opening)]
    for section in document.sections:
        blocks += [f"## {_marked(section.title)}", *map(_markdown, section.parts)]
    return "\n\n".join(blocks) + "\n"


def write(document: Document, path: Path) -> list[Path]:
    """Write the page as HTML, and as Markdown with the ending ``.md``.

    Return both paths in this order. Existing files are replaced.
    """
    texts = {path: to_html(document), path.with_suffix(".md"): to_markdown(document)}
    for file, text in texts.items():
        write_text(file, text)
    return list(texts)


def _html(part: Part) -> str:
    """Return a part as HTML.

    A picture is embedded as SVG from its file. Links become a list, notes a paragraph of their own class. A table or
    code with a title is collapsed.
    """
    if isinstance(part, Text):
        kind = ' class="note"' if part.note else ""
        return f"<p{kind}>{escaped(part.text)}</p>"
    if isinstance(part, Picture):
        drawing = base64.b64encode(part.path.read_bytes()).decode("ascii")
        caption = escaped(part.caption)
        image = f'<img alt="{caption}" src="data:image/svg+xml;base64,{drawing}">'
        return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
    if isinstance(part, Links):
        items = (
            f'<li><a href="{quote(to)}">{escaped(name)}</a>: {escaped(remark)}</li>' for name, to, remark in part.items
        )
        return f"<ul>{''.join(items)}</ul>"
    if isinstance(part, Code):
        body = f"<pre><code>{escaped(part.text)}</code></pre>"
    else:
        body = f'<div class="scroll">{html_table(part.columns, part.rows)}</div>'
    return f"<details><summary>{escaped(part.title)}</summary>{body}</details>" if part.title else body


def _markdown(part: Part) -> str:
    """Return a part as Markdown.

    A picture is a link to its ``link``, or to its file name if that is empty. Links become a list, notes a paragraph
    like others. A table with a title is collapsed in a ``<details>`` element; a title precedes code.
    """
    if isinstance(part, Text):
        return _marked(part.text)
    if isinstance(part, Picture):
        return f"![{_marked(part.caption)}]({quote(part.link or part.path.name)})"
    if isinstance(part, Links):
        return "\n".join(f"- [{_marked(name)}]({quote(to)}): {_marked(remark)}" for name, to, remark in part.items)
    if isinstance(part, Code):
        heading = f"{_marked(part.title)}:\n\n" if part.title else ""
        return heading + fenced(shared(part.text), part.language)
    table = markdown_table([*map(shared, part.columns)], part.rows).rstrip("\n")
    if not part.title:
        return table
    return f'<details markdown="1"><summary>{escaped(part.title)}</summary>\n\n{table}\n\n</details>'


def _marked(text: str) -> str:
    """Return a text escaped for Markdown, with paths shortened."""
    return markdown(shared(text))
