"""Batches: every sentence once, budgets kept, order a pure function of (seed, epoch), windows and ranks consistent."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.text.batches import BatchPlan, BatchStream, evaluation_batches

LENGTHS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=200)
CORPUS = np.random.Generator(np.random.PCG64(0)).integers(1, 50, (2, 3000))


def batches(source, target, *, unit, size, seed, epoch):
    return BatchPlan(source, target, unit=unit, size=size).epoch(seed, epoch)[0]


def plan(unit="tokens", size=400):
    return BatchPlan(*CORPUS, unit=unit, size=size)


@given(LENGTHS, st.sampled_from(["tokens", "sentences"]), st.integers(1, 120), st.integers(0, 5), st.integers(0, 3))
def test_every_sentence_once_and_within_the_budget(lengths, unit, size, seed, epoch):
    source, target = np.array(lengths).T
    actual = batches(source, target, unit=unit, size=size, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(actual).tolist()) == list(range(len(lengths)))
    for batch in actual:
        longest = max(source[batch].max(), target[batch].max()) + 1
        assert len(batch) * (longest if unit == "tokens" else 1) <= size or len(batch) == 1


def test_the_order_is_a_pure_function_of_seed_and_epoch():
    def order(seed, epoch):
        return np.concatenate(batches(*CORPUS, unit="tokens", size=400, seed=seed, epoch=epoch)).tolist()

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3)
    assert order(1, 2) != order(2, 2)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 600), st.integers(1, 4), st.integers(1, 3))
def test_started_anywhere_a_stream_goes_on_as_the_whole_one(position, accumulate, world):
    start = position * world
    for rank in range(world):
        shared = {"seed": 1, "accumulate": accumulate, "rank": rank, "world": world}
        whole = itertools.islice(BatchStream(plan(), **shared), position, position + 7)
        part = itertools.islice(BatchStream(plan(), start=start, **shared), 7)
        for first, two in zip(whole, part, strict=True):
            assert (first.position, first.window_units) == (two.position, two.window_units)
            assert first.indices.tolist() == two.indices.tolist()


@pytest.mark.parametrize(("accumulate", "world"), [(1, 1), (3, 1), (2, 2), (1, 4)])
def test_ranks_share_the_windows_and_know_their_tokens(accumulate, world):
    steps = 2 * len(plan()) // (accumulate * world)  # across the border of an epoch
    streams = [BatchStream(plan(), seed=0, accumulate=accumulate, rank=r, world=world) for r in range(world)]
    taken = [list(itertools.islice(stream, steps * accumulate)) for stream in streams]
    positions = sorted(batch.position for rank in taken for batch in rank)
    assert positions == list(range(steps * accumulate * world))
    for step in range(steps):
        window = [batch for rank in taken for batch in rank[step * accumulate : (step + 1) * accumulate]]
        tokens = sum(int((CORPUS[1][batch.indices] + 1).sum()) for batch in window)
        assert {batch.window_units for batch in window} == {tokens}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_takes_the_stream(workers):
    data = pytest.importorskip("torch.utils.data")
    stream = BatchStream(plan(), seed=0, start=5)
    loader = data.DataLoader(Echo(), sampler=stream, batch_size=None, collate_fn=list, num_workers=workers)
    actual = [batch[0] for batch in itertools.islice(loader, 6)]
    assert actual == [batch.position for batch in itertools.islice(stream, 6)]


class Echo:
    """A dataset that gives back the batch that it is asked for."""

    def __getitem__(self, batch):
        return batch


@given(LENGTHS, st.sampled_from(["tokens", "sentences"]), st.integers(1, 120), st.integers(1, 4))
def test_evaluation_has_every_sentence_once_over_all_ranks(lengths, unit, size, world):
    source, target = np.array(lengths).T
    ranks = [evaluation_batches(source, target, unit=unit, size=size, rank=r, world=world) for r in range(world)]
    actual = [batch for rank in ranks for batch in rank]
    assert sorted(itertools.chain.from_iterable(batch.tolist() for batch in actual)) == list(range(len(lengths)))
    for batch in actual:
        longest = max(source[batch].max(), target[batch].max()) + 1
        assert len(batch) * (longest if unit == "tokens" else 1) <= size or len(batch) == 1


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=80), st.integers(1, 5), st.integers(1, 200))
def test_ranges_of_length_have_the_least_padding_and_batches_of_their_own(lengths, buckets, size):
    costs = np.array(lengths) + 1
    plan = BatchPlan(lengths, lengths, unit="tokens", size=size, buckets=buckets)
    batches, _ = plan.epoch(3, 1)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    distinct = np.unique(costs)
    padded = {
        ends: sum(costs[(costs > low) & (costs <= high)].size * high for low, high in itertools.pairwise((0, *ends)))
        for inner in itertools.combinations(distinct[:-1].tolist(), min(buckets, len(distinct)) - 1)
        for ends in [(*inner, int(distinct[-1]))]
    }
    ranges = {}
    for batch in batches:
        ranges.setdefault(plan._classes[batch[0]], []).append(batch)
        assert len(set(plan._classes[batch])) == 1
    tokens = 0
    for members in ranges.values():
        longest = max(costs[batch].max() for batch in members)
        sizes = [len(batch) for batch in members]
        tokens += sum(sizes) * longest
        assert max(sizes) - min(sizes) <= 1
        assert len(sizes) == min(sum(sizes), max(1, sum(sizes) * longest // size))
    assert tokens == min(padded.values())
