import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.documents import LARGEST, parse_json, parse_yaml, yaml_text
from phmrun.errors import PhmrunError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001), ("1E5", 1e5), ("-.5", -0.5), ("3", 3), ("-3", -3), ("010", 10), ("0x1f", 31), ("1.", 1.0),
        ("no", "no"), ("on", "on"), ("yes", "yes"), ("true", True), ("False", False), ("null", None), ("~", None),
        ("", None), ("1:30:00", "1:30:00"), ("2020-01-01", "2020-01-01"), ("1_000", "1_000"), ("e5", "e5"),
        ("'3'", "3"), ("[1, a]", [1, "a"]), ("{a: 1}", {"a": 1}), ("1e", "1e"), ("+", "+"), ("2017", 2017),
    ],
)  # fmt: skip
def test_scalars(text, value):
    parsed = parse_yaml(text, "--set")
    assert parsed == value
    assert type(parsed) is type(value)


@given(st.text("0123456789.+-eEfxinaNull~<: ", max_size=6), st.floats() | st.integers() | st.booleans())
def test_what_is_written_is_read_back(text, value):
    """A word that looks like a number stays a word, and infinity a number."""
    read, beside = parse_yaml(yaml_text({"a": [text, value], "b": math.inf}), "x")["a"]
    assert (read, type(beside)) == (text, type(value))
    assert beside == value or (beside != beside and value != value)


def test_aliases_are_counted_where_they_are_written_out():
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    with pytest.raises(PhmrunError, match="aliases written out") as caught:
        parse_yaml("\n".join(lines), "laughs.yaml")
    assert caught.value.where.startswith("laughs.yaml:")
    assert caught.value.code == 2


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: {c: *a}}", "a: &a\n  <<: *a", "? &a [*a]\n: 1"])
def test_a_value_that_holds_itself_is_refused_with_its_line(text):
    with pytest.raises(PhmrunError, match="holds itself") as caught:
        parse_yaml(text, "cycle.yaml")
    assert caught.value.where == "cycle.yaml:1"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "\n- - - -"])
def test_depth_is_bounded_before_anything_is_built(opening):
    with pytest.raises(PhmrunError, match="nested too deeply") as caught:
        parse_yaml(opening * 60_000 if opening != "\n- - - -" else "- " * 51 + "a", "deep.yaml")
    assert caught.value.where == "deep.yaml:1"


@pytest.mark.parametrize(
    "number", ["9" * 5000, "0x" + "f" * 5000, "1" * 5000 + ".5", "-" + "9" * 5000, "1e" + "9" * 200]
)
def test_numbers_of_thousands_of_digits_are_refused_with_their_line(number):
    with pytest.raises(PhmrunError, match="characters is too long") as caught:
        parse_yaml(f"a: 1\nb: {number}\n", "digits.yaml")
    assert caught.value.where == "digits.yaml:2"


@pytest.mark.parametrize(
    "text", ["!!int x", "!!int ''", "!!int 1.5", "!!set {a}", "!!float x", "!!timestamp x", "!!binary x", "!!bool x"]
)
def test_a_tag_that_claims_what_the_text_is_not_is_an_error(text):
    with pytest.raises(PhmrunError):
        parse_yaml(f"a: {text}", "x")


def test_a_large_text_is_refused_unread():
    with pytest.raises(PhmrunError, match="are read"):
        parse_yaml("a" * (LARGEST + 1), "x")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '"\\ud800"', '{"\\ud800": 1}', "{", "9" * 5000, b"\xff", b'"\xed\xa0\x80"', ""]
)
def test_json_that_python_reads_or_chokes_on_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)
