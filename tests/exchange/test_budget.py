"""Parameters spread over maps, against trying all spreads."""

import itertools
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.exchange.maps import FittedMap, spread


def choice(name, parameters, damage):
    return FittedMap(name, name, (10, 10), {"structure": "x", "n": parameters}, parameters, 0.5, None, damage)


DAMAGES = st.lists(st.floats(0.01, 1.0), min_size=3, max_size=3).map(lambda found: sorted(found, reverse=True))


@settings(max_examples=40, deadline=None)
@given(st.lists(DAMAGES, min_size=2, max_size=4), st.sampled_from([Fraction(1, 3), Fraction(1, 2), Fraction(3, 4)]))
def test_a_spread_keeps_within_the_budget_and_is_near_the_best(damages, budget):
    sizes = (13, 25, 50)
    choices = {
        str(number): [
            choice(str(number), 100, 0.0),
            *(choice(str(number), *item) for item in zip(sizes, actual, strict=True)),
        ]
        for number, actual in enumerate(damages)
    }
    most = int(budget * 100 * len(damages))
    actual = spread(choices, most)
    assert sum(item.parameters for item in actual.values()) <= most
    reached = sum(item.damage for item in actual.values())
    best = min(
        sum(item.damage for item in combination)
        for combination in itertools.product(*choices.values())
        if sum(item.parameters for item in combination) <= most
    )
    assert reached >= best - 1e-12
    # Beside the best spread of as many parameters, at most one map has less than it could.
    assert reached <= best + max(max(item) for item in damages)


def test_what_is_free_is_taken():
    choices = {name: [choice(name, 100, 0.0), choice(name, 25, 0.5)] for name in "ab"}
    assert [item.parameters for item in spread(choices, 200).values()] == [100, 100]
    assert sorted(item.parameters for item in spread(choices, 130).values()) == [25, 100]
