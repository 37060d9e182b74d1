"""Choice of the next word: the most probable one, or a draw."""

import torch

from phmrun.tasks.lm.config import LanguageDecodingConfig
from phmrun.tasks.lm.predictor import next_word

PROBABILITIES = torch.tensor([0.1, 0.4, 0.05, 0.25, 0.2])


def test_draws_follow_temperature_and_seed():
    """Temperature T takes p^(1/T), normalized."""

    def draws(seed):
        generator = torch.Generator().manual_seed(seed)
        decoding = LanguageDecodingConfig(choice="sample", temperature=0.5)
        return [next_word(decoding, PROBABILITIES.log(), generator) for _ in range(2000)]

    actual = torch.tensor(draws(1)).bincount(minlength=5) / 2000
    torch.testing.assert_close(actual, PROBABILITIES**2 / (PROBABILITIES**2).sum(), atol=0.03, rtol=0)
    assert draws(1) == draws(1) != draws(2)
    assert next_word(LanguageDecodingConfig(), PROBABILITIES.log(), torch.Generator()) == 1
