"""The page on the papers is what its script makes of the files."""

from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_generated(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    import papers_reference

    assert papers_reference.PAGE.read_text() == papers_reference.page(), "run: python docs/papers_reference.py"
