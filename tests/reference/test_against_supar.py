"""The biaffine form, its step and spanning trees are those of yzhangcs/parser, in float64."""

import pytest
import torch
from recording import default_double, recorded

from phmrun.decoding.spanning_tree import spanning_trees
from phmrun.layers import Biaffine


@pytest.mark.parametrize(("name", "labels", "bias_y"), [("arc", 1, False), ("rel", 3, True)])
def test_scores_gradients_and_a_step_of_the_biaffine_form(name, labels, bias_y):
    numbers = recorded("supar")
    with default_double():
        form = Biaffine(5, labels, bias_x=True, bias_y=bias_y).double()
        pairs = [(structure.matrix, (label, slice(5), slice(5))) for label, structure in enumerate(form.maps)]
        pairs.append((form.v, (slice(None), 5, slice(5))))
        if bias_y:
            pairs += [(form.u, (slice(None), slice(5), 5)), (form.c, (slice(None), 5, 5))]
        with torch.no_grad():
            for parameter, place in pairs:
                parameter.copy_(numbers[f"{name}/weight"][place])
        scores = form(numbers["x"], numbers["y"])
        torch.testing.assert_close(scores, numbers[f"{name}/scores"], atol=1e-12, rtol=0)
        scores.square().sum().backward()
        torch.optim.Adam(form.parameters(), lr=2e-3, betas=(0.9, 0.9), eps=1e-12).step()
        for parameter, place in pairs:
            torch.testing.assert_close(parameter.grad, numbers[f"{name}/gradient"][place], atol=1e-10, rtol=0)
            torch.testing.assert_close(parameter.detach(), numbers[f"{name}/after"][place], atol=1e-12, rtol=0)


def test_spanning_trees_are_those_of_the_search():
    numbers = recorded("supar")
    heads = spanning_trees(numbers["trees/scores"], numbers["trees/words"] + 1)
    assert heads.tolist() == numbers["trees/single_root"].tolist()
