import torch

from phmrun.layers import build_structure


def test_the_matrix_is_the_parameter():
    structure = build_structure("dense", 5, 3)
    (parameter,) = structure.parameters()
    assert structure.materialize() is parameter
    assert parameter.shape == (5, 3)


def test_it_is_drawn_as_torch_draws_its_own():
    torch.manual_seed(0)
    structure = build_structure("dense", 200, 300)
    structure.reset_parameters(0.5)
    weight = structure.materialize().detach()
    assert abs(float(weight.std()) - 0.5) < 0.01
    assert abs(float(weight.abs().max()) - 0.5 * 3**0.5) < 0.01  # uniform: its bound is √3 times its deviation
