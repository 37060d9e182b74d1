import random

import numpy as np
import torch

from phmrun.engine import randomness
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
    kept = Randomness()
    states = kept.state_dict()
    expected = draw()
    kept.load_state_dict(states)
    assert draw() != expected
    kept.on_train_batch_start(None, None, None, 0)
    assert draw() == expected
    after = draw()
    kept.on_train_batch_start(None, None, None, 1)
    assert draw() not in (expected, after)


def test_each_process_draws_its_own_masks(monkeypatch):
    draws = []
    for rank in (None, 0, 1, 2):
        torch.manual_seed(1)
        if rank is not None:
            monkeypatch.setattr(randomness, "rank", lambda rank=rank: rank)
            Randomness().on_train_start(None, None)
        draws.append(torch.rand(1).item())
    assert draws[0] == draws[1]  # the first process is as one alone
    assert len(set(draws[1:])) == 3
