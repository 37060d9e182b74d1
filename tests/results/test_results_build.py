"""``results/build.py``: pages of committed records, on a few sweeps of the project; no data, no training."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUESTIONS = """title: T
matrix:
  equal: "dense, model width="
  answer: ["{narrow} beside {best} and {worst}; {lower} of {structures}; {decided}"]
  columns:
    - {name: long, sweep: translation-longer}
    - {name: short, sweep: agreement-structures, also: [agreement-embeddings]}
  rows:
    {narrower: "dense, model width=", low rank: low-rank, PHM: phm n=4, embeddings: embedding kronecker, none: phm n=9}
questions:
  - question: Q
    sweeps:
      - {name: agreement-structures, longer: [agreement-embeddings]}
      - {name: agreement-embeddings}
      - {name: translation-longer, pairs: [phm n=4, monarch, low-rank]}
"""


@pytest.fixture
def build(tmp_path, monkeypatch, capsys):
    """Function that runs the script on ``results`` of the current directory: exit code and message."""
    monkeypatch.setenv("PHMRUN_DATA", str(tmp_path / "no data"))
    monkeypatch.chdir(tmp_path)
    spec = importlib.util.spec_from_file_location("results_build", ROOT / "results" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def run(*options):
        monkeypatch.setattr(sys, "argv", ["build.py", "results", *options])
        return module.main(), capsys.readouterr().err

    return run


def copy(*names):
    for name in names:
        shutil.copytree(ROOT / "results" / name, f"results/{name}")


@pytest.mark.long
def test_matrix_and_answer_have_intervals_and_pairs_are_compared(build):
    copy("agreement-structures", "agreement-embeddings", "translation-longer")
    Path("results/questions.yaml").write_text(QUESTIONS)
    assert build() == (0, "")
    assert build("--check") == (0, "")
    text = Path("RESULTS.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in text.splitlines()}
    assert rows["low rank"][:3] == ["743,936", "738,304", "-4.47 \\[-5.57, -3.38\\] worse *"]
    assert rows["PHM"][3].startswith("-2.82 ")
    assert rows["PHM"][3].endswith("undecided")
    assert [cell == "–" for cell in (*rows["embeddings"][2:], *rows["none"])] == [True, False, *[True] * 4]
    answer = "-1.54 \\[-2.95, -0.14\\] beside -2.71, PHM and -4.47, low rank; 2 of 2; 3 of 3 rows of long are decided"
    assert f"{answer} (3 worse)" in text
    sweep = Path("results/translation-longer/README.md").read_text()
    below = sweep.partition("Rows beside one another")[2].splitlines()
    pairs = [line.strip("| ").split(" | ") for line in below if "lr 0." in line and line.startswith("| ")][:3]
    assert [(pair[2], pair[-1]) for pair in pairs] == [
        ("-0.67", "different, worse"),  # monarch beside phm: -3.37 and -2.71 beside dense
        ("-1.76", "different, worse"),
        ("-1.10", "different, worse"),
    ]
    assert "; of 3 pairs 3 different, worse" in Path("results/sweeps.md").read_text()
    with Path("RESULTS.md").open("a") as end:
        end.write("Accuracy is 99.9.\n")
    code, message = build("--check")
    assert (code, message.splitlines()) == (3, ["RESULTS.md is not what the results say: python results/build.py"])
    assert str(Path.cwd()) not in "".join(path.read_text() for path in Path("results").glob("**/*.md"))


@pytest.mark.long
def test_a_sweep_whose_file_no_longer_matches_its_records_is_named(build):
    copy("agreement-embeddings")
    file = Path("results/agreement-embeddings/sweep.yaml")
    file.write_text(file.read_text().replace("max_steps: 800", "max_steps: 900"))
    code, message = build()
    assert code == 3
    assert message.startswith("results/agreement-embeddings/sweep.yaml: no record belongs to a cell")
    assert not Path("RESULTS.md").exists()
