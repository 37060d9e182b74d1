from phmrun.layers import build_structure


def test_the_matrix_is_the_parameter():
    structure = build_structure("dense", 5, 3)
    (parameter,) = structure.parameters()
    assert structure.materialize() is parameter
    assert parameter.shape == (5, 3)
