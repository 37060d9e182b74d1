"""Movement of a layer's output by one step of each factor.

Inputs are random, or a run's own batches.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any, NamedTuple

import torch

from phmrun.config import Experiment
from phmrun.engine.module import build_module, seed_everything
from phmrun.engine.movement import BATCHES, Movement, first_steps
from phmrun.engine.movement import movements as measured_movements
from phmrun.engine.optimizers import rates
from phmrun.engine.preparation import build_data
from phmrun.layers import Linear


class Moved(NamedTuple):
    """Change of the output by a factor's step, relative to a dense matrix's step."""

    factor: str  # the parameter that is moved; the others stay
    one: float  # with the plain learning rate
    structure: float  # with the learning rate for the factor's shape (:mod:`phmrun.engine.optimizers`)
    measured: float  # with the measured learning rate (:mod:`phmrun.engine.movement`)


def movements(
    structure: str, options: Mapping[str, Any], shape: tuple[int, int], optimizer: str = "adam", draws: int = 5
) -> list[Moved]:
    """Return the change of the output after the first step of each factor.

    It is a mean over random layers. Sets torch's global seed. The step is the learning rate times the gradient's sign
    (Adam's first step), or times the gradient ("sgd"). 64 inputs and their output gradients are normal, the same for
    the structured and the dense layer.

    Args:
        structure: Name of the structure.
        options: Its options.
        shape: Rows and columns of the matrix.
        optimizer: "adam" or "sgd".
        draws: Number of layers.

    Raises:
        PhmrunError: The structure does not fit the shape.
    """
    sums: dict[str, float] = {}
    rows, columns = shape
    for seed in range(draws):
        torch.manual_seed(seed)
        inputs, gradient = torch.randn(64, columns).double(), torch.randn(64, rows).double()
        Linear(columns, rows, bias=False)  # published figures are of the layer that is drawn second
        layer = Linear(columns, rows, bias=False, structure=structure, **options)
        maps, slopes, moments = {"": layer.structure.double()}, {"": gradient.t() @ inputs}, {"": inputs.t() @ inputs}
        names = {id(parameter): name for name, parameter in layer.named_parameters()}
        for parameter, share in first_steps(maps, slopes, moments, optimizer):
            sums[names[id(parameter)]] = sums.get(names[id(parameter)], 0.0) + share / draws
    by_shape = {rate.name: rate.rate for rate, _ in rates(layer, optimizer)}
    return [
        _moved(name.removeprefix("structure."), Movement(share, len(sums)), by_shape[name])
        for name, share in sums.items()
    ]


def movements_of_run(config: Experiment) -> list[Moved]:
    """Return the change of a run's outputs after the first step of each factor.

    The step is on the run's first training batches. Sets the global seeds. The weights are those that the run begins
    with. Dense maps are left out; a run of dense maps gives an empty list.

    Raises:
        PhmrunError: The data are not on this machine (exit 3).
    """
    data = build_data(config)
    data.prepare()
    seed_everything(config.seed)
    module = build_module(config, *data.vocabulary.sizes)
    module.begin(data)
    optimizer = config.training.optimizer.name
    measured = measured_movements(module, list(islice(data.train_dataloader(), BATCHES)), optimizer)
    by_shape = {rate.name: rate.rate for rate, _ in rates(module.network, optimizer)}
    return [_moved(name.replace(".structure.", "."), value, by_shape[name]) for name, value in measured.items()]


def _moved(name: str, movement: Movement, by_shape: float) -> Moved:
    """Return a factor's movement under three learning rates.

    ``one`` is the movement's share, ``structure`` the share × ``by_shape``, ``measured`` the share × the movement's
    multiplier.
    """
    return Moved(name, movement.share, movement.share * by_shape, movement.share * movement.multiplier)
