"""The page on the papers has the scores of results."""

from pathlib import Path

import pytest

from phmrun.ledger.record import record_paths, restore

DOCS = Path(__file__).parents[2] / "docs"


COUNTS = {"full": 2, "full-french": 2, "table1-galician": 4, "table1-latin": 2, "table1": 4, "word-vectors": 4}


@pytest.mark.parametrize(("folder", "count"), COUNTS.items())
def test_published_parsers_are_those_on_record(folder, count, tmp_path):
    page = (DOCS / "papers.md").read_text()
    runs = restore(record_paths(DOCS.parent / "results" / f"parser-{folder}"), tmp_path)
    assert len(runs) >= count
    for run in runs:
        scores = " / ".join(f"{run.metrics()[f'test/{name}']['value']:.2f}" for name in ("uas", "las"))
        cells = f"| {run.parameters()['total']:,} | ", f" | {scores} | "
        assert [row for row in page.splitlines() if all(cell in row for cell in cells)]


def test_published_cells_are_those_on_record(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS.parent))
    from benchmarks.published_curve import LINES, bleu, losses

    page = (DOCS / "papers.md").read_text()
    runs = restore(record_paths(DOCS.parent / "results/style-phm-plus"), tmp_path)
    assert len(runs) >= 2
    for run in runs:
        loss = losses(run, "val/loss")
        epochs = ", ".join(f"{loss[at]:.3f}" for at in (0, 4, 8))
        scores = f"| {bleu(run, LINES):.2f} | {bleu(run):.2f} | {epochs} |"
        assert [row for row in page.splitlines() if f"| {run.parameters()['total']:,} |" in row and scores in row]
