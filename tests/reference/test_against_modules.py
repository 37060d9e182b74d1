"""The biaffine form and position vectors are those of yzhangcs/parser and of OpenNMT/OpenNMT-py."""

import pytest
import torch
from recording import default_double, recorded

from phmrun.layers import Biaffine
from phmrun.models.transformer import sinusoids


@pytest.mark.parametrize(("name", "labels", "bias_y"), [("arc", 1, False), ("rel", 3, True)])
def test_scores_and_gradients_of_the_biaffine_form(name, labels, bias_y):
    numbers = recorded("supar")
    weight, gradient = numbers[f"{name}/weight"], numbers[f"{name}/gradient"]
    with default_double():
        form = Biaffine(5, labels, bias_x=True, bias_y=bias_y).double()
        pairs = [(structure.matrix, (label, slice(5), slice(5))) for label, structure in enumerate(form.maps)]
        pairs.append((form.v, (slice(None), 5, slice(5))))
        if bias_y:
            pairs += [(form.u, (slice(None), slice(5), 5)), (form.c, (slice(None), 5, 5))]
        with torch.no_grad():
            for parameter, place in pairs:
                parameter.copy_(weight[place])
        scores = form(numbers["x"], numbers["y"])
        torch.testing.assert_close(scores, numbers[f"{name}/scores"], atol=1e-12, rtol=0)
        scores.square().sum().backward()
        for parameter, place in pairs:
            torch.testing.assert_close(parameter.grad, gradient[place], atol=1e-10, rtol=0)


def test_position_vectors_have_the_rates_of_opennmt():
    """OpenNMT interleaves sines and cosines; ours stand one after the other."""
    theirs = recorded("opennmt-py")["vectors"]
    ours = sinusoids(20, 8, paper=True)
    torch.testing.assert_close(ours, torch.cat([theirs[:, 0::2], theirs[:, 1::2]], 1), atol=1e-5, rtol=0)
    assert float((sinusoids(20, 8) - ours).abs().max()) > 0.01  # tensor2tensor's rates are others
