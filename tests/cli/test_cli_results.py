"""``phmrun results``, on the results that the project carries: no data, no training."""

import json
import re
import shutil
from pathlib import Path
from statistics import fmean

import pytest
from matplotlib.figure import Figure

from phmrun.errors import ExitCode, PhmrunError
from phmrun.report import results_page
from phmrun.results.plots import sweeps as pictures

ROOT = Path(__file__).parents[2]
SWEEP = "agreement-phm"


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """The results in a folder of their own, on a machine without data."""
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results", tmp_path / "results")
    shutil.copy(ROOT / "RESULTS.md", tmp_path / "RESULTS.md")
    return tmp_path


def test_a_page_that_says_something_else_is_told_and_left(phmrun, clone, monkeypatch):
    monkeypatch.setattr(results_page, "page_of", lambda folder: results_page.Page("# Results\n", {}, {}))
    before = (clone / "RESULTS.md").read_text()
    result = phmrun("results", "build", "--check")
    assert result.code == ExitCode.DATA
    assert "the page is not what the results say" in result.err
    assert (clone / "RESULTS.md").read_text() == before
    assert phmrun("results", "build").code == 0
    assert phmrun("results", "build", "--check").code == 0


def test_the_page_is_what_the_results_say_and_pictures_are_drawn_again_the_same(phmrun, clone, monkeypatch):
    page = results_page.page_of(Path("results"))
    monkeypatch.setattr(results_page, "page_of", lambda folder: page)  # made once: it reads hundreds of runs
    result = phmrun("results", "build", "--check")
    assert (result.code, result.err) == (0, "")
    records = {path.name: json.loads(path.read_text()) for path in Path("results").glob("*/*.json")}  # a copy is one
    hours = sum(part["cpu_seconds"] for record in records.values() for part in record["environment"]) / 3600
    assert f"{len(records)} runs, trials of the tuning among them; {hours:.1f} CPU hours in all." in page.text
    assert len(page.text.encode()) <= 15 * 1024
    before = {picture: picture.read_bytes() for picture in page.pictures}
    for picture in before:
        picture.unlink()
    assert phmrun("results", "build", "--check").code == ExitCode.DATA
    assert phmrun("results", "build").code == 0
    assert {picture: picture.read_bytes() for picture in before} == before


def test_tables_are_made_of_results_alone(phmrun, clone):
    first = clone / "results" / SWEEP
    for folder in (clone / "results").iterdir():
        if folder.is_dir() and folder.name not in (SWEEP, "ptb-small"):
            shutil.rmtree(folder)
    restored = phmrun("results", "restore", "results", "--runs-dir", "runs", "--json")
    assert len(json.loads(restored.out)["runs"]) == len(list((clone / "results").glob("*/*.json")))
    alone = phmrun("results", "restore", str(first), "--runs-dir", "of one sweep")
    assert alone.out == f"{len(list(first.glob('*.json')))} runs in of one sweep\n"
    options = ["--runs-dir", "runs", "--json"]
    cells = json.loads(phmrun("table", str(first / "sweep.yaml"), *options).out)["cells"]
    by_n = {cell["layer.n"]: cell for cell in cells}
    recorded = [json.loads(path.read_text()) for path in first.glob("*.json")]
    rate = {"dense": "", "phm": by_n["2"]["training.optimizer.lr"]}
    values = [
        item["metrics"]["test/accuracy"]["value"]
        for item in sorted(recorded, key=lambda record: record["config"]["seed"])
        if item["config"]["layer"].get("n") == 2
        and float(item["config"]["training"]["optimizer"]["lr"]) == float(rate["phm"])
    ]
    assert by_n["2"]["values"] == values
    assert by_n["8"]["verdict"] == "different"
    assert phmrun("report", str(first / "sweep.yaml"), *options[:-1], "--out", "page.html").code == 0
    assert "| phm n=8, lr 0.00949 | -9.09 |" in Path("page.md").read_text()
    refused = phmrun("eval", by_n["2"]["runs"][0], "--runs-dir", "runs")
    assert refused.code == ExitCode.DATA
    assert "only its result is here" in refused.err


def test_table_and_picture_show_every_seed_that_has_a_run(phmrun, clone, monkeypatch):
    folder = clone / "results" / "translation-equal"
    phmrun("results", "restore", str(folder), "--runs-dir", "runs")
    by_rate: dict[tuple[str, float], dict[int, float]] = {}
    for record in map(json.loads, (path.read_text() for path in folder.glob("*.json"))):
        config = record["config"]
        row = config["layer"]["structure"], float(config["training"]["optimizer"]["lr"])
        by_rate.setdefault(row, {})[config["seed"]] = record["metrics"]["test/bleu"]["value"]
    # Only at the chosen rate are there more seeds than one.
    scores = {layer: [seeds[n] for n in sorted(seeds)] for (layer, _), seeds in by_rate.items() if len(seeds) > 1}
    means = {layer: fmean(values) for layer, values in scores.items()}
    cells = json.loads(phmrun("table", str(folder / "sweep.yaml"), "--runs-dir", "runs", "--json").out)["cells"]
    assert {cell["layer"].split()[0]: cell["values"] for cell in cells} == scores
    first = phmrun("table", str(folder / "sweep.yaml"), "--only", "seed=1", "--runs-dir", "runs", "--json").out
    assert [cell["planned"] for cell in json.loads(first)["cells"]] == [1] * 5
    drawn = []
    monkeypatch.setattr(pictures, "draw_pareto", lambda points, *_, **more: drawn.extend(points) or Figure())
    assert phmrun("plot", "pareto", str(folder / "sweep.yaml"), "--runs-dir", "runs", "--out", "a.svg").code == 0
    assert {point.label.split()[0].strip(","): point.score for point in drawn} == pytest.approx(means)
    assert means["phm"] > means["monarch"]


def test_a_wrong_folder_or_run_says_what_goes_on(phmrun, clone):
    assert "no such folder\n`phmrun results add" in phmrun("results", "restore", "none").err
    assert phmrun("results", "build", f"results/{SWEEP}").err.endswith("phmrun results build results\n")
    (clone / "mine").mkdir()
    assert "phmrun results add sweep.yaml --to mine/NAME" in phmrun("results", "build", "mine").err
    for path in (clone / "results" / SWEEP).glob("*.json"):
        if path.name != sorted(item.name for item in path.parent.glob("*.json"))[0]:
            path.unlink()
    assert phmrun("results", "restore", f"results/{SWEEP}", "--runs-dir", "runs").out == "1 run in runs\n"
    refused = phmrun("report", "latest", "--runs-dir", "runs")
    assert refused.code == ExitCode.USAGE
    assert "README.md\n`phmrun runs show sva-" in refused.err


def test_a_folder_without_questions_has_a_section_for_each_sweep(phmrun, clone):
    for folder in (clone / "results").iterdir():
        if folder.is_dir() and folder.name != SWEEP:
            shutil.rmtree(folder)
    (clone / "results" / "questions.yaml").unlink()
    built = phmrun("results", "build", "--out", "mine.md")
    assert (built.code, "questions.yaml does not exist" in built.err) == (0, True)
    page = Path("mine.md").read_text()
    assert "Reduced Linzen: PHM beside dense at equal steps" in page


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "questions.yaml").write_text("title: t\nqestions: []\n"), "questions"),
        (lambda folder: (folder / SWEEP / "sva-x-1-0123456789ab.json").write_text("[1]"), "not a result of a run"),
    ],
)
def test_what_is_damaged_is_named(phmrun, clone, change, message):
    change(clone / "results")
    result = phmrun("results", "build")
    assert result.code == ExitCode.DATA
    assert message in result.err


def test_plug_ins_of_contributed_sweeps_are_not_executed(phmrun, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results" / SWEEP, "results/given")
    with Path("results/given/sweep.yaml").open("a") as sweep:
        sweep.write("plugins: [hostile.py]\n")
    Path("results/given/hostile.py").write_text("import pathlib\npathlib.Path('executed').touch()\n")
    Path("RESULTS.md").write_text("")
    for command in (["results", "build"], ["results", "build", "--check"], ["verify", "results"]):
        phmrun(*command)
        assert not Path("executed").exists()
    refused = phmrun("results", "build")
    assert refused.code == ExitCode.DATA
    assert "hostile.py, whose code is not run unless you name it" in refused.err
    command = refused.err.strip().rpartition("phmrun ")[2].split()
    phmrun(*command)
    assert Path("executed").exists()


def test_the_matrix_has_intervals_costs_and_emphasis(phmrun, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    for name in ("agreement-structures", "agreement-embeddings", "translation-longer"):
        shutil.copytree(ROOT / "results" / name, f"results/{name}")
    longer = Path("results/translation-longer/sweep.yaml")
    longer.write_text(longer.read_text().replace("  - {layer: {structure: low-rank, budget: 1/4}}\n", ""))
    Path("results/questions.yaml").write_text("""title: T
matrix:
  question: Which?
  columns:
    - {name: decided only when longer, sweep: agreement-structures, longer: translation-longer}
    - {name: short, sweep: agreement-structures, also: [agreement-embeddings]}
    - name: long
      sweep: agreement-structures
      longer: agreement-structures
      published: [{table: phm/table6, row: Transformer, column: Acc}]
  rows: {low rank: low-rank, PHM: phm n=4, embeddings: embedding kronecker, none: monarch blocks=8}
  advice:
    - {says: Take it., rows: {agreement-structures: [low-rank, phm n=4], agreement-embeddings: [embedding kron]}}
questions:
  - question: Q
    sweeps:
      - {name: agreement-structures, withdrawn: {monarch: no}}
      - {name: agreement-embeddings}
      - {name: translation-longer}
""")
    page = results_page.page_of(Path("results"))
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in page.text.splitlines()}
    other, short, long = rows["low rank"]
    assert re.fullmatch(
        r"-6.05 \\\[.*\\\] different, worse<br><small>1.87 MB, .* ms/step, .* ms/sentence</small>", short
    )
    assert long == f"<strong>{short.replace('<br>', '</strong><br>')}"  # decided at both lengths
    assert other == short
    assert len(set(rows["PHM"])) == 1  # an undecided difference stays muted where a longer training decides
    assert rows["PHM"][0].startswith("<small>-2.82")
    assert [cell == "–" for cell in (*rows["embeddings"], *rows["none"])] == [True, False, *[True] * 4]
    records = map(
        json.loads, (path.read_text() for path in Path("results/agreement-embeddings").glob("*kronecker*.json"))
    )
    sizes = {record["parameters"]["memory"]["weights"] for record in records}
    assert f"<small>{sizes.pop() / 1e6:.2f} MB, " in rows["embeddings"][1]
    (path,) = [path for path in page.pictures if path.as_posix() == "results/agreement-structures/sizes.svg"]
    figure = page.pictures[path]()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "Zhang et al. 2021, Transformer (published)" in " ".join(legend)
    assert any(text.startswith("low-rank") for text in legend)
    assert not any(text.startswith("monarch") for text in legend)  # withdrawn
    assert len(figure.axes) == 2
    evidence = page.pages[Path("results/evidence.md")]
    assert "Take it." in page.text
    assert "(results/evidence.md)" in page.text
    assert "(results/sweeps.md): all 3 by question" in page.text
    listed = page.pages[Path("results/sweeps.md")]
    assert "## Q\n" in listed
    assert "## Q\n" not in page.text
    assert "(translation-longer/README.md): " in listed  # beside that page
    assert "| 800 steps or 15 epochs | -6.05 " in evidence
    assert [line.count(" undecided | 5 |") for line in evidence.splitlines() if "5 |" in line] == [0, 1, 1]
    questions = Path("results/questions.yaml")
    questions.write_text(questions.read_text().replace("embedding kron]", "embedding none]"))
    with pytest.raises(PhmrunError, match="a row that is not there: agreement-embeddings, embedding none"):
        results_page.page_of(Path("results"))
    questions.write_text(questions.read_text().replace("column: Acc", "column: Saving"))
    with pytest.raises(PhmrunError, match="has no number at Transformer / Saving"):
        results_page.page_of(Path("results"))


def test_rows_are_compared_with_one_another_where_a_question_asks(phmrun, tmp_path, monkeypatch):
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "results" / "translation-longer", "results/translation-longer")
    questions = Path("results/questions.yaml")
    sweeps = "[{name: translation-longer, pairs: [phm n=4, monarch, low-rank]}]"
    asked = f"title: T\nquestions: [{{question: Q, sweeps: {sweeps}}}]"
    questions.write_text(asked)
    page = results_page.page_of(Path("results"))
    assert "; of 3 pairs 1 undecided · 2 different, worse" in page.text
    sweep = page.pages[Path("results/translation-longer/README.md")]
    below = sweep.partition("Rows beside one another")[2].splitlines()
    rows = [line.strip("| ").split(" | ") for line in below if "lr 0." in line and line.startswith("| ")][:3]
    assert [(row[0].partition(",")[0], row[1].partition(",")[0], row[2], row[-1]) for row in rows] == [
        ("monarch", "phm n=4", "-0.69", "undecided"),  # -3.48 and -2.79 beside dense
        ("low-rank budget=1/4", "phm n=4", "-1.76", "different, worse"),
        ("low-rank budget=1/4", "monarch", "-1.08", "different, worse"),
    ]
    assert "simultaneous over 3 pairs" in sweep
    questions.write_text(asked.replace("monarch", "monarchy"))
    with pytest.raises(PhmrunError, match="pairs name a row that is not there: monarchy"):
        results_page.page_of(Path("results"))
