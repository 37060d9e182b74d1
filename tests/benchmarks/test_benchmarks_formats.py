"""Table of formats: cells of measured formats, and of those that are only written."""

from benchmarks.formats import COLUMNS, row


def test_formats_that_are_not_measured_have_dashes():
    entry = {"label": "torch-export", "bytes": 5763, "difference": 2e-7, "changed": None, "score": None}
    cells = row("phm n=4", entry)
    assert len(cells) == len(COLUMNS)
    assert cells == ("phm n=4", "torch-export", "5,763", "2e-07", "–", "–", "–", "–", "–")
