import csv
import io

import pytest

from phmrun.cli.formats import Format, formatted

COLUMNS = ("name", "count", "share")
ROWS = [("a|b & c_1", 1234567, "50.0%"), ("†", None, "–")]


def test_csv_reads_back_with_bare_numbers():
    actual = list(csv.reader(io.StringIO(formatted(COLUMNS, ROWS, Format.CSV))))
    assert actual == [["name", "count", "share"], ["a|b & c_1", "1234567", "50.0%"], ["†", "", "–"]]


def test_latex():
    lines = formatted(COLUMNS, ROWS, Format.LATEX).splitlines()
    assert lines[0] == r"\begin{tabular}{l S[table-format=7.0, group-separator={,}, group-minimum-digits=4] l}"
    assert r"a$|$b \& c\_1 & 1234567 & 50.0\% \\" in lines
    assert r"$\dagger$ & {--} & -- \\" in lines
    assert lines[-1] == r"\end{tabular}"
    scores = formatted(("layer", "BLEU"), [["phm", "–"], ["dense", "31.20 ± 0.41*"]], Format.LATEX)
    assert r"dense & 31.20 \pm 0.41 {$*$} \\" in scores.splitlines()


@pytest.mark.parametrize(("style", "shown"), [(Format.CSV, "/home/jane/x"), (Format.MD, "~/x"), (Format.LATEX, "{}/x")])
def test_tables_for_readers_tell_no_home(style, shown, monkeypatch):
    monkeypatch.setenv("HOME", "/home/jane")
    assert shown in formatted(("data",), [("/home/jane/x",)], style)
