"""Any training script as a run: a command with placeholders, its input files, the scores that it writes."""

from phmrun.task import Task

TASK = Task(
    name="script",
    summary="Any training script: a command with placeholders; its scores and checksums are on record",
    schema="phmrun.tasks.script.config:ScriptExperiment",
    runner="phmrun.tasks.script.runner:RUNNER",
)
