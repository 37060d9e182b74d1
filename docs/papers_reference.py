"""Reference of the papers' settings and counts, made of the provenance of their files, the audit and the fixtures."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phmrun.config import config_source
from phmrun.config.provenance import KINDS, grouped, kind_of, provenance_of
from phmrun.papers.audit import audit
from phmrun.papers.published import Verdict, headline
from phmrun.papers.table import PaperTable, load_table, setting_names, table_names

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent
PAGE = "reference/papers.md"
FIXTURES = ROOT / "tests" / "reference" / "fixtures"
HEAD = """# Papers' settings

The files under `configs/papers/` give every row of every table its settings, and every setting its provenance:

- **said**: a section or table of the paper;
- **released**: a place in the code of its authors, or in code that the paper says it used;
- **counted**: chosen by printed parameter counts, maybe against the text, which is then named;
- **ours**: a choice of ours, with the reason.

`--dry-run`, a run's README and a table's footnote print it. This page is made of the same files.
[The five papers](../papers.md) has the scores.

The PHM tables are those of the version named R2D2. Other versions print other numbers in Table 4 (7.61 seconds to
train and 336 to decode for 7.79 and 341) and in Table 6.
"""


def on_files(files: "Files", config: Any) -> "Files":
    """Add the page to the documentation (a hook of mkdocs)."""
    from mkdocs.structure.files import File  # only the build of the documentation needs it

    files.append(File.generated(config, PAGE, content=page()))
    return files


def page() -> str:
    """Return the page as Markdown."""
    files = dict(sections())
    counts = Counter(kind_of(text) for section in files.values() for _, text in section.values())
    total = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS)
    parts = [HEAD, f"{sum(counts.values())} settings of {len(files)} files: {total}.\n"]
    parts += ["## Settings\n", *(f"### `{file}`\n\n{rows(section)}" for file, section in files.items())]
    return "\n".join([*parts, "## Printed counts\n", printed(), "## Authors' code beside ours\n", fixtures()])


def sections() -> Iterator[tuple[str, dict[str, tuple[Any, str]]]]:
    """Files with their settings: a value (or all values in the file) and its provenance by key."""
    names = table_names()
    bases = {file for name in names for file in (*load_table(name).config, *row_files(load_table(name)))}
    for file in sorted(bases):
        values = config_source(file).values
        yield file, settings([(values, values["provenance"])])
    for name in names:
        table = load_table(name)
        arguments = [table.base, *(column.set for column in table.columns.values())]
        arguments += [values for row in table.rows for values in (row.set, *row.cells.values())]
        yield name, settings([(values, {**table.provenance, **values.get("provenance", {})}) for values in arguments])


def row_files(table: PaperTable) -> list[str]:
    """Configuration files of single rows."""
    return [file for row in table.rows for file in row.config]


def settings(given: Iterable[tuple[Mapping[str, Any], Mapping[str, str]]]) -> dict[str, tuple[Any, str]]:
    """Values and provenance by key; several values of a key are listed, each once."""
    actual: dict[str, tuple[list[str], str]] = {}
    for values, reference in given:
        for key in setting_names(values):
            value: Any = values
            for part in key.split("."):
                value = value[part]
            texts, _ = actual.setdefault(key, ([], provenance_of(key, reference) or ""))
            texts += [str(value)] if str(value) not in texts else []
    return {key: (" / ".join(texts), text) for key, (texts, text) in actual.items()}


def rows(section: Mapping[str, tuple[Any, str]]) -> str:
    """The settings of a file as a table, by provenance."""
    lines = ["| from | settings |", "|---|---|"]
    return "\n".join([*lines, *(f"| {escaped(text)} | `{escaped(keys)}` |" for text, keys in grouped(section)), ""])


def printed() -> str:
    """The audit's headline, and the figures that differ."""
    figures = list(audit())
    lines = [f"`phmrun count-params --paper all`: {headline([str(figure.verdict) for figure in figures])}.", ""]
    lines += ["A figure is fitted if another value of a setting that is *counted* gives another count.", ""]
    lines += ["| figure that differs | printed | computed | reason |", "|---|---|---|---|"]
    for figure in figures:
        if figure.verdict is Verdict.DIFFERS:
            label = f"{figure.paper} {figure.table}, {figure.row}"
            lines.append(f"| {escaped(label)} | {figure.published} | {figure.computed:,} | {escaped(figure.note)} |")
    return "\n".join([*lines, ""])


def fixtures() -> str:
    """The recorded fixtures: whose code, at which commit, under which license, and what was changed to run it."""
    lines = ["Small networks with fixed weights, recorded from the authors' code and compared in float64.", ""]
    lines += ["| fixture | repository | commit | license | changes needed to run it today |", "|---|---|---|---|---|"]
    for path in sorted(FIXTURES.glob("*.json")):
        source = json.loads(path.read_text())
        repository = source["repository"].removeprefix("https://github.com/")
        commit, license = source["commit"][:12], source["license"].partition(" (")[0]
        lines.append(f"| {path.stem} | {repository} | `{commit}` | {license} | {escaped(source['changes'])} |")
    return "\n".join([*lines, ""])


def escaped(text: str) -> str:
    """Text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("`", "'")
