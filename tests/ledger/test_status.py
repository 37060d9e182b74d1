"""Reasons of failed runs."""

from phmrun.ledger.status import State, Status

OF_WEIGHTS = "exit code 4: the weights encoder.0.weight are no longer numbers at optimizer step 3"
OF_VALIDATION = "the validation's loss is -inf at optimizer step 12"


def test_only_the_reasons_of_a_divergence_count_as_one():
    for reason in (OF_WEIGHTS, OF_VALIDATION, "test/accuracy is nan, which is not a finite number"):
        assert Status(State.FAILED, reason).diverged
        assert not Status(State.FAILED, f"RuntimeError: {reason}").diverged
    assert not Status(State.FAILED, "RuntimeError: bad index at optimizer step 3").diverged
