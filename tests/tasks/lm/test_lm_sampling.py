"""Choice of the next word: the most probable one, or a draw from a part of the distribution."""

import pytest
import torch

from phmrun.tasks.lm.config import LanguageDecodingConfig
from phmrun.tasks.lm.predictor import distribution, next_word

PROBABILITIES = torch.tensor([0.1, 0.4, 0.05, 0.25, 0.2])


def kept(**options):
    chances = distribution(LanguageDecodingConfig(choice="sample", **options), PROBABILITIES.log())
    assert float(chances.sum()) == pytest.approx(1)
    return chances


def test_temperature_is_a_power_of_the_probabilities():
    """p^(1/T), normalised: T = ½ squares, T = 2 takes roots."""
    for temperature in (0.5, 2.0):
        expected = PROBABILITIES.double() ** (1 / temperature)
        torch.testing.assert_close(kept(temperature=temperature), expected / expected.sum())


@pytest.mark.parametrize(
    ("share", "words"), [(0.01, [1]), (0.4, [1]), (0.5, [1, 3]), (0.66, [1, 3, 4]), (1.0, range(5))]
)
def test_the_nucleus_is_the_fewest_words_with_the_share(share, words):
    assert kept(top_p=share).nonzero().squeeze(1).tolist() == sorted(words)


def test_draws_follow_the_distribution_and_the_seed():
    def draws(seed):
        generator = torch.Generator().manual_seed(seed)
        decoding = LanguageDecodingConfig(choice="sample", top_k=3)
        return [next_word(decoding, PROBABILITIES.log(), generator) for _ in range(2000)]

    actual = torch.tensor(draws(1)).bincount(minlength=5) / 2000
    torch.testing.assert_close(actual, kept(top_k=3).float(), atol=0.03, rtol=0)
    assert draws(1) == draws(1) != draws(2)
