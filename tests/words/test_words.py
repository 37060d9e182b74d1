"""Each rule of wording is red on a planted example and green on its plain form."""

from pathlib import Path

import pytest
import yaml

from tests.words.__main__ import RULES, check, main

LONG = "Return " + "a very " * 20 + "long sentence."

PLANTED = {
    "first_words": ('"""Whether the run has finished."""', '"""True if the run has finished."""'),
    "phrases": ("# this kills the process unheard\nx = 1", "# this kills the process silently\nx = 1"),
    "locals": ("def f():\n    found = 1\n    return found", "def f():\n    names = 1\n    return names"),
    "max_sentence_words": (f'"""{LONG}"""', '"""Return a sentence."""'),
}


@pytest.mark.parametrize("rule", PLANTED)
def test_planted_fault_is_reported_and_its_plain_form_is_not(rule: str, tmp_path: Path) -> None:
    rules = yaml.safe_load(RULES.read_text("utf-8"))
    faulty, plain = (tmp_path / "faulty.py", tmp_path / "plain.py")
    faulty.write_text(PLANTED[rule][0])
    plain.write_text(PLANTED[rule][1])
    assert [fault.rule for fault in check(faulty, rules)] == [rule]
    assert list(check(plain, rules)) == []
    assert main([str(tmp_path)]) == 1


def test_every_exception_has_a_reason_and_there_are_fewer_than_twenty() -> None:
    exceptions = yaml.safe_load(RULES.read_text("utf-8"))["exceptions"]
    assert len(exceptions) < 20
    assert all(entry["reason"] for entry in exceptions)
