"""The page of a sweep: what it says, from run directories that nobody trained."""

import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from phmrun.cli import report as verb
from phmrun.config import to_yaml
from phmrun.ledger import Run, State
from phmrun.ledger.segment import Segment
from phmrun.report.content import outcome, subject_of, write_report
from phmrun.results.comparison import differences
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.results import results_of


@pytest.fixture
def stood(planned, tmp_path, written):
    content = {
        "title": "Layers & <sizes>",
        "task": "toy",
        "base": {"model": {"width": 12}},
        "grid": {"layer": ["dense", {"structure": "phm", "n": 2}, {"structure": "phm", "n": 5}]},
        "seeds": 2,
    }
    created = planned(content)
    for place, cell in enumerate(created.cells[:3]):
        run = Run.create(tmp_path / "runs", str(cell.run_id), to_yaml(cell.config))
        run.write_parameters({"total": cell.parameters})
        run.set_state(State.RUNNING)
        for step in (10, 20):
            run.history.append({"step": step, "time": step, "val/loss": 3.0 - step / 10 - place, "train/loss": 1.0})
        run.add_metrics({"test/accuracy": {"value": 80.0 + place, "signature": "labels:a+b"}})
        run.add_metrics({"validation/best": {"value": 70.0 + place}})
        for threads in range(1, 2 + (place == 2)):
            facts = {"python": "3.11", "processor": "a chip", "threads": threads, "packages": {"torch": "2.9"}}
            segment = Segment(run, facts)
            segment.resumed(10 * (threads - 1))
            segment.end("done")
        run.set_state(State.DONE, seconds=90.0, step=20)
    return created, survey(created, tmp_path / "runs")


class Tags(HTMLParser):
    """Checks that the tags of a page are closed; collects addresses and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attributes):
        self.sources += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def page(stood, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    created, statuses = stood
    place = tmp_path / "out" / "page.html"
    return write_report(subject_of(created), statuses, results_of(created, statuses).pivot(), place)


def test_the_page_has_everything(page):
    assert [path.name for path in page] == ["page.html", "page.md", "page-pareto-1.svg", "page-toy-history.svg"]
    markdown = page[1].read_text()
    first = "So far, with 3 of 6 cells done, beside the baseline, phm n=2 is undecided in test accuracy (%): 82.00"
    assert markdown.startswith(f"# Layers & \\<sizes\\>\n\n{first} with 72 parameters.")
    assert "| dense | 144 | 80.50 ± 0.71 | 2 |" in markdown
    tags = Tags()
    tags.feed(page[0].read_text())
    text = tags.text
    assert "Layers & <sizes>" in text
    assert f"{first} with 72 parameters." in text
    assert "6 cells: 3 done · 1 missing · 2 invalid. 4 min of training in all." in text
    rows = re.sub(r"</?t[dr][^>]*>", "|", page[0].read_text())
    assert "||dense||144||80.50 ± 0.71||2||" in rows
    assert "||phm n=2||72||82.00||1 of 2||" in rows
    assert "||phm n=5||–||–||0 of 2||" in rows
    assert "Not run: n = 5 does not divide 12" in text
    assert "test/accuracy: labels:a+b" in text
    assert "title: Layers & <sizes>" in text  # the sweep's own file
    assert "  width: 12" in text  # and the whole configuration of a cell
    assert "||torch 2.9, Python 3.11, a chip, 1 thread||dense: 2 seeds; phm n=2: 1 seed||" in rows
    assert "||torch 2.9, Python 3.11, a chip, 2 threads||phm n=2: 1 seed||" in rows  # not this process's
    assert "not all made in the same environment: threads: 1, then 2." in text
    assert "phmrun sweep " in text


def test_html_is_well_formed_and_needs_no_network(page):
    text, tags = page[0].read_text(), Tags()
    tags.feed(text)
    assert tags.open == []
    assert [source.split(",")[0] for source in tags.sources] == ["data:image/svg+xml;base64"] * 2
    assert not re.search(r"<(script|link|iframe)|@import|url\(", text)
    assert "Layers & <sizes>" in tags.text
    assert '<td class="number">80.50 ± 0.71</td>' in text


def test_running_ones_have_the_time_left(stood, tmp_path):
    created, statuses = stood
    run = statuses[3].cell.run_id
    started = Run.create(tmp_path / "runs", str(run), to_yaml(created.cells[3].config))
    started.set_state(State.RUNNING, seconds=30.0, step=5)
    with started.lock():
        statuses = survey(created, tmp_path / "runs")
        table = results_of(created, statuses).pivot()
        path, *_ = write_report(subject_of(created), statuses * 3, table, tmp_path / "page.html", refresh=10.0)
    tags = Tags()
    tags.feed(text := path.read_text())
    assert tags.open == []
    assert "<script src" not in text
    assert re.search(r"of training in all. About [\d.]+ (min|s|h) left\.", tags.text)


def test_outcome_is_the_verdict_in_one_sentence(stood, tmp_path):
    created, statuses = stood
    cell = created.cells[3]
    run = Run.create(tmp_path / "runs", str(cell.run_id), to_yaml(cell.config))
    run.add_metrics({"test/accuracy": {"value": 82.5, "signature": "labels:a+b"}})
    run.set_state(State.DONE, step=20)
    statuses = survey(created, tmp_path / "runs")[:4]
    table = results_of(created, statuses).pivot()
    assert outcome(table, differences(table), statuses) == (
        "Beside the baseline, phm n=2 is undecided in test accuracy (%): "
        "82.25 (+1.75, -2.36 to +5.86) with 72 parameters."
    )
    assert outcome(table, {}, statuses) == (
        "The best test accuracy (%) is 82.25, of phm n=2 with 72 parameters; nothing is compared, since a verdict "
        "needs two or more seeds of a row and of dense."
    )
    runless = {(len(table.rows), 0): differences(table)[1, 0]}  # a row of diverged seeds alone
    assert outcome(table, runless, statuses) == outcome(table, {}, statuses)


@pytest.mark.parametrize("name", ["a b/x|y's.yaml", "~/a b.yaml", "c.yaml"])
def test_commands_are_quoted_for_the_shell(stood, name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    created, _ = stood
    sweep = replace(created.sweep, where=name.replace("~", str(tmp_path)))
    command = subject_of(replace(created, sweep=sweep)).commands.splitlines()[1].replace("phmrun report", "printf %s")
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout == sweep.where


def test_watched_page_of_runs_loads_itself_and_escapes_their_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (1, 2):
        config = f"task: toy\nseed: {seed}\ndata: {{name: <script>x</script>}}\nlayer: dense\n"
        run = Run.create(tmp_path / "runs", f"toy-x-dense-{seed}-00000000000{seed}", config)
        run.add_metrics({"test/accuracy": {"value": 80.0 + seed, "signature": "<b>"}})
        run.set_state(State.DONE if seed == 1 else State.QUEUED)
    names = [run.name for run in sorted((tmp_path / "runs").iterdir())]
    (page, *_), left = verb._write(names, tmp_path / "page.html", tmp_path / "runs", refresh=10.0)
    text, tags = page.read_text(), Tags()
    tags.feed(text)
    assert (left, tags.open) == (1, [])
    assert '<meta http-equiv="refresh" content="10">' in text
    assert not re.search(r"<(script|b>|link|iframe)", text)
    assert "So far, with 1 of 2 cells done, the best" in tags.text
    assert "toy on <script>x</script>: dense, 2 runs" in tags.text
    (page, *_), _ = verb._write(names, page, tmp_path / "runs", refresh=0.0)
    assert "http-equiv" not in page.read_text()
