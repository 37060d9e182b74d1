"""Pages on the papers: one is what its script makes of the files, one shows scores of results."""

import re
from pathlib import Path

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
    assert len(scores) == 13
    assert [score for score in scores if score not in results] == []
