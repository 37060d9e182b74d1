"""Damaged input out of good input: bytes, tokens, lines, and values within JSON. Every try follows from its number."""

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

TOKENS: tuple[bytes, ...] = (
    b"", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\r", b"\n", b"\n\n", b"\t", b" ", b"\x1f\x8b", b"\x1b[31m",
    "\u2028".encode(), "\u202e".encode(), "\u00a0".encode(), "\x85".encode(), b"'", b'"', b"\\", b"#", b"%", b"$(id)",
    b"`id`",
    b"0", b"-1", b"1e999", b"nan", b"NaN", b"-Infinity", b"1.5", b"9" * 25, b"9" * 5000, b"0x" + b"f" * 400, b"1e-9",
    "²".encode(), "٣".encode(), b"true", b"null", b"~", b"_", b"-", b"[" * 2000, b"{" * 2000, b"{a: " * 200, b"]", b"}",
    b",", b":", b"&a ", b"*a", b"&a [*a]", b"<<: *a", b"!!int x", b"!!python/object:os.system id", b"- ", b"? ", b"|\n",
    b"---\n", b"../../etc/passwd", b"/dev/zero", b"\\ud800", b"\\u0000", b"<script>", b"=1+1", b"x" * 70_000,
)  # fmt: skip
"""What readers stumble over."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**30, 10**400, -(10**400), 0.5, -0.0, 1e308, float("inf"),
    float("nan"), "", "x", "\0", "\ud800", "nan", "Infinity", "../..", "/dev/zero", "a" * 5000, [], {}, [[]], [32],
    [{}], {"": 0}, {"a": {"a": {}}}, ["x", 1, None], "²", "1" * 5000,
)  # fmt: skip
"""Values that take the place of another."""

MOST = 200_000
"""Bytes of a damaged input."""


class Mutator:
    """Damages inputs.

    Args:
        seeds: Good inputs.
        own: Tokens of the format beside the usual ones.
        structured: Whether the inputs are JSON, whose values are exchanged half of the time.
    """

    def __init__(self, seeds: Sequence[bytes], own: Sequence[bytes] = (), *, structured: bool = False) -> None:
        self.seeds = list(seeds)
        self.tokens = [*TOKENS, *own]
        self.structured = structured

    def damaged(self, draw: random.Random) -> bytes:
        """A damaged input."""
        content = draw.choice(self.seeds)
        if draw.random() < 0.03:
            return content
        if self.structured and draw.random() < 0.5:
            content = self._with_other_values(content, draw)
            if draw.random() < 0.8:
                return content[:MOST]
        for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
            content = draw.choice(_WAYS)(content, self, draw)[:MOST]
        return content

    def _with_other_values(self, content: bytes, draw: random.Random) -> bytes:
        try:
            value = json.loads(content)
        except ValueError:
            return content
        for _ in range(draw.choice((1, 1, 2, 4))):
            value = _exchanged(value, draw)
        try:
            return json.dumps(value, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")
        except ValueError:  # a number too long to be printed
            return content


def _exchanged(value: Any, draw: random.Random) -> Any:
    """The value with one of its parts exchanged, left out or doubled."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        key = draw.choice(list(value))
        rest = {other: part for other, part in value.items() if other != key}
        way = draw.random()
        if way < 0.15:
            return rest
        if way < 0.25:
            return {**rest, draw.choice(("", "x", key + "x", "\ud800", "a.b")): value[key]}
        return {**value, key: _exchanged(value[key], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        way = draw.random()
        if way < 0.2:
            return value[:place] + value[place + 1 :]
        if way < 0.3:
            return value + [value[place]] * draw.choice((1, 2, 300))
        return [*value[:place], _exchanged(value[place], draw), *value[place + 1 :]]
    return draw.choice(VALUES)


def _flip(content: bytes, _: Mutator, draw: random.Random) -> bytes:
    if not content:
        return content
    place = draw.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]


def _insert(content: bytes, mutator: Mutator, draw: random.Random) -> bytes:
    place = draw.randint(0, len(content))
    return content[:place] + draw.choice(mutator.tokens) + content[place:]


def _replace(content: bytes, mutator: Mutator, draw: random.Random) -> bytes:
    first, last = _span(content, draw)
    return content[:first] + draw.choice(mutator.tokens) + content[last:]


def _delete(content: bytes, _: Mutator, draw: random.Random) -> bytes:
    first, last = _span(content, draw)
    return content[:first] + content[last:]


def _repeat(content: bytes, _: Mutator, draw: random.Random) -> bytes:
    first, last = _span(content, draw)
    return content[:last] + content[first:last] * draw.choice((1, 2, 50)) + content[last:]


def _cut(content: bytes, _: Mutator, draw: random.Random) -> bytes:
    return content[: draw.randint(0, len(content))]


def _splice(content: bytes, mutator: Mutator, draw: random.Random) -> bytes:
    other = draw.choice(mutator.seeds)
    return content[: draw.randint(0, len(content))] + other[draw.randint(0, len(other)) :]


def _swap_lines(content: bytes, _: Mutator, draw: random.Random) -> bytes:
    lines = content.split(b"\n")
    first, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[first], lines[other] = lines[other], lines[first]
    return b"\n".join(lines)


def _exchange_word(content: bytes, mutator: Mutator, draw: random.Random) -> bytes:
    """Puts a token in the place of what stands between two separators."""
    separator = draw.choice((b"\t", b" ", b"\n", b",", b":", b"|"))
    words = content.split(separator)
    words[draw.randrange(len(words))] = draw.choice(mutator.tokens)
    return separator.join(words)


def _span(content: bytes, draw: random.Random) -> tuple[int, int]:
    first = draw.randint(0, len(content))
    return first, min(len(content), first + draw.choice((1, 1, 2, 4, 16, 256)))


_WAYS: tuple[Callable[[bytes, Mutator, random.Random], bytes], ...] = (
    _flip, _insert, _insert, _replace, _delete, _repeat, _cut, _splice, _swap_lines, _exchange_word, _exchange_word,
)  # fmt: skip
