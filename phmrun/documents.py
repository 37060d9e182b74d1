"""Strict readers of YAML and JSON, safe for untrusted text.

YAML 1.1 reads ``no`` as false, ``1e-3`` as text and ``1:30:00`` as 5400. This reader uses the core
schema of version 1.2 instead: ``true`` and ``false`` only, numbers as every programmer writes them, times as text.

A few hundred bytes of YAML can expand to gigabytes (an alias to a list of aliases), to a list that contains itself, or
to a number of thousands of digits; a few thousand brackets exhaust the stack. The size of the result is therefore
measured before it is built.

JSON has no NaN and no infinity. A run writes them as the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, which
are turned back into floats when read, so that a diverged run still has a history that other programs can open.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from itertools import chain
from os import PathLike, fspath
from typing import Any, TypeVar

import yaml

from phmrun.errors import PhmrunError

T = TypeVar("T")
LARGEST = 1 << 18
"""Longest YAML text, in characters."""
LARGEST_WRITTEN_OUT = 1 << 20
"""Longest YAML text with its aliases expanded, in characters."""
DEEPEST = 50
"""Deepest nesting of lists and mappings."""
MOST_DIGITS = 100
"""Longest number in characters, enough for any 64-bit number."""
_LONGEST_KEY = 300
"""Longest dotted key whose line is recorded, in characters."""
_SHOWN = 160
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")

_PREFIX = "tag:yaml.org,2002:"
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|nan)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
)
_KEY_TAGS = tuple(f"{_PREFIX}{kind}" for kind in ("str", "merge", "bool", "int", "float"))
"""Tags of keys, which are read as the text they are written as: ``{0: entailment, true: neutral}``."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (PyYAML's own protocol)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        """Construct a mapping; its keys are the texts as they are written."""
        self.flatten_mapping(node)
        return {key.value: self.construct_object(value, deep=deep) for key, value in node.value}

    def construct_number_or_truth(self, node: yaml.ScalarNode) -> bool | int | float:
        """Construct a scalar from its text: "true" or "false" in any case, or a decimal or hexadecimal number.

        Raises:
            yaml.MarkedYAMLError: A number is longer than 100 characters.
        """
        text: str = self.construct_scalar(node).lower()
        if node.tag == f"{_PREFIX}bool":
            return text == "true"
        if len(text) > MOST_DIGITS:
            raise _fault(f"a number of {len(text):,} characters is too long", node)
        if node.tag == f"{_PREFIX}int":
            return int(text, 16 if "x" in text else 10)
        return float(text.replace(".inf", "inf").replace(".nan", "nan"))


for _kind in ("bool", "int", "float"):
    _Loader.add_constructor(f"{_PREFIX}{_kind}", _Loader.construct_number_or_truth)


class Dumper(yaml.SafeDumper):
    """SafeDumper that also quotes text that this reader would take for a number."""

    yaml_implicit_resolvers = {key: list(value) for key, value in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012


for _kind, _pattern, _first in _SCALARS:
    for _class in (_Loader, Dumper):
        _class.add_implicit_resolver(f"{_PREFIX}{_kind}", re.compile(f"^(?:{_pattern})$"), _first)


def yaml_text(values: Any) -> str:
    """Return values as a YAML document, keys in their order; :func:`parse_yaml` reads the same values."""
    return str(yaml.dump(values, Dumper=Dumper, sort_keys=False, allow_unicode=True))


def parse_yaml(text: str, name: str) -> Any:
    """Parse a YAML text.

    ``name`` is its name in messages: the file, or a command-line option.

    Raises:
        PhmrunError: (exit 2) The text is not YAML, gives a key twice, or nests more than 50 levels. Or it has more than
            262,144 characters, or 1,048,576 with its aliases expanded. The place has the line, except for texts that
            are too large or hold control characters.
    """
    brackets = text.count("{") + text.count("[")
    if text.startswith("{") and brackets <= DEEPEST and len(text) <= LARGEST:  # read in a thirtieth of the time
        with suppress(ValueError):
            return parse_json(text, unique=True)
    return parse_yaml_lines(text, name)[0]


def parse_yaml_lines(text: str, name: str) -> tuple[Any, dict[str, int]]:
    """Parse a YAML text, with the line of every key.

    Return its value, and lines (from 1) by dotted key. Keys longer than 300 characters have no line. An empty text
    gives ``None`` and no lines. Arguments and errors are those of :func:`parse_yaml`.
    """
    if len(text) > LARGEST:
        raise PhmrunError(f"{len(text):,} characters are more than the {LARGEST:,} that are read", where=name)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):  # composing a deep text would exhaust the stack
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise _fault("the values are nested too deeply", event)
            if tag := getattr(event, "tag", None):
                raise _fault(f"the tag {_short(tag)} is not read", event)
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None, {}
        _check_nodes(node)
        lines = dict(_line_numbers(node, ""))  # before merged keys are added to the nodes
        return loader.construct_document(node), lines
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise PhmrunError(cut(error.problem or "this is not YAML"), where=where) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise PhmrunError(f"this is not YAML: {cut(str(error))}", where=name) from error


def parse_json(content: bytes | str, *, unique: bool = False) -> Any:
    """Parse a JSON text.

    Bytes are UTF-8, with or without a byte-order mark. With ``unique``, no key may occur twice in an object; else the
    last one counts.

    Raises:
        ValueError: It is not JSON, is nested too deeply, holds half a surrogate pair, or repeats a key.
    """
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_unique if unique else None)
        require_unicode(value, text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these keys and values.

    Raises:
        ValueError: A key occurs twice.
    """
    if len(content := dict(pairs)) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {max(keys, key=keys.count)!r:.60} occurs twice")
    return content


def require_unicode(value: Any, text: str) -> None:
    """Check that a JSON text has no half surrogate pair.

    A ``value`` with one could not be written later.

    Raises:
        ValueError: It has one.
    """
    if ("\\u" in text or not text.isascii()) and _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode("utf-8")


def _check_nodes(root: yaml.Node) -> None:
    """Check keys and sizes of all nodes below a YAML node.

    Raises:
        yaml.MarkedYAMLError: A key is neither text nor a scalar read as text, or occurs twice; a
            value holds itself, expands to more than 1,048,576 characters, or nests more than 50 levels.
    """
    sizes: dict[yaml.Node, tuple[int, int]] = {}
    within: set[yaml.Node] = set()

    def measure(node: yaml.Node) -> tuple[int, int]:
        """Check a node, and return its characters and depth.

        Aliases count as written out. Errors are those of `_check_nodes`.
        """
        if node in within:
            raise _fault("a value holds itself", node)
        # An alias is the very node that it names: measured once, its size is added wherever it stands, so that the time
        # follows the length of the text. Its levels count as well: parse_yaml_lines sees those of the text alone.
        if node in sizes:
            return sizes[node]
        within.add(node)
        size, depth = 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0), 0
        below = node.value if isinstance(node, yaml.CollectionNode) else []
        for child in chain.from_iterable(below) if isinstance(node, yaml.MappingNode) else below:
            more, deeper = measure(child)
            size, depth = size + more, max(depth, deeper + 1)
            if size > LARGEST_WRITTEN_OUT:
                what = f"with its aliases written out, this is more than {LARGEST_WRITTEN_OUT:,} characters"
                raise _fault(what, node)
            if depth > DEEPEST:
                raise _fault("the values are nested too deeply", node)
        lines: dict[str, int] = {}
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _KEY_TAGS:
                raise _fault(f"the key {_short(getattr(key, 'value', ''))} must be text", key)
            if key.value in lines:
                raise _fault(f"the key {_short(key.value)} is given twice, first in line {lines[key.value]}", key)
            lines[key.value] = key.start_mark.line + 1
        within.remove(node)
        sizes[node] = size, depth
        return sizes[node]

    measure(root)


def _line_numbers(node: yaml.Node, prefix: str) -> Iterator[tuple[str, int]]:
    """Yield the dotted keys of nested mappings with their lines, from 1.

    Keys longer than 300 characters, and those below them, are left out.
    """
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = f"{prefix}{key_node.value}"
            if len(key) <= _LONGEST_KEY:
                yield key, key_node.start_mark.line + 1
                yield from _line_numbers(value_node, f"{key}.")


def _fault(what: str, node: Any) -> yaml.MarkedYAMLError:
    """Return the YAML error for a node's place."""
    return yaml.constructor.ConstructorError(None, None, what, node.start_mark)


def _short(value: Any) -> str:
    """Return a text quoted and cut for a message.

    Other values are described as "that is a list or a mapping".
    """
    return cut(repr(value) if isinstance(value, str) else "that is a list or a mapping")


def cut(text: str) -> str:
    """Return a text for quotation in a message.

    It is the first 160 characters, and " …" if the text is longer.
    """
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def plain(value: Any, otherwise: Callable[[Any], str] | None = None) -> Any:
    """Convert a value to one that JSON can hold.

    That is dicts, lists, strings, numbers, booleans and None. Enum members become their values, scalars of NumPy and
    torch Python numbers, paths strings, sets sorted lists, and non-finite floats their names. Keys become strings.
    ``otherwise`` converts values of another kind.

    Raises:
        TypeError: A value is of another kind, and there is no ``otherwise``.
    """
    if isinstance(value, Enum):
        return plain(value.value, otherwise)
    # After Enum: a member of a StrEnum is a str, too, and YAML cannot write members.
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _NON_FINITE[str(float(value))]  # of np.float64, too
    if isinstance(value, Mapping):
        return {str(key): plain(item, otherwise) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [plain(item, otherwise) for item in items]
    if isinstance(value, PathLike):
        return fspath(value)
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return plain(value.item(), otherwise)
    if otherwise is not None:
        return otherwise(value)
    raise TypeError(f"cannot be written as JSON: {type(value).__name__} {cut(repr(value))}")


def restored(value: Any) -> Any:
    """Return a value with non-finite floats restored, at any depth.

    Their names become floats. It undoes this part of `plain`. A text that equals such a name becomes a float, too.
    """
    if isinstance(value, str):
        return float(value) if value in _NON_FINITE.values() else value
    if isinstance(value, dict):
        return {key: restored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [restored(item) for item in value]
    return value


def parsed(content: bytes) -> Any:
    """Parse a JSON file of a run, and restore non-finite floats.

    Raises:
        ValueError: It is not JSON.
    """
    value = parse_json(content)
    return restored(value) if b'NaN"' in content or b'Infinity"' in content else value


def to_line(row: Mapping[str, Any]) -> str:
    """Format a row as one line of JSON, line end included.

    Values are converted by :func:`plain`.

    Raises:
        TypeError: A value cannot be converted.
    """
    return json.dumps(plain(row), ensure_ascii=False, allow_nan=False) + "\n"


def below(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the entries whose dotted keys lie below a prefix, without it in their keys."""
    return {key.removeprefix(f"{prefix}."): value for key, value in values.items() if key.startswith(f"{prefix}.")}


def flat(values: Mapping[str, Any], prefix: str = "", mark: str = ".") -> dict[str, Any]:
    """Flatten nested mappings into one level with dotted names.

    Names begin with ``prefix``; ``mark`` joins their parts. Lists stay values; empty mappings vanish.
    """
    joined: dict[str, Any] = {}
    for key, value in values.items():
        joined |= flat(value, f"{prefix}{key}{mark}", mark) if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return joined


def value_at(values: Any, key: str, default: Any = None) -> Any:
    """Return the value at a dotted key of nested mappings; ``default`` if it is missing or None."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return default if values is None else values
