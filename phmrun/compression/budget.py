"""How parameters are spread over maps: for each one of several choices, so that the sum of the damages is least."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from phmrun.compression.maps import FittedMap
from phmrun.errors import PhmrunError

ROUNDS = 60


def spread(choices: Mapping[str, Sequence[FittedMap]], budget: Fraction) -> dict[str, FittedMap]:
    """One choice for each map, within a share of the parameters that all maps would have dense.

    A price per parameter is sought at which the maps, each taking what is cheapest for itself, together keep within
    the budget (Lagrange; Everett 1963): no other spread of as many parameters does less damage. What is then left over
    goes to the maps that gain most by it.

    Args:
        choices: The choices of each map, whose ``damage`` is known; that of a dense map is 0.
        budget: Share of the dense parameters.

    Raises:
        PhmrunError: The smallest choices need more than that.
    """
    dense = {name: options[0].shape[0] * options[0].shape[1] for name, options in choices.items()}
    most = int(budget * sum(dense.values()))
    smallest = sum(min(option.parameters for option in options) for options in choices.values())
    if smallest > most:
        share = smallest / sum(dense.values())
        raise PhmrunError(
            f"the smallest choices of all maps need {share:.3f} of the dense parameters", where="--budget"
        )

    def taken(price: float) -> dict[str, FittedMap]:
        return {
            name: min(options, key=lambda option: (_damage(option) + price * option.parameters, option.parameters))
            for name, options in choices.items()
        }

    def size(chosen: Mapping[str, FittedMap]) -> int:
        return sum(option.parameters for option in chosen.values())

    low, high = 0.0, 1e-12
    while size(taken(high)) > most:
        high *= 10
    if size(taken(0.0)) <= most:
        return taken(0.0)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if size(taken(middle)) > most else (low, middle)
    return _filled(taken(high), choices, most)


def _filled(
    chosen: dict[str, FittedMap], choices: Mapping[str, Sequence[FittedMap]], most: int
) -> dict[str, FittedMap]:
    """The rest of the budget spent, the best gain per parameter first."""
    while True:
        room = most - sum(option.parameters for option in chosen.values())
        steps = [
            ((_damage(chosen[name]) - _damage(option)) / (option.parameters - chosen[name].parameters), name, option)
            for name, options in choices.items()
            for option in options
            if 0 < option.parameters - chosen[name].parameters <= room and _damage(option) < _damage(chosen[name])
        ]
        if not steps:
            return chosen
        _, name, option = max(steps, key=lambda step: step[0])
        chosen = {**chosen, name: option}


def _damage(option: FittedMap) -> float:
    """What a choice costs; never less than nothing, since noise is no gain."""
    return max(option.damage or 0.0, 0.0)
