"""Trainings that are killed at random moments, continued, and compared bit by bit with ones that nobody touched.

Each training is a process of its own and dies by SIGKILL; the moments are drawn over its CPU time.
"""

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import torch
from exact_resume import outcome, same
from forks import await_moment, ended, finished, forked, members, sweep_up
from tiny_experiments import SETTINGS, configured

from phmrun.ledger import Run

COURSE = {"max_steps": 40, "validate_every": 7, "checkpoint_every": 5, "keep_last": 3, "average": 2}
COURSE |= {"accumulate": 2, "patience": 0}
SOON = 60.0
"""Seconds within which a training ends one of whose processes has been killed, on a machine that has more to do."""


@dataclass(frozen=True)
class Case:
    """Experiment of a trial, and its settings."""

    task: str
    world: int
    precision: str

    def __str__(self) -> str:
        return f"{self.task}-{self.world}-{self.precision}"


def cases(*worlds: int) -> list[Case]:
    """Every task in every precision, in so many processes."""
    return [Case(*parts) for parts in product(SETTINGS, worlds, ("32", "64", "bf16-mixed"))]


@dataclass
class Site:
    """Two folders from which the same experiment can be run: one names its data relatively, and the other has a copy.

    Attributes:
        folder: Where both are.
        case: The experiment.
    """

    folder: Path
    case: Case
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        here = Path.cwd()
        for place, corpus in (("one", "corpus"), ("other", "data/text")):
            home = self.folder / place
            home.mkdir(parents=True)
            os.chdir(home)
            try:
                hardware = {"devices": self.case.world, "strategy": "ddp"} if self.case.world > 1 else {}
                sections = {"training": {**COURSE, "precision": self.case.precision}, "hardware": hardware}
                config = configured(self.case.task, Path(corpus), sections, dict(self.overrides))
            finally:
                os.chdir(here)
            values = config.model_dump(mode="json", exclude={"task"})
            (home / "experiment.yaml").write_text(json.dumps(values), encoding="utf-8")

    def start(self, place: str, runs: str, *more: str) -> int:
        """Starts a training in one of the folders; its process id, which is also that of its group."""
        command = ["train", self.case.task, "--config", "experiment.yaml", "--runs-dir", f"../{runs}", *more]
        return forked(command, self.folder / place, self.folder / "output.txt", others=self.case.world - 1)

    @cached_property
    def straight(self) -> tuple[dict[str, Any], float]:
        """Result of an undisturbed training, and its CPU time in seconds."""
        code, seconds = finished(self.start("one", "straight"))
        assert code == 0, self.said()
        return outcome(self.run("straight")), seconds

    def said(self) -> str:
        """Output of the last process."""
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    def run(self, runs: str) -> Run:
        """The only run of a directory of runs."""
        (path,) = (path for path in (self.folder / runs).iterdir() if not path.name.startswith("."))
        return Run(path)


@dataclass(frozen=True)
class Trial:
    """An experiment that was killed several times.

    Attributes:
        case: The experiment.
        kills: What was killed, and when: ("all", seconds).
        steps: The optimizer step that each new start went on from.
        moved: How often it went on in another folder.
        differences: In what the result differs from that of a training that nobody touched.
    """

    case: Case
    kills: list[tuple[str, float]]
    steps: list[int]
    moved: int
    differences: list[str]


def attempt(site: Site, draw: random.Random, most: int = 3) -> Trial:
    """Trains, kills up to ``most`` times, goes on to the end, and compares.

    Args:
        site: The experiment.
        draw: Says when, what and where.
        most: Kills.
    """
    expected, seconds = site.straight
    runs = "killed"
    shutil.rmtree(site.folder / runs, ignore_errors=True)
    kills: list[tuple[str, float]] = []
    steps: list[int] = []
    wrong: list[str] = []
    places = ["one"]
    for _ in range(draw.randint(1, most)):
        ways = ["all", "first", "other"] if site.case.world > 1 else ["all"]
        way = draw.choice(ways)
        moment = draw.uniform(0.0, seconds)
        pid = site.start(places[-1], runs)
        await_moment(pid, moment)
        was_there, faults = kill(pid, way, site)
        wrong += faults
        kills += [(way, round(moment, 2))] if was_there else []
        places.append(draw.choice(["one", "other"]))
        steps.append(_step(site.folder / runs))
    code = ended(site.start(places[-1], runs))
    moved = sum(before != after for before, after in pairwise(places))
    if code:
        wrong.append(f"exit code {code}: {site.said()[-2000:]}")
    else:
        wrong += faults_of(expected, site.run(runs))
    return Trial(site.case, kills, steps, moved, wrong)


def _step(runs: Path) -> int:
    """The step of the last checkpoint of the only run there; 0 where there is none."""
    for path in runs.glob("*/checkpoints/last.ckpt"):
        return int(torch.load(path, weights_only=True, mmap=True)["global_step"])
    return 0


def kill(pid: int, victim: str, site: Site) -> tuple[bool, list[str]]:
    """Kills a training: all its processes, its first or another; whether it was there, and what was wrong then.

    Processes that are left must end by themselves, soon, with a line that says why, and exit code 4.
    """
    if os.waitpid(pid, os.WNOHANG)[0]:
        sweep_up(pid)
        return False, []
    others = [member for member in members(pid) if member != pid]
    if victim == "all" or not others:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return True, []
    began, code = time.monotonic(), 4
    os.kill(pid if victim == "first" else others[0], signal.SIGKILL)
    if victim == "first":
        os.waitpid(pid, 0)
    else:
        code = ended(pid, SOON, sweeping=False)
    while members(pid) and time.monotonic() < began + SOON:
        time.sleep(0.02)
    left, seconds, messages = members(pid), time.monotonic() - began, site.said()
    sweep_up(pid)
    wrong = [f"{len(left)} processes outlived {victim} by {seconds:.0f} s"] if left else []
    if code not in (0, 4) or any(word in messages for word in ("Traceback", "this is a bug")):
        wrong.append(f"{victim} killed, exit code {code}: {messages[-1500:]}")
    return True, wrong


def faults_of(expected: dict[str, Any], run: Run) -> list[str]:
    """First place where a finished run is not as expected, bit for bit, and its temporary files."""
    wrong = [f"left over: {path.relative_to(run.path)}" for path in run.path.rglob("*.tmp")]
    try:
        same(expected, outcome(run))
    except AssertionError as error:
        wrong.append(f"different at {error}")
    return wrong
