"""The recipes of CONTRIBUTING.md, command by command, in a fresh clone with an install of its own."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_experiments import write_agreement

ROOT = Path(__file__).parents[1]
SECTIONS = re.compile(r"^### (.+?)$(.*?)(?=^##)", re.MULTILINE | re.DOTALL)
RECIPES = dict(SECTIONS.findall((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
TOUCHED = {
    "structure": {
        "phmrun/layers/structures/tiled.py",
        "pyproject.toml",
        "tests/layers/structures/test_tiled.py",
    },
    "dataset": {"phmrun/datasets/entries/made-up.yaml"},
    "metric": {"phmrun/metrics/recall.py", "pyproject.toml", "tests/metrics/test_recall.py"},
    "network": {"phmrun/models/bag.py", "pyproject.toml", "tests/models/test_bag.py"},
    "task": {
        *(f"tasks/reviews/{name}.py" for name in ("__init__", "config", "data", "module")),
        "configs/tasks/reviews.yaml",
        "pyproject.toml",
        *(f"tests/tasks/reviews/{name}_reviews.py" for name in ("test", "tiny")),
    },
}
"""Files that each recipe touches, the only ones."""


def recipe(kind):
    """Return the text of a recipe."""
    return next(text for title, text in RECIPES.items() if title.startswith(f"A {kind}:"))


def commands(kind):
    """Return the commands of a recipe, as they are typed."""
    return re.findall(r"^\$ (.+)$", recipe(kind), re.MULTILINE)


class Clone:
    """A copy of the source tree with a virtual environment in which it is installed."""

    def __init__(self, folder):
        self.tree, self.bin = folder / "clone", folder / "venv" / "bin"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "PHMRUN_DATA": str(folder / "data"),
            "PHMRUN_CACHE": str(folder / "cache"),
            "WANDB_MODE": "disabled",
        }

    def install(self):
        """Copy the tracked files and install them, with the packages of this environment, without the network."""
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        if listed.returncode:
            pytest.skip("the source is no git repository")
        for name in listed.stdout.splitlines():
            if (ROOT / name).exists():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.tree / name, follow_symlinks=False)
        self.run(f"{sys.executable} -m venv --without-pip {self.bin.parent}", cwd=self.bin.parents[1])
        packages = [path for path in sys.path if path.endswith("-packages")]
        (site,) = self.bin.parent.glob("lib/python*/site-packages")
        (site / "outer.pth").write_text("".join(f"{path}\n" for path in packages))
        self.run(f"{self.bin}/python -m pip install --quiet --no-deps --no-build-isolation -e .")
        self.kept = self.files()

    def run(self, command, cwd=None):
        """Run a command in the clone and return its output."""
        done = subprocess.run(
            shlex.split(command),
            capture_output=True,
            text=True,
            cwd=cwd or self.tree,
            env=self.environment,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    def files(self):
        """Return the texts of the clone's sources by name."""
        folders = ("phmrun", "tasks", "configs", "tests")
        paths = [path for folder in folders for path in (self.tree / folder).rglob("*")] + [*self.tree.glob("*")]
        return {
            str(path.relative_to(self.tree)): path.read_bytes()
            for path in paths
            if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
        }

    def touched(self):
        """Return the files that have changed since this was last asked; those below links to folders once."""
        before, self.kept = self.kept, self.files()
        changed = {name for name, text in self.kept.items() if before.get(name) != text}
        return {re.sub("^phmrun/(tasks|configs)/", r"\1/", name) for name in changed}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone in which recipes are followed one after another."""
    pytest.importorskip("setuptools")
    created = Clone(tmp_path_factory.mktemp("recipes"))
    created.tree.mkdir()
    created.install()
    write_agreement(Path(created.environment["PHMRUN_DATA"]) / "made-up")
    place = created.run(f"{created.bin}/python -c 'import phmrun; print(phmrun.__file__)'", cwd=created.bin)
    assert place.startswith(str(created.tree))
    return created


@pytest.mark.slow
def test_recipes_work_as_written_and_touch_only_their_files(clone):
    """Recipes run in one test, since later ones train on the dataset of the first."""
    for kind in ("dataset", "structure", "metric", "network", "task"):
        follow(clone, kind)


def follow(clone, kind):
    """Run the commands of a recipe, and compare the files that it touches with those it names."""
    for name in re.findall(r"```yaml\n(.*?)```", recipe(kind), re.DOTALL):
        (clone.tree / "phmrun/datasets/entries/made-up.yaml").write_text(name)
    assert commands(kind)
    for command in commands(kind):
        output = clone.run(command)
        if "pytest" in command:
            assert " passed" in output or "100%" in output, command
    touched = clone.touched()
    assert touched == TOUCHED[kind]
    print(f"{kind}: {len(touched)} files touched: {', '.join(sorted(touched))}")
    if kind == "metric":
        scores = [json.loads(path.read_text()) for path in (clone.tree / "runs").glob("sva-made-up-*/metrics.json")]
        assert any("test/recall" in metrics for metrics in scores)


def test_every_recipe_says_what_to_type():
    assert len(RECIPES) == len(TOUCHED)
    assert all(commands(kind) for kind in TOUCHED)


def test_workflows_and_image_name_their_sources_by_checksum():
    uses = [
        line.split("uses:")[1].split()[0]
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert uses
    assert [name for name in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name)] == []
    image = (ROOT / "Dockerfile").read_text()
    assert re.search(r"^FROM \S+@sha256:[0-9a-f]{64}$", image, re.MULTILINE)
    assert "extra-index" not in image
