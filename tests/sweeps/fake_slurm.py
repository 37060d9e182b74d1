"""A stand-in for SLURM's programs, called under their names: sbatch carries an array job out, task by task.

The queue is files in $FAKE_SLURM: queue-JOB with the numbers of the tasks, and what was asked of it in calls.
With $FAKE_SLURM_UNTIL, a task is signalled once, as SLURM does ahead of a time limit: when a run has that file.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME = Path(os.environ["FAKE_SLURM"])


def sbatch(parsable: str, script: str) -> None:
    text = Path(script).read_text()
    job = str(100 + len(list(HOME.glob("queue-*"))))
    last = int(re.search(r"^#SBATCH --array=0-(\d+)", text, re.MULTILINE).group(1))
    queue = HOME / f"queue-{job}"
    queue.write_text("\n".join(map(str, range(last + 1))))
    for task in range(last + 1):
        until = os.environ.get("FAKE_SLURM_UNTIL")
        again = True
        while again:
            environment = {**os.environ, "SLURM_ARRAY_JOB_ID": job, "SLURM_ARRAY_TASK_ID": str(task)}
            shell = subprocess.Popen(["bash", script], env=environment)
            if until:
                while not list(Path(until).parent.glob(f"*/{Path(until).name}")):
                    time.sleep(0.02)
                shell.send_signal(signal.SIGUSR1)
                until = None
            shell.wait()
            marker = HOME / f"requeue-{job}_{task}"
            again = marker.exists()
            marker.unlink(missing_ok=True)
    queue.write_text("")
    print(f"{job};cluster")


def squeue(*options: str) -> None:
    job = next(option.split("=")[1] for option in options if option.startswith("--jobs="))
    if not (HOME / f"queue-{job}").exists():
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print((HOME / f"queue-{job}").read_text())


def scontrol(verb: str, task: str) -> None:
    assert verb == "requeue"
    (HOME / f"requeue-{task}").touch()


if __name__ == "__main__":
    name = Path(sys.argv[0]).name
    with (HOME / "calls").open("a") as calls:
        calls.write(f"{name} {' '.join(sys.argv[1:])}\n")
    {"sbatch": sbatch, "squeue": squeue, "scontrol": scontrol}[name](*sys.argv[1:])
