import random

import numpy as np
import torch

from phmrun.engine.randomness import Randomness, random_states, set_random_states


def draw():
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.normal(), torch.rand(1).item()]


def test_states_go_out_and_come_back_through_a_safe_file(tmp_path):
    random.gauss(0, 1)  # leaves the second of a pair of draws behind, which is state as well
    np.random.normal()
    torch.save(random_states(), tmp_path / "states.pt")
    expected = [draw() for _ in range(3)]
    assert draw() not in expected
    set_random_states(torch.load(tmp_path / "states.pt", weights_only=True))
    assert [draw() for _ in range(3)] == expected


def test_they_come_back_at_the_first_batch_and_once():
    randomness = Randomness()
    states = randomness.state_dict()
    expected = draw()
    randomness.load_state_dict(states)
    assert draw() != expected
    randomness.on_train_batch_start(None, None, None, 0)
    assert draw() == expected
    after = draw()
    randomness.on_train_batch_start(None, None, None, 1)
    assert draw() not in (expected, after)
