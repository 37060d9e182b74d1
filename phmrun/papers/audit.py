"""Audit of published parameter counts against the networks that the papers describe.

No computed number is stored: each row's network is built on the meta device, by the code that ``train`` uses.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import getitem
from typing import Any

import torch
from pydantic import BaseModel, ValidationError
from torch import nn

from phmrun.config import Experiment, Source, Task, nested, resolve
from phmrun.config.options import options_of
from phmrun.config.problems import choices
from phmrun.config.provenance import kind_of
from phmrun.engine.counting import count_network, count_parameters
from phmrun.errors import PhmrunError, unknown
from phmrun.papers.published import Match, Printed, Verdict, judge
from phmrun.papers.table import Column, PaperRow, PaperTable, load_table, of_column, table_names
from phmrun.registry import TASKS, load

Counts = dict[str, Any]

OPTIONAL = ("norms", "embedding", "output", "define")  # scopes that a measure may name even if a network has none


@dataclass(frozen=True)
class AuditRow:
    """Published figure with the computed one."""

    paper: str  # short name of the paper
    table: str  # number of the table
    row: str  # row and column
    published: str  # as printed
    # parameters (or bytes, percent, fold) of the network built; ``None`` if the figure is quoted
    computed: int | float | None
    verdict: Verdict  # agreement of the two
    note: str  # reason of a difference, or facts that the paper does not state


def audit(paper: str = "all") -> Iterator[AuditRow]:
    """Yield all parameter figures of one or all papers' tables.

    Raises:
        PhmrunError: (exit 2) The paper is unknown, or a table is malformed.
    """
    for name in table_names(paper):
        yield from audit_table(load_table(name), name)


def audit_table(table: PaperTable, name: str) -> Iterator[AuditRow]:
    """Yield all parameter figures of one table.

    Score columns are skipped. A derived share or fold is rounded to four decimals. A label is the row's name, and the
    column's if the table has several such columns. ``name`` is the table's file, for messages.
    """
    networks = _Networks(table, name)
    counting = sum(not column.metric for column in table.columns.values())
    for row in table.rows:
        for heading, cell in row.published.items():
            if table.columns[heading].metric:
                continue
            computed, verdict, note = _judged(networks, row, heading)
            if isinstance(computed, Fraction):
                computed = round(float(computed), 4)
            label = row.name if counting == 1 else f"{row.name} / {heading}"
            yield AuditRow(table.paper, table.table, label, cell, computed, verdict, note)


def build_counts(table: PaperTable, row: PaperRow, name: str, overrides: Mapping[str, Any] | None = None) -> Counts:
    """Return the parameter counts of a row's network, as :func:`~phmrun.engine.counting.count_network`.

    The row's configuration is counted if the table has a task and the row names no network; else the network that row
    or table names. A row's own network does not take the table's base settings. Nothing is allocated.

    Args:
        table: The table.
        row: One of its rows.
        name: File of the table, for messages.
        overrides: Settings that override the row's own.

    Raises:
        PhmrunError: (exit 2) The network, an option or a setting is invalid.
    """
    label = f"{name}, row {row.name}"
    if not _is_experiment(table, row):
        arguments = {**_arguments(table, row), **(overrides or {})}
        with torch.device("meta"):
            return count_network(build_network(row.network or str(table.network), arguments, where=label))
    sizes = row.vocabulary or table.vocabulary
    return count_parameters(row_config(table, row, name, overrides), tuple(sizes) if sizes else None)


def networks() -> dict[str, str]:
    """Return the networks that tables can name, over all tasks.

    Places are ``module:name`` by name; if several tasks have a name, that of the last task counts.
    """
    return {name: place for task in TASKS.names() for name, place in TASKS.get(task).networks.items()}


def build_network(name: str, arguments: Mapping[str, Any], *, where: str | None = None) -> nn.Module:
    """Build one of :func:`networks` and tie its shared parameters.

    It is built on the default device.

    Args:
        name: Name of the network.
        arguments: Its options, ``sizes`` (a list of vocabulary sizes), and its structures ``layer``, ``embedding``,
            ``output``.
        where: Place of the arguments, for messages.

    Raises:
        PhmrunError: (exit 2) The network or an option is unknown, the sizes are missing, or an option is invalid.
    """
    places = networks()
    if name not in places:
        raise unknown("network", name, places, where=where)
    network = load(places[name])
    structures = {place: arguments[place] for place in ("layer", "embedding", "output") if place in arguments}
    options = {key: value for key, value in arguments.items() if key != "sizes" and key not in structures}
    if "sizes" not in arguments:
        raise PhmrunError(f"the network {name!r} needs sizes: a list of vocabulary entries", where=where)
    try:
        checked = network.options(**options)
    except ValidationError as error:
        raise PhmrunError(f"the network {name!r}: {error}", where=where) from error
    return network(checked, arguments["sizes"], structures)


def row_config(table: PaperTable, row: PaperRow, name: str, overrides: Mapping[str, Any] | None = None) -> Experiment:
    """Return the configuration of a row of a task's table.

    Layers of settings: the table's, the row's, ``overrides``. Arguments are those of :func:`build_counts`. A later
    layer replaces values of an earlier one.

    Raises:
        PhmrunError: (exit 2) The task is unknown, or a setting is invalid.
    """
    task: Task = TASKS.get(str(table.task), where=name)
    label = f"{name}, row {row.name}"
    sources = [*table.sources(name), *table.row_sources(row, label), Source(label, overrides or {})]
    return resolve(task.load("schema"), sources, options_of).config


def _is_experiment(table: PaperTable, row: PaperRow) -> bool:
    """True if a row's network is that of a configuration of the table's task."""
    return table.task is not None and row.network is None


def _arguments(table: PaperTable, row: PaperRow) -> dict[str, Any]:
    """Return the arguments of a row's named network, without their provenance."""
    base = table.base if row.network is None else {}
    return {key: value for key, value in {**base, **row.set}.items() if key != "provenance"}


def counted_settings(table: PaperTable, row: PaperRow, name: str) -> dict[str, tuple[Any, list[Any], str]]:
    """Return the settings of a row that were chosen by printed counts, by dotted key.

    Each is (value, other values, provenance). Other values are those of the schema for names, else the opposite or the
    double; a name without a schema has none. Arguments are those of :func:`build_counts`.
    """
    if not _is_experiment(table, row):
        values = _arguments(table, row)
        marks = table.source(name, {**values, "provenance": row.set.get("provenance", {})}).values["provenance"]
        texts, config = {key: (reduce(getitem, key.split("."), values), marks[key]) for key in marks}, None
    else:
        config = row_config(table, row, name)
        texts = config.provenance_values()
    chosen = {key: pair for key, pair in texts.items() if kind_of(pair[1]) == "counted"}
    return {key: (value, _others(config, key, value), text) for key, (value, text) in chosen.items()}


def _others(config: Experiment | None, key: str, value: Any) -> list[Any]:
    """Return other values of a setting, see :func:`counted_settings`."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, str):
        *sections, last = key.split(".")
        section = reduce(getattr, sections, config) if config else None
        field = type(section).model_fields.get(last) if isinstance(section, BaseModel) else None
        return [name for name in (choices(field.annotation) if field else []) if name != value]
    return [[2 * number for number in value] if isinstance(value, list | tuple) else 2 * value] if value else []


@dataclass
class _Networks:
    """Cache of the counts of a table's rows."""

    table: PaperTable
    name: str
    built: dict[str, Counts] = field(default_factory=dict)

    def count(self, row: PaperRow, heading: str, overrides: Mapping[str, Any] | None = None) -> int:
        """Return a column's count of a row's network.

        It is in parameters × the column's ``bytes_each``. The network is built once per settings. The row's own measure
        of the column goes before the column's; the default is all parameters.
        """
        key = json.dumps([row.network, row.config, row.set, row.vocabulary, overrides], sort_keys=True)
        if key not in self.built:
            self.built[key] = build_counts(self.table, row, self.name, overrides)
        column = self.table.columns[heading]
        measure = row.counts.get(heading, column.counts)
        return measured(self.built[key], measure or "total", column.without, self.name) * column.bytes_each

    def fitted(self, row: PaperRow, heading: str) -> str:
        """Return a note if the printed number chose what a column's count of a row rests on; empty otherwise.

        That is ``inferred``, or a setting whose provenance is "counted", if another value of it gives another count.
        """
        settings = counted_settings(self.table, row, self.name).items()
        reasons = (
            f"{key} = {value}, {text}"
            for key, (value, others, text) in settings
            if any(self._differs(row, heading, self._override(row, key, other)) for other in others)
        )
        reason = row.inferred.get(heading) or next(reasons, "")
        return f"chosen to meet the printed number: {reason}" if reason else ""

    def _differs(self, row: PaperRow, heading: str, overrides: Mapping[str, Any]) -> bool:
        """True if a column's count of a row differs with other settings; False if they are invalid."""
        with suppress(PhmrunError):
            return self.count(row, heading, overrides) != self.count(row, heading)
        return False

    def _override(self, row: PaperRow, key: str, value: Any) -> dict[str, Any]:
        """Return overrides with another value of a dotted key.

        A named network's arguments are not merged, so that the whole section is returned.
        """
        if _is_experiment(self.table, row):
            return nested({key: value})
        section, _, option = key.partition(".")
        return {section: {**_arguments(self.table, row)[section], option: value} if option else value}

    def printed(self, row: PaperRow, heading: str) -> Printed:
        """Parse a printed cell.

        The column's unit and the row's number of digits apply.
        """
        return Printed.parse(row.published[heading], self.table.columns[heading].unit, row.digits.get(heading))


def measured(counts: Counts, measure: str | list[str], without: list[str], where: str) -> int:
    """Return the parameters that a measure selects from counts.

    See :class:`Column`. "matrices" is the number of the blocks' matrices, whatever ``without`` says. Scopes that are
    :data:`OPTIONAL` may be missing and count 0.

    Args:
        counts: Counts of the network.
        measure: ``matrices``, ``total``, ``blocks`` (all but embedding and output), or a list of scopes.
        without: Scopes to leave out; ``norms`` leaves out normalization layers in every scope.
        where: Place for messages.

    Raises:
        PhmrunError: (exit 2) The network has no such scope, or the measure is unknown.
    """
    if measure == "matrices":
        return int(counts["block_matrices"]["count"])
    scopes = list(counts["by_scope"])
    norms = "norms" in without
    asked = [] if isinstance(measure, str) else measure
    unknown = [name for name in [*asked, *without] if name not in (*scopes, *OPTIONAL)]
    if unknown or (isinstance(measure, str) and measure not in ("total", "blocks")):
        raise PhmrunError(f"a network without {unknown or measure}", where=where, valid=scopes)
    outside = {"embedding", "output"} if measure == "blocks" else set()
    chosen = {scope for scope in (asked or scopes) if scope not in outside and scope not in without}
    modules = [module for module in counts["modules"] if module["scope"] in chosen]
    return sum(module["count"] for module in modules if not (norms and module["kind"] == "norm"))


def _judged(networks: _Networks, row: PaperRow, heading: str) -> tuple[Any, Verdict, str]:
    """Return computed value, verdict and note of a cell, which is counted, or derived from two counts.

    QUOTED: the value is ``None``. A network's share of itself is TRIVIAL or DIFFERS. UNDERDETERMINED: the paper leaves
    something open, whatever the count, since an equal number may be chance. Else the verdict is FOLLOWS if the printed
    digits agree, ROUNDED if only stated digits count, that of the first of :func:`_sources` if they differ, ROUNDED if
    the number is cut, or DIFFERS; FITTED if it rests on a setting chosen by printed counts, TRIVIAL for a count of 0
    that agrees. The note has the source of the number, the counts of the row's other readings, and the row's remark.
    """
    column, remark = networks.table.columns[heading], of_column(row.note, heading)
    if quoted := of_column(row.quoted, heading):
        return None, Verdict.QUOTED, _joined(f"from {quoted}", remark)
    counting, compared, computed = heading, [row], Fraction()
    if column.counts:
        computed = Fraction(networks.count(row, heading))
    else:
        counting, compared = str(column.of), [row, networks.table.row(row.against or str(column.against))]
        computed = _derive(column, *(networks.count(its, counting) for its in compared))
    value = int(computed) if column.counts else computed
    printed = networks.printed(row, heading)
    match = judge(printed, computed)
    if row in compared[1:]:
        return value, Verdict.TRIVIAL if match is Match.ROUNDED else Verdict.DIFFERS, remark
    counts = {name: networks.count(row, counting, overrides) for name, overrides in row.readings.items()}
    listed = "; ".join(f"{name}: {count:,}" for name, count in counts.items() if column.counts and count != computed)
    if missing := next(filter(None, (of_column(its.missing, counting) for its in compared)), ""):
        ours = f"{row.reading}: {value:,}" if column.counts else ""
        return value, Verdict.UNDERDETERMINED, _joined(f"not stated: {missing}", ours, listed, remark)
    verdict, source = Verdict.FOLLOWS, ""
    if match is not Match.ROUNDED:
        cut = (Verdict.ROUNDED, "cut, not rounded") if match is Match.CUT else (Verdict.DIFFERS, "")
        sources = _sources(networks, row, heading, compared)
        fitting = ((kind, text) for number, kind, text in sources if judge(printed, number) is Match.ROUNDED)
        verdict, source = next(fitting, cut)
    elif heading in row.digits:
        verdict, source = Verdict.ROUNDED, f"printed to {row.digits[heading]} digits"
    fitted = next(filter(None, (networks.fitted(its, counting) for its in compared)), "")
    if verdict in (Verdict.FOLLOWS, Verdict.ROUNDED) and (fitted or not computed):
        verdict = Verdict.FITTED if computed else Verdict.TRIVIAL
    return value, verdict, _joined(fitted, remark, source, "" if verdict is Verdict.FOLLOWS else listed)


def _sources(
    networks: _Networks, row: PaperRow, heading: str, compared: Sequence[PaperRow]
) -> Iterator[tuple[Fraction, Verdict, str]]:
    """Yield other printed numbers that a cell may come from: value, verdict if it is the cell's, and note.

    First the sum of the cells that the column ``follows``, or the ratio of the printed counts: ROUNDED if these are all
    their networks' counts, else DIFFERS. Then the cell that it repeats, and 100 / a printed percentage of the row: that
    cell's verdict, ROUNDED instead of FOLLOWS.
    """
    column = networks.table.columns[heading]
    signs = {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in column.follows}
    cells = [(its, str(column.of)) for its in compared] if column.derived else [(row, name) for name in signs]
    if cells and all(name in its.published for its, name in cells):
        # The amounts are fractions: as binary floats, sums of decimals may miss the printed one in its last digit.
        amounts = [networks.printed(*cell).amount for cell in cells]
        total = sum((sign * amount for sign, amount in zip(signs.values(), amounts, strict=False)), Fraction())
        listed = " and ".join(its.published[name] for its, name in cells)
        agree = all(judge(networks.printed(*cell), networks.count(*cell)) is not Match.NONE for cell in cells)
        verdict = Verdict.ROUNDED if agree else Verdict.DIFFERS
        yield _derive(column, *amounts) if column.derived else total, verdict, f"derived from the printed {listed}"
    if heading in row.repeats:
        name, repeated = row.repeats[heading]
        other = networks.table.row(name)
        if networks.count(other, repeated) == networks.count(row, heading):
            text = f"the printed {repeated} of {name}, the same parameters"
            yield networks.printed(other, repeated).amount, _rounded(networks, other, repeated), text
    for name, share in networks.table.columns.items():
        same = (share.derived, share.of, share.against) == ("percent", column.of, column.against)
        if column.derived == "fold" and same and name in row.published:
            text = f"derived from the printed {row.published[name]}"
            yield 100 / networks.printed(row, name).amount, _rounded(networks, row, name), text


def _rounded(networks: _Networks, row: PaperRow, heading: str) -> Verdict:
    """Return a cell's verdict, ROUNDED instead of FOLLOWS."""
    verdict = _judged(networks, row, heading)[1]
    return Verdict.ROUNDED if verdict is Verdict.FOLLOWS else verdict


def _derive(column: Column, count: int | Fraction, against: int | Fraction) -> Fraction:
    """Return a derived value as an exact fraction.

    ``percent``: 100 · count / against; ``fold``: against / count; else the percentage minus 100.
    """
    if column.derived == "fold":
        return Fraction(against) / Fraction(count)
    share = 100 * Fraction(count) / Fraction(against)
    return share if column.derived == "percent" else share - 100


def _joined(*parts: str) -> str:
    """Join the nonempty parts with "; "."""
    return "; ".join(part for part in parts if part)
