"""``phmrun train``: run one experiment, or continue it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import RUNS, ExperimentOptions, Json, RunsDirectory, resolve_options, spread
from phmrun.errors import PhmrunError

if TYPE_CHECKING:
    from phmrun.engine.experiment import DryRun
    from phmrun.experiments import Request
    from phmrun.ledger import Run

EPILOG = """Examples:

phmrun train nmt --layer phm --n 8

phmrun train nmt --data multi30k --config configs/nmt/multi30k-small.yaml --layer phm --n 4 --seed 2

phmrun train nmt --prefix corpus/ --source en --target fr --set data.vocabulary.size=8000 --dry-run

The same command again continues the run, or says that it is done."""


@spread
def train(
    options: ExperimentOptions,
    *,
    runs_dir: RunsDirectory = Path("runs"),
    extend: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Start a new run from the last checkpoint of this one, with its configuration; give --max-steps.",
            rich_help_panel=RUNS,
            autocompletion=completion.runs,
        ),
    ] = None,
    teacher: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Learn from this run's predictions too (--set distillation.weight=0.5, distillation.temperature=1).",
            rich_help_panel=RUNS,
            autocompletion=completion.runs,
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over: delete what this run has so far.", rich_help_panel=RUNS)
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask before --restart.", rich_help_panel=RUNS)
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print the configuration and where each value came from, the data and the counts; train nothing.",
            rich_help_panel=RUNS,
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Trains one model and scores it, or continues where a former call of the same command stopped."""
    with console.preparing():
        from phmrun.ledger import Run

        request = resolve_options(options, parent=Run.find(runs_dir, extend).config_path if extend else None)
        from phmrun.engine import experiment

        if not dry_run:
            import phmrun.engine.fit  # noqa: F401  (Lightning, which takes its time)
    if dry_run:
        _show(request, experiment.dry_run(request.resolved.config), as_json)
        return
    asking = (lambda run: None) if yes else _ask
    result = experiment.train(
        request.resolved.config,
        origin=request.resolved.origin,
        runs_dir=runs_dir,
        plugins=request.plugins,
        restart=asking if restart else None,
        extend=extend,
        derivation=experiment.taught_by(Run.find(runs_dir, teacher)) if teacher else None,
        verbosity=int(console.verbosity()),
    )
    if as_json:
        console.print_json({"run_id": result.run_id, "run_dir": str(result.run_dir), "metrics": result.metrics})
    else:
        console.print_scores(result.metrics)
        console.print_outcome(result.run_id, result.state)


def _ask(run: "Run") -> None:
    """Asks before a run is started over.

    Raises:
        PhmrunError: There is nobody to ask.
        Abort: The answer is no.
    """
    try:
        status = run.status
        found = f"{status.state}, {status.step:,} steps"
    except PhmrunError as error:
        found = f"damaged ({error.what})"
    if not sys.stdin.isatty():
        raise PhmrunError(
            f"--restart deletes what the run has so far: {found}",
            where=run.id,
            hint="Say --restart --yes to go on unasked.",
        )
    question = f"{run.id}: {found}. Delete it and start over?"
    typer.confirm(question, abort=True, err=True)


def _show(request: "Request", plan: "DryRun", as_json: bool) -> None:
    """The plan of a run: configuration with origins, statistics of the data, counts of parameters."""
    config, origin = request.resolved.config, request.resolved.origin
    if as_json:
        report: dict[str, Any] = {"config": config.model_dump(mode="json"), "origin": dict(origin)}
        rates = [rate._asdict() for rate in plan.rates]
        console.print_json({**report, "data": plan.data, "parameters": plan.parameters, "rates": rates})
        return
    from phmrun.config import to_yaml
    from phmrun.config.provenance import grouped
    from phmrun.ledger.wording import counts_in_words

    out = console.stdout()
    said = {key: label for key, label in origin.items() if label != "default"}
    out.print(to_yaml(config, said), markup=False, soft_wrap=True)
    console.print_table(("size and data", ""), counts_in_words({**plan.parameters, "data": plan.data}))
    out.print()
    sources = grouped(config.provenance_values())
    if sources:
        console.print_table(("said in the paper, released or ours", "settings"), sources)
        out.print()
    if plan.rates:
        rows = [(rate.name, f"{rate.rate:.4g}", f"{rate.decay:.4g}") for rate in plan.rates]
        console.print_table(("parameter", "learning rate ×", "weight decay ×"), rows)
        out.print()
