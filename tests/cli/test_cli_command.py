"""Keys of the configuration without ``--set``."""

import pytest

from phmrun.errors import ExitCode


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("model.dropout=0.3",), "--set model.dropout=0.3"),
        (("--model.dropout=0.3",), "--set model.dropout=0.3"),
        (("--model.dropout", "0.3"), "--set model.dropout=0.3"),
        (("--model.dropout", "--restart"), "--set model.dropout=VALUE"),
        (("training.optimizer.betas=[0.9, 0.98]",), "--set 'training.optimizer.betas=[0.9, 0.98]'"),
    ],
)
def test_a_key_without_its_option_is_answered_with_it(phmrun, words: tuple[str, ...], option: str):
    result = phmrun("train", "nmt", *words)
    assert result.code == ExitCode.USAGE
    assert result.err.strip() == f"phmrun: error: {words[0]}: keys of the configuration need --set: {option}"
