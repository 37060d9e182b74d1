"""A task with a metric of its own, brought by plug-in files alone: scores, words, verdict over items."""

import json
import random

import pytest
from forks import completed

pytestmark = pytest.mark.long

PLUGINS = ("--plugin", "my_reviews.py", "--plugin", "recall.py")
CHOSEN = {
    "model.width": 32,
    "training.optimizer.lr": 0.01,
    "training.schedule.warmup": 2,
    "training.validate_every": 20,
    "data.vocabulary.size": 96,
    "batch.unit": "sentences",
    "batch.size": 32,
    "logging.wandb": "disabled",
    "training.schedule.name": "inverse-sqrt",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data and two plug-in files, which stand for a user's project; the metric is of lower direction."""
    folder = tmp_path_factory.mktemp("project")
    draw = random.Random(0)
    for split, size in {"train": 120, "dev": 20, "test": 60}.items():
        rows = [(draw.choice(("yes", "no", "no")), draw.randrange(4), draw.randrange(20)) for _ in range(size)]
        (folder / f"{split}.tsv").write_text("".join(f"{label}\t{label}{a} w{b}\n" for label, a, b in rows))
    phmrun(folder, "new", "task", "my-reviews")
    phmrun(folder, "new", "metric", "recall")
    path = folder / "recall.py"
    text = path.read_text().replace('tasks=("sva", "nli")', 'tasks=("my-reviews",)')
    text = text.replace('"Recall"', '"missed"').replace("margin=1.0", "margin=1.0, lower_is_better=True")
    path.write_text(text.replace("100 * sums[..., 0]", "100 - 100 * sums[..., 0]"))
    return folder


def phmrun(folder, *arguments):
    done = completed(arguments, folder, {"PHMRUN_CACHE": str(folder / "cache"), "COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_third_party_task_has_card_table_verdict_and_words(folder):
    files = [word for split in ("train", "dev", "test") for word in (f"--{split}", f"{split}.tsv")]
    settings = [word for key, value in CHOSEN.items() for word in ("--set", f"{key}={value}")]
    results = {}
    for layer in ("dense", "phm"):
        train = ["train", "my-reviews", *PLUGINS, *files, *settings, "--layer", layer, "--max-steps", "12", "--json"]
        results[layer] = json.loads(phmrun(folder, *train))
    values = {layer: result["metrics"]["test/recall"]["value"] for layer, result in results.items()}

    table = ["table", *PLUGINS, "--rows", "layer", "--score", "test/recall"]
    _, cell = json.loads(phmrun(folder, *table, "--json"))["cells"]
    low, high = cell["interval_over_items"]
    assert low <= values["phm"] - values["dense"] <= high
    assert (cell["verdict"], cell["margin"]) == ("undecided", 1.0)
    assert "over test items" in phmrun(folder, *table)
    phmrun(folder, *train, "--seed", "2", "--extend", results["phm"]["run_id"])  # begins with its weights
