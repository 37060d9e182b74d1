import csv
import io

import pytest

from phmrun.results.render import csv_table, latex_table, markdown_table

COLUMNS = ("name", "count", "share")
ROWS = [("a|b & c_1", 1234567, "50.0%"), ("†", None, "–")]


def test_csv_reads_back_with_bare_numbers():
    actual = list(csv.reader(io.StringIO(csv_table(COLUMNS, ROWS))))
    assert actual == [["name", "count", "share"], ["a|b & c_1", "1234567", "50.0%"], ["†", "", "–"]]


def test_latex():
    lines = latex_table(COLUMNS, ROWS).splitlines()
    assert lines[0] == r"\begin{tabular}{lrl}"
    assert r"a$|$b \& c\_1 & 1,234,567 & 50.0\% \\" in lines
    assert r"$\dagger$ & -- & -- \\" in lines
    scores = latex_table(("layer", "BLEU"), [["phm", "–"], ["dense", "31.20 ± 0.41*"]])
    assert r"dense & 31.20 $\pm$ 0.41$*$ \\" in scores.splitlines()


@pytest.mark.parametrize(
    ("write", "shown"), [(csv_table, "/home/jane/x"), (markdown_table, "~/x"), (latex_table, "{}/x")]
)
def test_tables_for_readers_tell_no_home(write, shown, monkeypatch):
    monkeypatch.setenv("HOME", "/home/jane")
    assert shown in write(("data",), [("/home/jane/x",)])
