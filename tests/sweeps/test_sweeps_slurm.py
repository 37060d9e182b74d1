"""The array job: its script against a stand-in for SLURM and against shellcheck."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from toy_planner import PROGRAM, planned

from phmrun.errors import PhmrunError
from phmrun.files import last_lines
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.executors.slurm import Slurm
from phmrun.sweeps.scheduler import Workplace

SHELLCHECK = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """SLURM's programs on the path, standing in."""
    home, programs = tmp_path / "slurm", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    fake = Path(__file__).with_name("fake_slurm.py").read_text()
    for name in ("sbatch", "squeue", "scontrol"):
        path = programs / name
        path.write_text(f"#!{sys.executable}\n{fake}")
        path.chmod(0o755)
    monkeypatch.setenv("FAKE_SLURM", str(home))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return home


@pytest.fixture
def sweep(written, tmp_path):
    created = planned(written({"task": "toy", "grid": {"model.width": [4, 6], "data.name": ["good", "oom"]}}))
    return created, Workplace(tmp_path / "runs of 'mine'", created.sweep.name, program=PROGRAM)


def write(sweep, **options):
    created, workplace = sweep
    slurm = Slurm(workplace.path / "slurm", created.sweep.name, **options)
    return slurm, slurm.write([workplace.job(cell) for cell in created.cells])


def test_an_array_carries_out_every_run(sweep, cluster):
    slurm, script = write(sweep)
    assert slurm.submit(script) == "100"
    created, workplace = sweep
    statuses = survey(created, workplace.runs_dir)
    assert [str(status.state) for status in statuses] == ["done", "failed", "done", "failed"]
    assert last_lines(workplace.log(statuses[1].cell.run_id)) == ["phmrun: error: out of memory: no more"]
    assert slurm.queued() == set()
    (cluster.parent / "bin" / "squeue").write_text("#!/bin/sh\necho no contact >&2; exit 1\n")
    with pytest.raises(PhmrunError, match="squeue refused: no contact"):  # or each run would be submitted twice
        slurm.queued()


def test_a_task_that_is_signalled_goes_on_after_it_was_queued_again(sweep, cluster, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "0.2")
    created, workplace = sweep
    monkeypatch.setenv("FAKE_SLURM_UNTIL", f"{workplace.runs_dir}/steps")
    slurm = Slurm(workplace.path / "slurm", created.sweep.name)
    slurm.submit(slurm.write([workplace.job(created.cells[0])]))
    assert "scontrol requeue 100_0" in (cluster / "calls").read_text()
    (status, *_) = survey(created, workplace.runs_dir)
    assert str(status.state) == "done"
    starts = [line.split()[1] for line in (workplace.runs_dir / status.cell.run_id / "starts").read_text().splitlines()]
    assert len(starts) == 2
    assert int(starts[1]) > 0


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing(sweep):
    _, script = write(sweep, most=2, options=["time=1:00:00"])
    done = subprocess.run([str(SHELLCHECK), str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


HOSTILE = "a\n#SBATCH --wrap=id\ntouch hacked; $(touch hacked) `touch hacked` % ' \" é\\"


def test_no_name_and_no_path_becomes_a_command_or_an_option(written, tmp_path, cluster, monkeypatch):
    folder = tmp_path / HOSTILE
    folder.mkdir()
    monkeypatch.chdir(folder)
    created = planned(written({"task": "toy", "grid": {"data.name": ["good"]}}, f"{HOSTILE}.yaml"))
    workplace = Workplace(folder / "runs", created.sweep.name, program=PROGRAM)
    slurm = Slurm(workplace.path / "slurm", f"{created.sweep.name}\ntouch hacked\n", most=1)
    script = slurm.write([workplace.job(cell) for cell in created.cells])
    options = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    assert len(options) == 6
    assert len(script.with_name("commands.txt").read_text().splitlines()) == 1
    slurm.submit(script)
    assert [str(status.state) for status in survey(created, workplace.runs_dir)] == ["done"]
    assert not list(tmp_path.rglob("hacked"))
    assert script.with_name("task-0.out").exists()
