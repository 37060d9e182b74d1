"""``phmrun verify``: every link of a trained run, and of results; the first broken one is named, with exit code 3."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_experiments import configured, run_experiment, run_of

from phmrun.checksums import checksum_once
from phmrun.ledger import Run
from phmrun.ledger.manifest import MANIFEST

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with the data, the prepared data and a finished run."""
    folder = tmp_path_factory.mktemp("verify")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHMRUN_CACHE", str(folder / "cache"))
        config = configured("sva", folder / "corpus", {"training": {"max_steps": 4, "average": 0}})
        run = run_of(run_experiment(config, folder / "runs"))
    return folder, run


@pytest.fixture
def copied(trained, tmp_path, monkeypatch):
    """A copy of run and prepared data, to be damaged; the data stay where they were."""
    folder, run = trained
    for name in ("runs", "cache"):
        shutil.copytree(folder / name, tmp_path / name)
    monkeypatch.setenv("PHMRUN_CACHE", str(tmp_path / "cache"))
    checksum_once.cache_clear()
    return Run(tmp_path / "runs" / run.id)


def flip(path, place=40):
    content = bytearray(path.read_bytes())
    content[min(place, len(content) - 1)] ^= 1
    path.write_bytes(content)


def links(result):
    return {link["name"]: link for chain in json.loads(result.out)["chains"] for link in chain["links"]}


def test_a_whole_run(phmrun, copied):
    result = phmrun("verify", str(copied.path), "--json")
    assert (result.code, result.err) == (0, "")
    actual = links(result)
    assert list(actual) == [
        *("manifest", "raw data", "prepared data", "config and id", "weights", "predictions", "record", "scores")
    ]
    assert {link["state"] for link in actual.values()} == {"intact"}
    assert actual["scores"]["detail"].startswith("1 of 1 score recomputed")
    text = phmrun("verify", copied.id, "--runs-dir", str(copied.path.parent)).out
    assert text.count("✓") == 8


@pytest.mark.parametrize(
    ("file", "link"),
    [
        (MANIFEST, "manifest"),
        ("data.json", "raw data"),
        ("config.yaml", "config and id"),
        ("checkpoints/last.ckpt", "weights"),
        ("predictions/test.tsv", "predictions"),
        ("vocabulary/labels.json", "predictions"),
        ("history.jsonl", "record"),
        ("metrics.json", "record"),
        ("status.json", "record"),
    ],
)
def test_the_first_broken_link_is_named(phmrun, copied, file, link):
    flip(copied.path / file)
    result = phmrun("verify", str(copied.path), "--json")
    assert result.code == 3
    actual = links(result)
    assert list(actual)[-1] == link
    assert actual[link]["state"] == "broken"
    assert f"the chain is broken at {link}" in result.err


def test_changed_raw_data_and_damaged_prepared_data(phmrun, copied, trained):
    prepared = next(path for path in (copied.path.parents[1] / "cache").iterdir() if path.is_dir())
    flip(prepared / "train" / "sentence-1" / "tokens.bin", 2)
    result = phmrun("verify", str(copied.path))
    assert result.code == 3
    assert "broken at prepared data: checksum mismatch of train/sentence-1/tokens.bin" in result.err
    text = trained[0] / "corpus" / "train.tsv"
    content = text.read_text()
    try:
        text.write_text(content + "VBZ\tone more\n")
        result = phmrun("verify", str(copied.path))
    finally:
        text.write_text(content)
    assert result.code == 3
    assert "has changed since the run was trained on it" in result.err


def test_a_score_that_its_predictions_do_not_give(phmrun, copied):
    score = copied.metrics()["test/accuracy"]
    copied.update_metrics("test/accuracy", {**score, "value": score["value"] + 1})  # with a checksum of its own
    result = phmrun("verify", str(copied.path))
    assert result.code == 3
    assert "broken at scores: test/accuracy is" in result.err
    assert "recomputed from its items" in result.err


def test_a_config_that_the_id_was_not_made_of(phmrun, copied):
    copied.write_config(copied.config_path.read_text().replace("width: 32", "width: 64"))
    result = phmrun("verify", str(copied.path))
    assert result.code == 3
    assert "model.width is 64 in the config and 32 in the id" in result.err


def test_a_run_without_a_manifest_is_told_and_checked_as_far_as_can_be(phmrun, copied):
    (copied.path / MANIFEST).unlink()
    result = phmrun("verify", str(copied.path), "--json")
    assert result.code == 0
    actual = links(result)
    assert actual["manifest"]["state"] == "absent"
    assert actual["config and id"] == {
        "name": "config and id", "state": "intact", "detail": "the id agrees with the config"
    }  # fmt: skip


def test_runs_and_results_of_a_folder(phmrun, copied, tmp_path, monkeypatch):
    runs = str(copied.path.parent)
    assert phmrun("verify", runs).out.count("✓") == 8
    assert phmrun("results", "add", copied.id, "--runs-dir", runs, "--to", str(tmp_path / "results" / "mine")).code == 0
    result = phmrun("verify", str(tmp_path / "results"), "--json")
    assert (result.code, result.err) == (0, "")
    actual = links(result)
    assert actual["results file"]["state"] == "intact"
    assert actual["scores"]["detail"].startswith("1 of 1 score recomputed")
    # Stored results have names of files without folders: a file of that name in the current one is another.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("train.tsv").write_text("other data\n")
    assert phmrun("verify", str(tmp_path / "results")).code == 0
    flip(next((tmp_path / "results" / "mine").glob("*.json")), 900)
    result = phmrun("verify", str(tmp_path / "results"))
    assert result.code == 3
    assert "broken at results file" in result.err


def test_results_of_runs_that_were_archived_without_weights(phmrun, copied, tmp_path):
    runs, archive = str(copied.path.parent), str(tmp_path / "runs.tar.gz")
    packed = ("runs", "archive", copied.id, "--runs-dir", runs, "--to", archive, "--no-checkpoints")
    assert phmrun(*packed).code == 0
    shutil.unpack_archive(archive, tmp_path / "far")
    add = ("results", "add", copied.id, "--runs-dir", str(tmp_path / "far"), "--to", str(tmp_path / "results" / "mine"))
    result = phmrun(*add)
    assert (result.code, "1 run without weights here" in result.err) == (0, True)
    record = json.loads((tmp_path / "results" / "mine" / f"{copied.id}.json").read_text())
    assert record["weights"] == {}
    assert phmrun("verify", str(tmp_path / "results")).code == 0
    # A run that has lost one of its checkpoints is damaged.
    (copied.checkpoints / "best.ckpt").unlink()
    assert phmrun("results", "add", copied.id, "--runs-dir", runs, "--to", str(tmp_path / "results")).code == 3


def test_restored_results_find_their_data_by_checksum(phmrun, copied, trained, tmp_path):
    runs, results = str(copied.path.parent), str(tmp_path / "results" / "mine")
    assert phmrun("results", "add", copied.id, "--runs-dir", runs, "--to", results).code == 0
    moved = tmp_path / "moved"
    shutil.copytree(trained[0] / "corpus", moved)
    (moved / "train.tsv").rename(moved / "renamed.tsv")
    restored = ("results", "restore", str(tmp_path / "results"), "--runs-dir", str(tmp_path / "restored"))
    assert phmrun(*restored, "--data-dir", str(moved)).code == 0
    run = Run(tmp_path / "restored" / copied.id)
    assert str(moved / "renamed.tsv") in run.config_path.read_text()
    assert "raw data: 3 of 3 files on this machine, as recorded" in phmrun("verify", str(run.path)).out
    result = phmrun(*restored, "--data-dir", str(tmp_path / "results"))
    assert result.code == 3
    assert "no file there is the run's renamed.tsv" in result.err


def test_nothing_to_verify(phmrun, tmp_path):
    assert phmrun("verify", str(tmp_path / "nowhere")).code == 2
    assert phmrun("verify", str(tmp_path)).code == 3


@pytest.mark.slow
def test_the_results_of_the_project_are_whole(phmrun, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    shutil.copytree(ROOT / "results", tmp_path / "results")
    records = sorted((tmp_path / "results").glob("*/*.json"))
    assert [path for path in records if b'\n"sha256": "' not in path.read_bytes()[-100:]] == []
    result = phmrun("verify", str(tmp_path / "results"))
    assert (result.code, result.err) == (0, "")
    assert result.out.count("✓") == len({path.name for path in records})
