import json


def test_overrides_reach_the_evaluation(phmrun, experiment, run_dir):
    options = ["--split", "dev", "--beam", "3", "--alpha", "0.5", "--average", "4", "--checkpoint", "last"]
    result = phmrun("eval", "nmt-b", *options, "--batch-size", "9", "--runs-dir", str(run_dir.parent))
    assert result.code == 0
    [(_, (run,), arguments)] = experiment.calls
    assert run.path == run_dir
    assert arguments == {
        "split": "dev", "decoding": {"beam": 3, "alpha": 0.5}, "checkpoint": "last", "average": 4, "batch_size": 9,
        "device": "auto", "files": [], "pairs": None,
    }  # fmt: skip
    assert "nrefs:1" in result.out


def test_eval_json_names_run_and_metrics(phmrun, experiment, run_dir):
    report = json.loads(phmrun("eval", str(run_dir), "--json").out)
    assert report["run_id"] == run_dir.name
    assert report["run_dir"] == str(run_dir)
    assert report["metrics"]["test/bleu"]["value"] == 30.5


def test_another_test_file(phmrun, experiment, run_dir, tmp_path):
    phmrun("eval", str(run_dir), "--src", "a.en", "--tgt", "a.de")
    phmrun("eval", str(run_dir), "--test", "a.tsv")
    phmrun("eval", str(run_dir), "--test-src", "a.en", "--test-tgt", "a.de")
    files = [[str(path) for path in call[2]["files"]] for call in experiment.calls]
    assert files == [["a.en", "a.de"], ["a.tsv"], ["a.en", "a.de"]]
    for options in (["--src", "a.en"], ["--test", "a", "--split", "dev"], ["--test", "a", "--src", "b"]):
        assert phmrun("eval", str(run_dir), *options).code == 2
    assert len(experiment.calls) == 3
