"""Sentence pairs as tensors: what the model reads, where it predicts, and what counts."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_experiments import write_corpus

from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelBatches, ParallelCorpus, ParallelData
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.batches import Batch
from phmrun.text.vocabulary import BOS, EOS, PAD


class Store:
    """Token sequences in memory, as the stores on disk give them."""

    def __init__(self, *pairs):
        self.source, self.target = (
            [np.array(side, dtype=np.uint16) for side in sides] for sides in zip(*pairs, strict=True)
        )


STORE = Store(([10, 11], [20, 21, 22]), ([12], [23]), ([13, 14, 15], []))


def test_a_batch_of_pairs_by_hand():
    batch = ParallelBatches(STORE)[Batch(7, np.array([1, 0]), 99)]
    assert batch.source.tolist() == [[12, EOS, PAD], [10, 11, EOS]]
    assert batch.mask.tolist() == [[[[True, True, False]]], [[[True, True, True]]]]
    assert batch.target.tolist() == [[BOS, 23, PAD, PAD], [BOS, 20, 21, 22]]
    assert batch.positions.tolist() == [0, 1, 4, 5, 6, 7]
    assert batch.wanted.tolist() == [23, EOS, 20, 21, 22, EOS]
    assert batch.units == 6
    assert batch.window_units == 99
    assert {tensor.dtype for tensor in (batch.source, batch.target, batch.positions, batch.wanted)} == {torch.int64}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def data_of(corpus: Path, cache: Path, *, joint: bool = True, accumulate=1, seed=3, workers=0) -> ParallelData:
    files = {split: (corpus / f"{split}.aa", corpus / f"{split}.bb") for split in ("train", "dev", "test")}
    vocabulary = {"kind": "word", "size": 160, "joint": joint, "multiple_of": 16}
    config = TranslationExperiment(
        data={"vocabulary": vocabulary, "max_length": 100},
        model={"tie": "all" if joint else "none"},
        batch={"unit": "tokens", "size": 60},
        training={"accumulate": accumulate},
        seed=seed,
        hardware={"workers": workers},
    )
    return ParallelData(config, ParallelCorpus(files, {"train": "sum"}), cache)


def stream_of(data, count):
    return list(itertools.islice(iter(data.train_dataloader()), count))


def equal(one, other):
    return all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in zip(one, other, strict=True))


def test_an_epoch_holds_every_pair_once(corpus, prepared_corpora):
    data = data_of(corpus, prepared_corpora)
    batches = stream_of(data, len(data.plan))
    decode = data.prepared.vocabulary.source.decode
    seen = sorted(decode(row.tolist()) for batch in batches for row in batch.source)
    assert seen == sorted((corpus / "train.aa").read_text().splitlines())
    lengths = [len(line.split()) + 1 for line in (corpus / "train.bb").read_text().splitlines()]
    assert sum(batch.units for batch in batches) == sum(lengths)
    assert all(max(batch.source.numel(), batch.target.numel()) <= 60 for batch in batches)
    assert all(batch.window_units == batch.units for batch in batches)


@pytest.mark.parametrize("workers", [0, 2])
def test_it_starts_where_a_step_begins_and_draws_nothing(corpus, prepared_corpora, workers):
    data = data_of(corpus, prepared_corpora, accumulate=2)
    expected = stream_of(data, 40)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    later = data_of(corpus, prepared_corpora, accumulate=2, workers=workers)
    later.start_step = 15
    for first, other in zip(stream_of(later, 10), expected[30:], strict=True):
        assert equal(first, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_known_of_the_data(corpus, prepared_corpora, tmp_path):
    data = data_of(corpus, prepared_corpora)
    assert data.vocabulary.sizes == (128, 128)  # 120 words and 4 special entries, filled up to a multiple of 16
    assert data.fingerprints() == {"train": "sum"}
    assert data.statistics()["splits"]["train"]["sentences"] == 150
    assert data.unit == "tokens"
    config = TranslationExperiment(data={"vocabulary": {"path": tmp_path / "vocabulary"}})
    with pytest.raises(PhmrunError, match=r"data\.vocabulary\.path: .* holds no vocabulary"):
        ParallelData(config, ParallelCorpus({}, {}), prepared_corpora)
    data.vocabulary.save(tmp_path / "vocabulary")
    assert ParallelData(config, ParallelCorpus({}, {}), prepared_corpora).given.sizes == (128, 128)
    separate = data_of(corpus, prepared_corpora, joint=False)
    assert separate.vocabulary.sizes == (64, 64)
