"""Pages on the papers: one is what its script makes of the files, one shows scores of results."""

import re
from pathlib import Path

import pytest

from phmrun.ledger.recorded_run import RecordedRun
from phmrun.papers import load_table
from phmrun.papers.audit import build_counts
from phmrun.results.baselines import baseline_scores
from phmrun.results.long_table import restore_folder

RESULTS = ("agreement-natural", "parser-released", "ptb-define-epoch", "translation-longer")
DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_generated(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import papers_reference

    assert papers_reference.PAGE.read_text() == papers_reference.page(), "run: python docs/papers_reference.py"


def test_published_beside_ours_shows_scores_that_the_results_hold():
    page = (DOCS / "published.md").read_text()
    results = "".join((DOCS.parent / f"results/{name}/README.md").read_text() for name in RESULTS)
    scores = re.findall(r"\d+\.\d\d ± \d\.\d\d", page)
    assert len(scores) == 19
    assert [score for score in scores if score not in results] == []


@pytest.mark.parametrize(
    ("folder", "count"),
    [
        ("parser-full", 2),
        ("parser-full-french", 2),
        ("parser-table1-galician", 2),
        ("parser-table1-latin", 2),
        ("parser-table1", 4),
        ("parser-word-vectors", 4),
    ],
)
def test_published_parsers_are_those_on_record(folder, count, tmp_path):
    page = (DOCS / "published.md").read_text()
    runs = restore_folder(DOCS.parent / "results" / folder, tmp_path)
    assert len(runs) >= count
    for run in runs:
        scores = " / ".join(f"{run.metrics()[f'test/{name}']['value']:.2f}" for name in ("uas", "las"))
        cells = f"| {run.parameters()['total']:,} | ", f" | {scores} | "
        assert [row for row in page.splitlines() if all(cell in row for cell in cells)]


def test_published_cells_are_those_on_record(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS.parent))
    from benchmarks.published_curve import LINES, bleu, losses

    page = (DOCS / "published.md").read_text()
    runs = restore_folder(DOCS.parent / "results/style-phm-plus", tmp_path)
    assert len(runs) >= 2
    for run in runs:
        loss = losses(run, "val/loss")
        epochs = ", ".join(f"{loss[at]:.3f}" for at in (0, 4, 8))
        scores = f"| {bleu(run, LINES):.2f} | {bleu(run):.2f} | {epochs} |"
        assert [row for row in page.splitlines() if f"| {run.parameters()['total']:,} |" in row and scores in row]


def test_the_table_of_phm_plus_scores_the_lines_that_the_paper_scored(tmp_path, monkeypatch):
    """Each finished run has a row, its score and the floor are those of the first 500 lines."""
    monkeypatch.syspath_prepend(str(DOCS.parent))
    from benchmarks.published_curve import LINES, bleu

    name = "configs/papers/reproduction/table5.yaml"
    table = load_table(name)
    runs = restore_folder(DOCS.parent / "results/style-phm-plus", tmp_path)
    recorded, score = [RecordedRun(run) for run in runs], table.columns["BLEU"].score
    assert [run.score(score) for run in recorded] == [pytest.approx(bleu(run, LINES)) for run in runs]
    assert baseline_scores(recorded, score) == {"copy": pytest.approx(23.575104996291376)}
    counts = {build_counts(table, row, name)["total"] for row in table.rows}
    assert counts >= {run.parameters()["total"] for run in runs}
    assert len(runs) == 5
