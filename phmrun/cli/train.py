"""``phmrun train``: run one experiment, or continue it."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import RUNS, ExperimentOptions, Json, RunsDirectory, choose_run, resolve_options, spread
from phmrun.errors import PhmrunError, counted
from phmrun.progress import waiting
from phmrun.registry import TASKS, plugin_marks

if TYPE_CHECKING:
    from collections.abc import Callable

    from phmrun.engine.experiment import DryRun
    from phmrun.experiments import Request
    from phmrun.ledger import Run

OtherRun = Annotated[str | None, typer.Option(metavar="RUN", rich_help_panel=RUNS, autocompletion=completion.runs)]


@spread
def train(
    options: ExperimentOptions,
    *,
    runs_dir: RunsDirectory = Path("runs"),
    extend: OtherRun = None,
    teacher: OtherRun = None,
    resume: OtherRun = None,
    restart: Annotated[bool, typer.Option("--restart", rich_help_panel=RUNS)] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", rich_help_panel=RUNS)] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", rich_help_panel=RUNS)] = False,
    as_json: Json = False,
) -> None:
    """Train one model and score it.

    The same command again continues an interrupted run, as does --resume RUN without a task.

    Args:
        extend: Train this run for longer, as a new run (--max-steps); with other data, sizes of batches or optimizer,
            begin with its trained weights at step 0. With --layer added, freeze them and train updates.
        teacher: Distill from this run as the teacher (--set distillation.weight=0.5, distillation.temperature=1).
        resume: Continue this run (id, folder, or latest) by its own configuration; options that would change it are
            an error.
        restart: Delete the existing run of this experiment and train from step 0.
        yes: Answer yes to the question of --restart.
        dry_run: Print the configuration with the origin of each value, data sizes, parameter counts; do not train.

    Examples:
        phmrun train nmt --layer phm --n 8

        phmrun train nmt --data multi30k --config configs/nmt/multi30k-small.yaml --layer phm --n 4 --seed 2

        phmrun train nmt --prefix corpus/ --source en --target fr --set data.vocabulary.size=8000 --dry-run

        The same command again continues the run, or says that it is done.
    """
    with waiting("preparing"):
        from phmrun.experiments import require_no_distillation
        from phmrun.ledger import Run
        from phmrun.ledger.sameness import require_same

        continued = choose_run(runs_dir, resume) if resume else None
        if continued:
            if extend or teacher or restart:
                raise PhmrunError("a run is continued as it began", where="--resume", hint="Leave the others out.")
            options, extend, teacher = _as_it_began(continued, options)
            runs_dir = continued.path.parent
        elif not options.task:
            raise PhmrunError("no task is named", where="phmrun train", valid=TASKS.names())
        parent = continued or (Run.find(runs_dir, extend) if extend else None)
        request = resolve_options(options, parent=parent.config_path if parent else None)
        if not request.task.runner:
            from phmrun.engine import experiment, trained_model

            if not dry_run:
                import phmrun.engine.fit  # noqa: F401  (Lightning, which takes its time)
    if not (teacher or parent):
        require_no_distillation(request.resolved.config)
    asking = (lambda run: None) if yes else _ask
    if request.task.runner:
        if extend or teacher:
            raise PhmrunError(f"a run of {request.task.name} has no weights", where="--extend, --teacher")
        if continued:
            marks = request.task.load("runner").fingerprints(request.resolved.config)
            require_same(continued, request.resolved.config, {**marks, **plugin_marks(request.plugins)})
        _by_runner(request, runs_dir, asking if restart else None, dry_run, as_json)
        return
    if dry_run:
        extended = Run.find(runs_dir, extend) if extend else None
        _show(request, experiment.dry_run(request.resolved.config, parent=extended), as_json)
        return
    result = experiment.train(
        request.resolved.config,
        origin=request.resolved.origin,
        runs_dir=runs_dir,
        plugins=request.plugins,
        restart=asking if restart else None,
        extend=extend,
        derivation=trained_model.taught_by(Run.find(runs_dir, teacher)) if teacher else None,
        continued=continued,
    )
    console.print_result(result.run_id, result.run_dir, result.metrics, as_json, result.state)


def _as_it_began(run: "Run", options: ExperimentOptions) -> tuple[ExperimentOptions, str | None, str | None]:
    """Return the options with the task of a run, and the ids of the runs that it extends and learns from.

    Raises:
        PhmrunError: (exit 2) Another task is named, or the run began with the weights of a compressed one.
    """
    from phmrun.ledger.directory import config_values

    task, marks = str(run.status.about.get("task")), run.fingerprints()
    if options.task not in ("", task):
        raise PhmrunError(f"{run.id} is a run of {task}", where=options.task, hint=f"phmrun train --resume {run.id}")
    if "compresses" in marks:
        hint = f"`phmrun runs show {run.id}` prints the command that continues it."
        raise PhmrunError("this run began with the weights of a compressed one", where=run.id, hint=hint)
    extends = None if config_values(run.config_path).get("adapts") else marks.get("extends")
    return dataclasses.replace(options, task=task), extends, marks.get("teacher")


def _by_runner(
    request: "Request", runs_dir: Path, restart: "Callable[[Run], None] | None", dry_run: bool, as_json: bool
) -> None:
    """Run an experiment by its task's runner, and print scores and state.

    With ``dry_run``, files are checked and only the configuration is printed; ``restart`` is called before an earlier
    run is deleted. JSON keys: run_id, run_dir, metrics; with ``dry_run`` config and origin.
    """
    from phmrun.config import to_yaml
    from phmrun.ledger import Run

    config, runner = request.resolved.config, request.task.load("runner")
    origin = request.resolved.origin
    if dry_run:
        runner.fingerprints(config)
        if as_json:
            console.print_json({"config": config.model_dump(mode="json"), "origin": dict(origin)})
        else:
            console.print_line(to_yaml(config, origin))
        return
    run = Run(runner.run(config, origin=origin, runs_dir=runs_dir, plugins=request.plugins, restart=restart))
    console.print_result(run.id, run.path, run.metrics(), as_json, run.status.state)


def _ask(run: "Run") -> None:
    """Ask for confirmation before a run is deleted; return if the answer is yes, or nothing has been computed.

    Raises:
        PhmrunError: Standard input is not a terminal.
        Abort: The answer is no.
    """
    try:
        status = run.status
        if not status.step and not status.seconds:
            return
        extent = f"{status.state}, {counted(status.step, 'step')}"
    except PhmrunError as error:
        extent = f"damaged ({error.what})"
    question = f"{run.id}: {extent}. Delete it and start over?"
    console.confirm(question, "Use --restart --yes to delete it without a question.")


def _show(request: "Request", plan: "DryRun", as_json: bool) -> None:
    """Print the plan of a run as text or JSON.

    It has the configuration with origins, data sizes and parameter counts. The text has tables of provenance, if there
    is any, and of learning rates if they differ. JSON keys: config, origin, data, parameters, rates (name, rate,
    decay).
    """
    config, origin = request.resolved.config, request.resolved.origin
    if as_json:
        report: dict[str, Any] = {"config": config.model_dump(mode="json"), "origin": dict(origin)}
        rates = [rate._asdict() for rate in plan.rates]
        console.print_json({**report, "data": plan.data, "parameters": plan.parameters, "rates": rates})
        return
    from phmrun.config import to_yaml
    from phmrun.config.provenance import grouped
    from phmrun.ledger.wording import counts_in_words

    console.print_line(to_yaml(config, origin))
    console.print_table(("size and data", ""), counts_in_words({**plan.parameters, "data": plan.data}))
    print()
    sources = grouped(config.provenance_values())
    if sources:
        console.print_table(("origin: paper, released code or ours", "settings"), sources)
        print()
    if plan.rates:
        rows = [(rate.name, f"{rate.rate:.4g}", f"{rate.decay:.4g}") for rate in plan.rates]
        console.print_table(("parameter", "learning rate ×", "weight decay ×"), rows)
        print()
