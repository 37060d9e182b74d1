"""The token store: what is written comes back, half-written stores do not open, memory stays flat."""

import json
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text import store as store_module
from phmrun.text.store import StreamStore, TokenStore, TokenStoreWriter


def write(path, sentences, size=100):
    with TokenStoreWriter(path, vocabulary_size=size) as writer:
        for sentence in sentences:
            writer.append(sentence)
    return TokenStore(path)


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=30), st.sampled_from([3, 1 << 18]))
def test_what_is_written_comes_back(tmp_path_factory, sentences, buffer):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "BUFFER", buffer)
        store = write(tmp_path_factory.mktemp("store") / "new", sentences)
    assert [list(sentence) for sentence in store] == sentences
    assert store.lengths.tolist() == [len(sentence) for sentence in sentences]
    assert len(store.tokens) == sum(map(len, sentences))


def test_an_interrupted_store_does_not_open(tmp_path):
    write(tmp_path, [[1, 2]])

    def interrupted():
        yield [1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, interrupted())
    with pytest.raises(PhmrunError) as caught:
        TokenStore(tmp_path)
    assert caught.value.code is ExitCode.DATA


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.bin", "store.json"])
def test_a_truncated_store_does_not_open(tmp_path, name):
    write(tmp_path, [[1, 2], [3]])
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-1])
    if name == "store.json":
        (tmp_path / name).write_text("{")
    with pytest.raises(PhmrunError, match="damaged"):
        TokenStore(tmp_path)


@pytest.mark.parametrize("change", [{"tokens": math.inf}, {"tokens": -3}, {"sentences": 10**30}, {"dtype": "O"}])
@pytest.mark.parametrize("open_store", [TokenStore, StreamStore])
def test_a_store_that_says_what_cannot_be_does_not_open(tmp_path, change, open_store):
    write(tmp_path, [[1, 2], [3]])
    description = json.loads((tmp_path / "store.json").read_text())
    (tmp_path / "store.json").write_text(json.dumps({**description, **change}))
    if open_store is StreamStore and "sentences" in change:
        return  # it has none
    with pytest.raises(PhmrunError, match="damaged") as caught:
        open_store(tmp_path)
    assert caught.value.code is ExitCode.DATA


def test_writing_takes_constant_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(store_module, "BUFFER", 1000)
    sentence = list(range(50))
    tracemalloc.start()
    try:
        with TokenStoreWriter(tmp_path, vocabulary_size=100) as writer:
            for _ in range(100):
                writer.append(sentence)
            _, early = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            for _ in range(10_000):
                writer.append(sentence)
            _, late = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert late < early + 50_000
    assert len(TokenStore(tmp_path)) == 10_100
    assert np.all(TokenStore(tmp_path)[10_099] == sentence)
