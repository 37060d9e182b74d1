"""Words of a user's text: raw and tokenized text are distinguished."""

import pytest
from tiny_experiments import configured

from phmrun.engine.data import build_data
from phmrun.tasks.lm.data import is_raw

RAW = "The dog, who was old, saw the cat; the cat saw him.\n" * 3
TOKENISED = "The dog , who was old , saw the cat ; at 10:30 the cat 's owner saw him .\n" * 3


@pytest.mark.parametrize(("text", "raw"), [(RAW, True), (TOKENISED, False)])
def test_raw_text_is_split_at_punctuation_and_its_rare_words_are_unknown(text, raw, tmp_path):
    path = tmp_path / "text"
    path.write_text(text, encoding="utf-8")
    assert is_raw(path) == raw
    arguments = {"train": str(path), "vocabulary": {"multiple_of": 1}}
    data = build_data(configured("lm", tmp_path / "corpus", {"data": arguments}))
    assert (data.settings.splitting, data.settings.min_frequency) == (("punctuation", 2) if raw else ("space", 1))
    assert ("words" in data.fingerprints()) == raw
    messages = build_data(configured("lm", tmp_path / "corpus", {"data": {**arguments, "splitting": "space"}}))
    assert (messages.settings.splitting, messages.settings.min_frequency) == ("space", 1)
