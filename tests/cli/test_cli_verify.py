"""``phmrun verify``: every link of a trained run, and of results; the first broken one is named, with exit code 3."""

import json
import shutil
from pathlib import Path

import pytest
from damage import flip
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


def links(result):
    return {link["name"]: link for chain in json.loads(result.out)["chains"] for link in chain["links"]}


def test_a_whole_run(phmrun, copied):
    result = phmrun("verify", str(copied.path), "--json")
    assert (result.code, result.err) == (0, "")
    actual = links(result)
    assert list(actual) == ["raw data", "prepared data", "config and id", "files", "scores"]
    assert {link["state"] for link in actual.values()} == {"intact"}
    assert actual["scores"]["detail"].startswith("2 of 2 scores recomputed")
    text = phmrun("verify", copied.id, "--runs-dir", str(copied.path.parent)).out
    assert text.count("✓") == 5


@pytest.mark.parametrize(
    ("file", "link"),
    [
        (MANIFEST, "raw data"),
        ("data.json", "raw data"),
        ("config.yaml", "config and id"),
        ("checkpoints/last.ckpt", "files"),
        ("predictions/test.tsv", "files"),
        ("history.jsonl", "files"),
        ("metrics.json", "files"),
    ],
)
def test_the_first_broken_link_is_named(phmrun, copied, file, link):
    flip(copied.path / file, 40)
    result = phmrun("verify", str(copied.path), "--json")
    assert result.code == 3
    actual = links(result)
    assert list(actual)[-1] == link
    assert actual[link]["state"] == "broken"
    assert f"the chain is broken at {link}" in result.err


def test_a_run_without_its_manifest_is_not_whole(phmrun, copied):
    (copied.path / MANIFEST).unlink()
    assert "the chain is broken at files: there is no manifest.json" in phmrun("verify", str(copied.path)).err
    queued = Run.create(copied.path.parent, f"sva-files-dense-1-{0:012}", copied.config_text)
    assert (done := phmrun("verify", str(queued.path))).code == 0
    assert "the run has not begun" in done.out


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


def test_runs_and_results_of_a_folder(phmrun, copied, tmp_path, monkeypatch):
    runs = str(copied.path.parent)
    assert phmrun("verify", runs).out.count("✓") == 5
    assert phmrun("results", "add", copied.id, "--runs-dir", runs, "--to", str(tmp_path / "results" / "mine")).code == 0
    result = phmrun("verify", str(tmp_path / "results"), "--json")
    assert (result.code, result.err) == (0, "")
    actual = links(result)
    assert actual["results file"]["state"] == "intact"
    assert actual["scores"]["detail"].startswith("2 of 2 scores recomputed")
    # Stored results have names of files without folders: a file of that name in the current one is another.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    Path("train.tsv").write_text("other data\n")
    assert phmrun("verify", str(tmp_path / "results")).code == 0
    flip(next((tmp_path / "results" / "mine").glob("*.json")), 900)
    result = phmrun("verify", str(tmp_path / "results"))
    assert result.code == 3
    assert "broken at results file" in result.err


@pytest.mark.long
def test_the_results_of_the_project_are_whole(phmrun, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    shutil.copytree(ROOT / "results", tmp_path / "results")
    records = sorted((tmp_path / "results").glob("*/*.json"))
    assert [path for path in records if b'\n"sha256": "' not in path.read_bytes()[-100:]] == []
    result = phmrun("verify", str(tmp_path / "results"))
    assert (result.code, result.err) == (0, "")
    assert result.out.count("✓") == len({path.name for path in records})
