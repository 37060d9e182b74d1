"""``phmrun compress``: a trained run with the nearest matrices of a structure in the places of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.decoding import Average, Checkpoint
from phmrun.cli.options import RUNS, Json, Plugin, RunArgument, settings
from phmrun.errors import PhmrunError
from phmrun.progress import waiting
from phmrun.registry import TASKS, load_plugins
from phmrun.shares import share_of

if TYPE_CHECKING:
    from phmrun.compression.compress import Plan

EPILOG = """Examples:

phmrun compress latest --layer phm --n 4 --steps 0

phmrun compress latest --layer low-rank --budget 1/2 --steps 300"""


def compress(
    run: RunArgument,
    layer: Annotated[str, typer.Option(help="Structure of the maps inside the blocks (`phmrun layers list`).")],
    n: Annotated[int | None, typer.Option(help="Its order n; an option of another name: --set layer.rank=16.")] = None,
    embedding: Annotated[
        str | None, typer.Option(help="Structure of the tables of vectors too, with a tied output; its options: --set.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="Structure of the output map too, where it is not tied.")] = None,
    data: Annotated[
        str | None, typer.Option(help="Dataset to calibrate and to train with (default: the run's data).")
    ] = None,
    prefix: Annotated[str | None, typer.Option(help="Or your own files: how their names start.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Another option of the structure (layer.rank=16), or any key of the new run; may be repeated.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Share of the dense parameters, spread over the maps by what each costs; maps may stay dense."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps of training after the fit; 0: the fit alone.")] = 0,
    teacher: Annotated[
        bool,
        typer.Option(
            "--teacher/--no-teacher",
            help="Train on the old run's predictions too (--set distillation.weight=0.5, distillation.temperature=1).",
        ),
    ] = True,
    sequences: Annotated[
        bool,
        typer.Option(
            "--sequences", help="Of translation: train on the old run's outputs for the training sources (CTranslate2)."
        ),
    ] = False,
    calibrate: Annotated[
        int, typer.Option(min=0, help="Training batches that the fit is to serve; 0: the matrices alone decide.")
    ] = 8,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and make no run.")] = False,
    checkpoint: Checkpoint = None,
    average: Average = None,
    runs_dir: Annotated[
        Path | None,
        typer.Option(
            "--runs-dir",
            envvar="PHMRUN_RUNS",
            help="Where run directories are (default: runs), and where the new one goes (default: beside the old one).",
            rich_help_panel=RUNS,
            file_okay=False,
        ),
    ] = None,
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Fits a structure to a trained run's matrices, shows what they keep, and makes a new run of them."""
    from phmrun.experiments import resolve_request

    plugins = load_plugins(plugin)
    share = None if budget is None else share_of(budget)
    if budget is not None and share is None:
        raise PhmrunError(f"{budget!r} is no share", where="--budget", valid=("1/2", "0.25", "above 0, up to 1"))
    keys = settings(set_ or [])
    with waiting("preparing"):
        from phmrun.compression.compress import derivation, layer_of, make_plan
        from phmrun.engine import experiment
        from phmrun.engine.trained_model import open_run
    from phmrun.ledger import Run

    options = {
        scope: {key.removeprefix(f"{scope}."): value for key, value, _ in keys if key.startswith(f"{scope}.")}
        for scope in ("layer", "embedding", "output")
    }
    others = [setting for setting in keys if setting[0].partition(".")[0] not in options]
    given = options["layer"] if n is None else {**options["layer"], "n": n}
    trained = open_run(Run.find(runs_dir or Path("runs"), run))
    if sequences and not (steps and TASKS.get(trained.config.task).converts):
        raise PhmrunError("outputs to learn from need a translator and --steps", where="--sequences")
    own = {"--data": ("data.name", data), "--prefix": ("data.prefix", prefix)}
    others += [(key, value, option) for option, (key, value) in own.items() if value is not None]
    config = trained.config
    if others:
        if any(key.startswith("data.") for key, *_ in others) and TASKS.get(config.task).converts:
            # The rows of the trained tables belong to the run's vocabulary: other data must not learn one of their own.
            others.append(("data.vocabulary.path", str(trained.run.vocabulary.resolve()), "the run's vocabulary"))
        config = resolve_request(config.task, others, parent=trained.run.config_path).resolved.config
    weights = trained.load(checkpoint=checkpoint, average=average)
    wanted = layer_of(layer, given)
    named = {"embedding": embedding, "output": output}
    tables = {scope: layer_of(name, options[scope]) for scope, name in named.items() if name}
    plan = make_plan(trained, wanted, budget=share, batches=calibrate, fixed=bool(given), tables=tables, config=config)
    if not as_json:
        _show(plan)
    result = None
    if not dry_run:
        if sequences:
            from phmrun.families.sequence_to_sequence.distillation import with_outputs_of

            config = with_outputs_of(trained, config, weights)
        result = experiment.train(
            plan.config_of(config, wanted, steps),
            origin={},
            runs_dir=runs_dir or trained.run.path.parent,
            plugins=plugins,
            derivation=derivation(trained, plan, weights, calibrate, taught=teacher and steps > 0),
            verbosity=int(console.verbosity()),
        )
    if as_json:
        made = {"run_id": result.run_id, "run_dir": str(result.run_dir), "metrics": result.metrics} if result else {}
        before, after = plan.loss or (None, None)
        size = {"parameters": plan.parameters, "dense_parameters": plan.dense_parameters}
        told = {**size, "loss_before": before, "loss_after": after, "maps": [vars(one) for one in plan.maps]}
        console.print_json({"parent": trained.run.id, "plan": told, **made})
    elif result:
        console.print_scores(result.metrics)
        console.print_outcome(result.run_id, result.state)


def _show(plan: "Plan") -> None:
    """The plan: what each kind of map keeps."""
    from phmrun.compression.maps import by_kind

    rows = []
    for kind, maps in by_kind(plan.maps).items():
        shape, layers = "×".join(map(str, maps[0].shape)), ", ".join(sorted({_label(one.layer) for one in maps}))
        size = sum(one.parameters for one in maps) / sum(one.shape[0] * one.shape[1] for one in maps)
        energy = sum(one.energy for one in maps) / len(maps)
        outputs = [one.output_energy for one in maps if one.output_energy is not None]
        kept = f"{sum(outputs) / len(outputs):.3f}" if outputs else "–"
        rows.append((kind, str(len(maps)), shape, layers, f"{size:.3f}", f"{energy:.3f}", kept))
    console.print_table(("map", "number", "shape", "layer", "parameters", "energy kept", "of the outputs"), rows)
    share = plan.parameters / plan.dense_parameters
    said = f"{plan.parameters:,} of {plan.dense_parameters:,} parameters in these maps ({share:.1%})"
    if plan.loss:
        said += f" · loss on the calibration data {plan.loss[0]:.3f} before, {plan.loss[1]:.3f} after"
    console.stdout().print(said, markup=False, soft_wrap=True)


def _label(layer: Mapping[str, Any]) -> str:
    """A structure with what rules its size and what is not as usual, ``phm n=4``."""
    from phmrun.compression.compress import ORDERS
    from phmrun.layers import options_of
    from phmrun.ledger.run import layer_label

    usual = {option.name: option.default for option in options_of(layer["structure"])}
    told = {key: value for key, value in layer.items() if key in ORDERS or key not in usual or value != usual[key]}
    return str(layer_label(told, words=True))
