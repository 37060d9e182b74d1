import math

import pytest
import torch

from phmrun.errors import PhmrunError
from phmrun.models.positions import SinusoidalPositions, sinusoids


def test_sines_then_cosines_of_a_geometric_row_of_rates():
    width, half = 12, 6
    table = sinusoids(50, width)
    assert table.shape == (50, width)
    for position in (0, 1, 7, 49):
        for i in range(half):
            angle = position / 10000 ** (i / (half - 1))
            assert float(table[position, i]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(table[position, half + i]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_longer_input_extends_the_table():
    positions = SinusoidalPositions(8, length=4)
    assert torch.equal(positions(3), sinusoids(3, 8))
    assert torch.equal(positions(20), sinusoids(20, 8))
    assert torch.equal(positions(2), sinusoids(2, 8))
    assert positions.double()(30).dtype == torch.float64
    with pytest.raises(PhmrunError, match="the width 7 is odd"):
        SinusoidalPositions(7)
