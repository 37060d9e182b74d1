"""Running text as batches: the streams side by side, and a text to score, word by word."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from phmrun.tasks.lm.config import LanguageModelExperiment
from phmrun.tasks.lm.data import StreamData, stream_batches
from phmrun.tasks.lm.preparation import StreamSettings


def build(tmp_path, words=103, accumulate=1, workers=0, **batch):
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text("".join(f"w{number:03}\n" for number in range(words // 2)))
    config = LanguageModelExperiment(
        batch={"size": 3, "length": 7, **batch},
        decoding={"streams": 4, "length": 5},
        training={"accumulate": accumulate},
        hardware={"workers": workers},
    )
    files = {split: tmp_path / f"{split}.txt" for split in ("train", "dev")}
    data = StreamData(config, files, {"train": "abc"}, StreamSettings(), tmp_path / "cache")
    data.prepare()
    return data


def epoch(data):
    loader = iter(data.train_dataloader())
    return [next(loader) for _ in range(data.steps_in_epochs(1, 1) * data.config.training.accumulate)]


def test_an_epoch_is_the_text_in_equal_streams(tmp_path):
    data = build(tmp_path)
    tokens = data.prepared.stores["train"].tokens.astype(np.int64)
    batches = epoch(data)
    item = len(tokens) // 3
    streams = torch.from_numpy(tokens[: 3 * item].reshape(3, item))
    torch.testing.assert_close(torch.cat([batch.tokens for batch in batches], 1), streams[:, :-1])
    torch.testing.assert_close(torch.cat([batch.targets for batch in batches], 1), streams[:, 1:])
    assert [batch.first for batch in batches] == [True, *[False] * (len(batches) - 1)]
    assert all(batch.units == batch.window_units == batch.tokens.numel() for batch in batches)
    assert all(batch.places is None for batch in batches)


def test_it_begins_where_a_former_process_stopped(tmp_path):
    data = build(tmp_path, random_length=True, accumulate=2)
    straight = epoch(data)
    data.start_step = 1
    for batch, expected in zip(epoch(data)[: len(straight) - 2], straight[2:], strict=True):
        torch.testing.assert_close(batch.tokens, expected.tokens)
        assert batch[2:] == expected[2:]


def test_processes_read_streams_of_their_own(tmp_path):
    class Trainer:
        world_size = 2
        global_rank = 0

    data = build(tmp_path, size=1)
    alone = build(tmp_path, size=2)
    both = epoch(alone)
    for rank in (0, 1):
        data.trainer = Trainer()
        data.trainer.global_rank = rank
        for batch, expected in zip(epoch(data), both, strict=False):
            torch.testing.assert_close(batch.tokens, expected.tokens[rank : rank + 1])
            assert (batch.units * 2, batch.window_units) == (expected.units, expected.window_units)


@given(st.integers(1, 60), st.integers(1, 7), st.integers(1, 9), st.integers(1, 4))
def test_every_word_is_scored_once_with_what_stands_before_it(count, streams, length, world):
    tokens = np.arange(10, 10 + count)
    actual = {}
    for rank in range(world):
        rows = range
        if world > 1:

            def rows(number, rank=rank):
                return range(rank, number, world)

        before = {}
        for batch, where in stream_batches(tokens, before=3, streams=streams, length=length, rows=rows):
            assert batch.units == len(where)
            flat = torch.arange(batch.tokens.numel()) if batch.places is None else batch.places
            read, wanted = batch.tokens.flatten()[flat].tolist(), batch.targets.flatten()[flat].tolist()
            lines = (flat // batch.tokens.shape[1]).tolist()
            for place, token, target, line in zip(where.tolist(), read, wanted, lines, strict=True):
                assert place not in actual
                actual[place] = target
                assert token == (tokens[place - 1] if place else 3)
                assert batch.first == (line not in before)
            before.update(dict.fromkeys(lines, True))
    assert [actual[place] for place in range(count)] == tokens.tolist()
