"""Trainings killed at random moments; ``PHMRUN_KILLS`` is the number of trials of each case."""

import os
import random
import time

import pytest
from exact_resume import outcome, same
from forks import ended, finished
from trials import Case, Site, attempt, cases, kill

pytestmark = pytest.mark.long

ROUNDS = int(os.environ.get("PHMRUN_KILLS", "1"))


@pytest.mark.parametrize(
    "case", [case for case in cases(1, 2) if ROUNDS > 1 or str(case) == "lm-2-32"], ids=str,
)  # fmt: skip
def test_killed_at_any_moment_it_ends_the_same(case, tmp_path):
    site = Site(tmp_path / "site", case)
    draw = random.Random(str(case))
    for _ in range(ROUNDS):
        trial = attempt(site, draw, most=1 if ROUNDS == 1 and case.world > 1 else 3)
        assert not trial.differences, trial


def test_killed_and_resumed_without_the_setting_it_keeps_its_library(tmp_path):
    site, setting = Site(tmp_path / "site", Case("nmt", 1, "32")), ["--set", "hardware.kernels=onednn"]
    assert finished(site.start("one", "straight", *setting))[0] == 0, site.said()
    pid = site.start("one", "killed", *setting)
    while not any((site.folder / "killed").glob("*/checkpoints/*.ckpt")):
        assert os.waitpid(pid, os.WNOHANG) == (0, 0), site.said()
        time.sleep(0.01)
    assert kill(pid, "all", site) == (True, [])
    assert ended(site.start("one", "killed")) == 0, site.said()
    straight, resumed = site.run("straight"), site.run("killed")
    libraries = [entry["kernels"] for run in (straight, resumed) for entry in run.environment()]
    assert libraries == [libraries[0]] * 3
    same(outcome(straight), outcome(resumed))
