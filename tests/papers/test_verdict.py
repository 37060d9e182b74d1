"""Rounding, cutting and the verdict, against decimal arithmetic on the digits as text."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.papers.published import Match, Printed, judge


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("44M", "", 44_000_000),
        ("24 M", "", 24_000_000),
        ("721K", "", 721_000),
        ("29,421,568", "", 29_421_568),
        ("68.81", "M", 68_810_000),
        ("0.00", "M", 0),
        ("411", "MB", 411_000_000),
        ("-75.0%", "", -75),
        ("−75.0%", "", -75),
        ("11.59", "", Fraction(1159, 100)),
    ],
)
def test_reading(text, unit, amount):
    assert Printed.parse(text, unit).amount == amount


@pytest.mark.parametrize(
    ("text", "computed", "verdict"),
    [
        ("5.5M", 5_535_744, Match.ROUNDED),
        ("5.5M", 5_549_999, Match.ROUNDED),
        ("5.6M", 5_550_000, Match.ROUNDED),  # half up, not to even
        ("5.5M", 5_550_000, Match.CUT),
        ("2.9M", 2_998_272, Match.CUT),
        ("2.9M", 3_145_728, Match.NONE),
        ("400K", 395_520, Match.NONE),
        ("7,043,264", 7_043_264, Match.ROUNDED),
        ("7,043,264", 7_043_265, Match.NONE),
        ("-49.9%", Fraction(-499_079, 10_000), Match.ROUNDED),
        ("-75.0%", Fraction(-7487, 100), Match.NONE),
        ("-74.8%", Fraction(-7485, 100), Match.CUT),
        ("0.00", 0, Match.ROUNDED),
    ],
)
def test_verdicts(text, computed, verdict):
    assert judge(Printed.parse(text), computed) is verdict


@given(st.integers(0, 10**9), st.sampled_from([0, 1, 2]), st.sampled_from([("K", 3), ("M", 6), ("", 0)]))
def test_what_is_rounded_is_exact_and_what_is_cut_is_at_least_truncated(count, places, unit):
    name, power = unit
    scaled = Decimal(count).scaleb(-power)
    step = Decimal(1).scaleb(-places)
    rounded, cut = (scaled.quantize(step, rounding) for rounding in (ROUND_HALF_UP, ROUND_DOWN))
    assert judge(Printed.parse(f"{rounded}{name}"), count) is Match.ROUNDED
    assert judge(Printed.parse(f"{cut}{name}"), count) is (Match.ROUNDED if cut == rounded else Match.CUT)
    assert judge(Printed.parse(f"{rounded + 2 * step}{name}"), count) is Match.NONE
