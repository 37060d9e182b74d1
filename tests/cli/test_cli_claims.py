"""``phmrun claims`` and the page of results say the same of a claim."""

import json
import shutil
from pathlib import Path
from statistics import fmean

import pytest


def test_claims_and_page_print_the_verdict_of_the_results(phmrun, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    folder = Path("results/agreement-embeddings")
    shutil.copytree(Path(__file__).parents[2] / folder, folder)
    Path("results/questions.yaml").write_text(
        "title: T\n"
        "questions: [{question: Q, sweeps: [{name: agreement-embeddings}]}]\n"
        "claims: [{claim: shapeshifter/low-rank-de-en, sweep: agreement-embeddings, row: embedding kronecker,\n"
        "  against: embedding low-rank, reduction: agreement}]\n"
    )
    recorded = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    means = {}
    for structure, rate in (("kronecker", 0.003), ("low-rank", 0.00949)):  # the rates that the pilot seed chose
        runs = [
            run["metrics"]["test/accuracy"]["value"]
            for run in recorded
            if run["config"]["embedding"]["structure"] == structure
            and run["config"]["training"]["optimizer"]["lr"] == rate
            and run["config"]["seed"] > 1
        ]
        assert len(runs) == 5
        means[structure] = fmean(runs)
    findings = json.loads(phmrun("claims", "shapeshifter", "--json").out)
    finding = next(item for item in findings if item["name"] == "low-rank-de-en")
    assert finding["effect"] == pytest.approx(means["kronecker"] - means["low-rank"])
    assert (finding["outcome"], finding["sweep"], finding["seeds"]) == ("holds", "agreement-embeddings", [5, 5])
    low, high = finding["interval"]
    assert 0 < low < finding["effect"] < high
    assert [item["outcome"] for item in findings if item["claim"] != "size"].count("not run") == len(findings) - 2
    shown = phmrun("claims", "shapeshifter").out
    interval = f"{finding['effect']:+.2f} [{low:+.2f}, {high:+.2f}]"
    for text in ("holds‡", interval, "agreement-embeddings, test/accuracy, agreement"):
        assert text in shown
    assert phmrun("results", "build").code == 0
    assert f"holds: {interval}".replace("[", "\\[").replace("]", "\\]") in Path("RESULTS.md").read_text()
    elsewhere = json.loads(phmrun("claims", "shapeshifter", "--runs-dir", "none", "--json", "--results", "results").out)
    assert elsewhere == findings
