"""The page of a sweep: what it says, from run directories that nobody trained."""

import pytest

from phmrun.config import to_yaml
from phmrun.files import sha256_of
from phmrun.ledger import Run, State
from phmrun.ledger.environment import DataRecord, Split
from phmrun.ledger.segment import Segment
from phmrun.report import checklist
from phmrun.report.content import write_report
from phmrun.report.document import to_markdown
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.results import results_of
from phmrun.sweeps.tuning import Tuned


@pytest.fixture
def stood(planned, tmp_path, written):
    content = {
        "title": "Layers & sizes",
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
        run.update_metrics("test/accuracy", {"value": 80.0 + place, "signature": "labels:a+b"})
        run.update_metrics("validation/best", {"value": 70.0 + place})
        for threads in range(1, 2 + (place == 2)):
            facts = {"python": "3.11", "processor": "a chip", "threads": threads, "packages": {"torch": "2.9"}}
            segment = Segment(run, facts)
            segment.resumed(10 * (threads - 1))
            segment.end("done")
        run.set_state(State.DONE, seconds=90.0, step=20)
    return created, survey(created, tmp_path / "runs")


@pytest.fixture
def page(stood, tmp_path):
    created, statuses = stood
    return write_report(created, statuses, results_of(created, statuses).pivot(), {}, tmp_path / "out" / "page.html")


def test_the_page_has_everything(page):
    assert [path.name for path in page] == ["page.html", "page.md", "page-pareto-1.svg", "page-toy-history.svg"]
    text = page[1].read_text()
    assert text.startswith("# Layers & sizes\n\n6 cells: 3 done · 1 missing · 2 invalid. 4 min of training in all.")
    assert "| dense | 144 | 80.50 ± 0.71 | 2 |" in text
    assert "| phm n=2 | 72 | 82.00 | 1 of 2 |" in text
    assert "| phm n=5 | – | – | 0 of 2 |" in text
    assert "Not run: n = 5 does not divide 12" in text
    assert "test/accuracy: labels:a+b" in text
    assert "title: Layers & sizes" in text  # the sweep's own file
    assert "  width: 12" in text  # and the whole configuration of a cell
    assert "| torch 2.9, Python 3.11, a chip, 1 thread | dense: seeds 1, 2; phm n=2: seed 1 |" in text
    assert "| torch 2.9, Python 3.11, a chip, 2 threads | phm n=2: seed 1 |" in text  # not this process's
    assert "not all made in the same environment: threads: 1, then 2." in text
    assert "seed 1 went on in another one from step 10: threads: 1, then 2." in text
    assert "phmrun sweep " in text
    page_text = page[0].read_text()
    assert page_text.count("data:image/svg+xml;base64,") == 2
    assert "Layers &amp; sizes" in page_text


def test_a_sweep_that_has_not_begun(planned, tmp_path):
    created = planned({"task": "toy"})
    statuses = survey(created, tmp_path / "runs")
    written = write_report(created, statuses, results_of(created, statuses).pivot(), {}, tmp_path / "page.html")
    assert len(written) == 2
    assert "1 missing" in written[1].read_text()


@pytest.mark.parametrize("name", checklist.CHECKLISTS)
def test_a_checklist_is_filled_from_the_record_and_blanks_are_marked(name, stood):
    created, statuses = stood
    items = checklist.fill(name, created, statuses)
    assert len({item.number for item in items}) == len(items)
    answers = {item.number: item.answer for item in items}
    assert "a chip" in answers["C1" if name == "acl" else "8"]
    assert "over seeds" in answers["C3" if name == "acl" else "7"]
    if name == "acl":
        assert "best validation 70.00" in answers["R4"]
        assert "labels:a+b" in answers["R5"]
        trials = tuple(({"training.optimizer.lr": value}, statuses[0]) for value in (0.1, 0.2))
        row = Tuned((created.cells[0],), {}, trials, {"training.optimizer.lr": 0.2})
        output = {item.number: item.answer for item in checklist.fill(name, created, statuses, [row])}
        assert f"{row.label}: 2 trials on validation, training.optimizer.lr in {{0.1, 0.2}}: " in output["R6"]
        assert f"{row.label}: 2 trials" in output["R7"]
    text = to_markdown(checklist.document(name, created, items))
    assert text.count(checklist.BLANK) == sum(not item.answer for item in items) > 0


def test_a_checklist_names_sizes_options_and_checksums_without_python(stood):
    created, statuses = stood
    answers = {item.number: item.answer for item in checklist.fill("acl", created, statuses)}
    assert "layer in {dense, phm n=2, phm n=5}" in answers["R6"]
    assert "layer=phm n=2" in answers["R8"]
    assert "model.width=12" in answers["R8"].partition(";")[0]  # shared settings stand once
    assert answers["R2"].count("on average") == 2  # a row each, not a run each
    assert answers["R3"] == "layer dense: 144; layer phm n=2: 72"
    assert not any("{'" in answer for answer in answers.values())


def test_a_checklist_has_the_size_of_the_test_set_and_the_checksum_of_each_file(stood, tmp_path):
    created, statuses = stood
    run = Run(statuses[0].run.path)
    run.update_metrics("test/accuracy", {"value": 80.0, "signature": "labels:a+b", "n": 2500, "unit": "items"})
    files = [tmp_path / name for name in ("test.en", "test.de")]
    for path in files:
        path.write_text(path.name)
    run.write_data(DataRecord({"dev": Split.of(files), "test": Split.of(files)}))
    again = survey(created, tmp_path / "runs")
    answers = {item.number: item.answer for item in checklist.fill("acl", created, again)}
    assert "test: 2,500 items" in answers["R9"]
    for path in files:  # splits of the same files are named together, so that no checksum is printed twice
        assert answers["R10"].count(f"{path.name} {sha256_of(path)}") == 1
    assert " dev, test: SHA-256 " in answers["R10"]
