"""SLURM executor: one array job with an editable script.

SLURM queues the jobs itself, so no planner stays behind. Before its time limit each task gets a signal. It then stops
its run, requeues itself, and resumes from the last checkpoint.
"""

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phmrun.errors import PhmrunError, counted
from phmrun.escaping import shell_word
from phmrun.files import read_text, write_text
from phmrun.progress import note
from phmrun.sweeps.cell_status import CellState, CellStatus
from phmrun.sweeps.executors import Job

SCRIPT, COMMANDS, RUNS, JOB = "array.sh", "commands.txt", "runs.txt", "job"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
"""Characters that sbatch may misread in an #SBATCH line: spaces, quotes, %, line ends."""
WARNING_SECONDS = 120  # seconds between the signal and the end of a task's time

_TEMPLATE = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --array=0-{last}{most}
#SBATCH --output={output}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR1@{warning}
{options}
# {count} runs, one per task of the array. Line i + 1 of {commands} is the command of task i, and of {runs}
# the name of its run. A task that is signalled ahead of its time limit is queued again and continues its run.
set -u
{redirect}cd {here} || exit 1
mapfile -t commands < {folder_quoted}/{commands}

again() {{
    kill -TERM "$run" 2> /dev/null
    wait "$run"
    exec scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}"
}}

bash -c "exec ${{commands[$SLURM_ARRAY_TASK_ID]}}" &
run=$!
trap again USR1
wait "$run"
"""


@dataclass(frozen=True)
class Slurm:
    """Writer and submitter of a sweep's array jobs.

    Attributes:
        folder: Folder of the scripts, one subfolder for each array job.
        name: Name of the sweep.
        most: Tasks at a time; no limit if ``None``.
        options: Options of sbatch, such as ``partition=gpu``.
    """

    folder: Path
    name: str
    most: int | None = None
    options: Sequence[str] = ()

    def write(self, jobs: Sequence[Job]) -> Path:
        """Write the script of one array job, and return the script's path.

        It is ``array.sh`` in a new numbered folder, with lists of the job's commands and runs beside it. Each command
        appends its output to the job's log. Tasks get SIGUSR1 120 seconds before their time limit.

        Raises:
            PhmrunError: (exit 2) An option is an array, or has a line end or another unprintable character.
        """
        for option in self.options:
            # A line end would add lines to the script, and another array would leave runs out.
            if not option.isprintable() or option.removeprefix("--").startswith("array"):
                what, hint = f"{option!r} is not an option that the script can take", "As in --sbatch partition=gpu."
                raise PhmrunError(what, where="--sbatch", hint=hint)
        last = max((int(path.name) for path in self.folder.glob("[0-9]*")), default=0)
        folder = (self.folder / str(last + 1)).resolve()
        words = [" ".join(map(shell_word, job.command)) for job in jobs]
        logs = [shell_word(str(job.log.resolve())) for job in jobs]
        commands = [f"{command} >> {log} 2>&1\n" for command, log in zip(words, logs, strict=True)]
        write_text(folder / COMMANDS, "".join(commands))
        write_text(folder / RUNS, "".join(f"{job.run_id}\n" for job in jobs))
        plain = not _UNSAFE.search(str(folder).replace("/", ""))
        script = _TEMPLATE.format(
            name=f"phmrun-{_UNSAFE.sub('-', self.name)[:100]}",
            last=len(jobs) - 1,
            most=f"%{self.most}" if self.most else "",
            output=f"{folder}/task-%a.out" if plain else "/dev/null",
            redirect="" if plain else f'exec >> {shell_word(str(folder))}/"task-$SLURM_ARRAY_TASK_ID.out" 2>&1\n',
            folder_quoted=shell_word(str(folder)),
            here=shell_word(str(Path.cwd())),
            warning=WARNING_SECONDS,
            options="".join(f"#SBATCH --{option.removeprefix('--')}\n" for option in self.options),
            count=len(jobs),
            commands=COMMANDS,
            runs=RUNS,
        )
        write_text(folder / SCRIPT, script)
        return folder / SCRIPT

    def submit(self, script: Path) -> str:
        """Submit a script, and return SLURM's job number.

        The number is also written beside the script.

        Raises:
            PhmrunError: (exit 2) sbatch is missing or refuses the script.
        """
        answer = _call("sbatch", "--parsable", str(script))
        job = answer.strip().split(";")[0]
        write_text(script.with_name(JOB), f"{job}\n")
        return job

    def unqueued(self, statuses: Iterable[CellStatus]) -> list[CellStatus]:
        """Return the cells that are neither running nor in SLURM's queue; a message is logged if there are none."""
        queued = self.queued()
        free = [s for s in statuses if s.state is not CellState.RUNNING and s.cell.run_id not in queued]
        if not free:
            note(f"there is nothing to submit; in the queue: {counted(len(queued), 'run')}")
        return free

    def queued(self) -> set[str]:
        """Return the ids of this sweep's runs that SLURM lists, waiting or running.

        The result is empty without SLURM.
        """
        runs: set[str] = set()
        for path in sorted(self.folder.glob(f"*/{JOB}")):
            names = read_text(path.with_name(RUNS)).split()
            runs |= {names[task] for task in _tasks(read_text(path).strip()) if task < len(names)}
        return runs


def _tasks(job: str) -> list[int]:
    """Return the numbers of an array job's tasks that SLURM lists, from 0.

    The result is empty if it lists none, does not know the job any more, or is missing.

    Raises:
        PhmrunError: (exit 2) SLURM fails otherwise.
    """
    try:
        listed = _call("squeue", "--noheader", "--array", f"--jobs={job}", "--format=%K")
    except PhmrunError as error:
        if "Invalid job id" in error.what or error.__cause__:  # the job has ended, or this is no machine of the cluster
            return []
        raise
    return [int(word) for word in listed.split() if word.isdecimal()]


def _call(*command: str) -> str:
    """Return the standard output of a SLURM program.

    Raises:
        PhmrunError: (exit 2) The program is missing or fails.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        what = f"there is no program {command[0]!r} on this machine"
        raise PhmrunError(what, hint="Run this on a login node of a SLURM cluster, or use --executor local.") from error
    if done.returncode:
        raise PhmrunError(f"{command[0]} refused: {(done.stderr or done.stdout).strip()}", where=" ".join(command))
    return done.stdout
