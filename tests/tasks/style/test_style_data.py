"""Sources of the pairs of a style transfer experiment, in both directions."""

import os
from pathlib import Path

import pytest

from phmrun.checksums import checksum_once
from phmrun.config import Source, resolve, run_id, task_defaults
from phmrun.datasets.catalogue import CATALOGUE
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.tasks.style.config import StyleExperiment
from phmrun.tasks.style.data import build_data


def config_of(**data):
    return resolve(StyleExperiment, [task_defaults("style"), Source("test", {"data": data})], options_of).config


def test_the_default_is_from_modern_to_original():
    config = config_of()
    assert (config.data.name, config.data.source, config.data.target) == ("builtin", "modern", "original")
    back = config_of(source="original", target="modern")
    assert run_id(back, fingerprints={}) != run_id(config, fingerprints={})


def test_the_builtin_corpus_in_both_directions(tmp_path):
    data = build_data(config_of(), tmp_path)
    assert data.fingerprints() == {"builtin": "1-1"}
    assert set(data.baselines) == {"copy"}
    assert [path.name for path in data.files["test"]] == ["test.modern", "test.original"]
    assert data.parts["test"].read_text().split().count("novel") == 100
    back = build_data(config_of(source="original", target="modern"), tmp_path)
    assert back.files["dev"] == data.files["dev"][::-1]
    with pytest.raises(PhmrunError, match="no language 'en'") as caught:
        build_data(config_of(source="en"), tmp_path)
    assert caught.value.valid == ("modern", "original")


def test_target_sentences_as_their_own_sources(tmp_path):
    for split in ("train", "dev"):
        for style, word in (("modern", "you"), ("original", "thou")):
            (tmp_path / f"{split}.{style}").write_text(f"{word} and I\n{word} .\n")
    words = {"kind": "word", "size": 16}
    plain, copied = (
        build_data(config_of(prefix=f"{tmp_path}/", vocabulary=words, copies=copies), tmp_path) for copies in (0, 2)
    )
    source, target = (path.read_text().splitlines() for path in copied.files["train"])
    assert source == ["you and I", "thou and I", "thou and I", "you .", "thou .", "thou ."]
    assert target == [*["thou and I"] * 3, *["thou ."] * 3]
    assert copied.files["dev"] == plain.files["dev"]
    assert copied.fingerprints() == plain.fingerprints()
    assert copied.statistics()["splits"]["train"]["sentences"] == 6
    assert plain.statistics()["splits"]["train"]["sentences"] == 2
    again = build_data(config_of(prefix=f"{tmp_path}/", vocabulary=words, copies=2), tmp_path)
    assert again.files == copied.files
    checksum_once.cache_clear()
    again.files["train"][0].write_text("you and I\n" * 6)  # a damaged cache must not train another model
    mended = build_data(config_of(prefix=f"{tmp_path}/", vocabulary=words, copies=2), tmp_path)
    assert mended.files["train"][0].read_text().splitlines() == source
    (tmp_path / "train.modern").write_text("thou and I\nthou .\n")
    with pytest.raises(PhmrunError, match="each training sentence equals its target"):
        build_data(config_of(prefix=f"{tmp_path}/"), tmp_path)


@pytest.mark.long
@pytest.mark.skipif("PHMRUN_DATA" not in os.environ, reason="PHMRUN_DATA does not say where real corpora are")
def test_the_real_dataset_where_it_is_at_hand(tmp_path):
    if not (Path(os.environ["PHMRUN_DATA"]) / "shakespeare").is_dir() or "shakespeare" not in CATALOGUE.names():
        pytest.skip("shakespeare is not there")
    data = build_data(config_of(name="shakespeare", vocabulary={"kind": "word", "size": 8192}), tmp_path)
    sentences = {split: facts["sentences"] for split, facts in data.statistics()["splits"].items()}
    assert sentences == {"train": 18395, "dev": 1218}
    assert len(data.files["test"][0].read_text(encoding="utf-8").splitlines()) == 1462
    assert data.vocabulary.sizes == (8192, 8192)
