"""``phmrun compress``: structured matrices fitted to those of a trained run."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phmrun.cli import completion, console
from phmrun.cli.options import Checkpoint, Json, Plugin, RunArgument, RunsDirectory, choose_run, settings
from phmrun.config.sections import NO_DATA
from phmrun.documents import below
from phmrun.errors import PhmrunError, data_error
from phmrun.grouping import grouped_by
from phmrun.progress import waiting
from phmrun.registry import TASKS, load_plugins
from phmrun.shares import share_of

if TYPE_CHECKING:
    from phmrun.config import Experiment
    from phmrun.engine.experiment import TrainResult
    from phmrun.engine.trained_model import TrainedModel
    from phmrun.exchange.compress import Plan

Settings = Sequence[tuple[str, Any, str]]
"""Dotted key, value and origin of each setting."""

SCOPES = ("layer", "embedding", "output")
"""Places of structures, which are sections of the configuration."""


def compress(
    run: RunArgument,
    layer: Annotated[str, typer.Option(autocompletion=completion.layers)],
    n: int | None = None,
    embedding: Annotated[str | None, typer.Option(autocompletion=completion.layers)] = None,
    output: Annotated[str | None, typer.Option(autocompletion=completion.layers)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE")] = None,
    budget: str | None = None,
    allocate: Literal["loss", "error"] | None = None,
    steps: Annotated[int, typer.Option(min=0)] = 0,
    teacher: Annotated[bool, typer.Option("--teacher/--no-teacher")] = True,
    calibrate: Annotated[int, typer.Option(min=0)] = 8,
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    checkpoint: Checkpoint = None,
    runs_dir: RunsDirectory = Path("runs"),
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Compress a trained run: replace its matrices by their nearest structured ones.

    Prints how much of each matrix the fit keeps, and writes a new run beside it, trained further with --steps. Updates
    of frozen weights are merged first; --layer dense does nothing else.

    Args:
        layer: Structure of the weight matrices inside the blocks (`phmrun layers`); with --budget, several with commas
            between, of which each matrix gets the best (low-rank,monarch).
        n: Order n of --layer; other options: --set layer.rank=16.
        embedding: Structure of the embedding tables, and of a tied output; options: --set embedding.rank=16.
        output: Structure of the output layer, if it is not tied to the embedding.
        set_: Option of the structure (layer.rank=16), or any configuration key of the new run, such as data.prefix for
            other data of calibration and training; may be repeated.
        budget: Largest share of the model's parameters to keep, such as 1/2; some matrices may stay dense, and fewer
            parameters are kept where more do not lower the loss.
        allocate: How --budget finds the structure and size of each matrix: by the calibration loss with each candidate
            (loss, the default), or by the error of its outputs, for large models (error).
        steps: Optimizer steps of training after the fit; 0: no training. By default from 0.3 of the run's highest
            learning rate along a cosine to 0; --set changes both.
        teacher: Distill from the original run; --set changes weight and temperature.
        calibrate: Training batches whose activations weight the fit; 0: fit the matrices alone.
        dry_run: Print the plan; write no run.

    Examples:
        phmrun compress latest --layer phm --n 4 --steps 0
        phmrun compress latest --layer low-rank --embedding low-rank --budget 1/2 --steps 300
        phmrun compress latest --layer low-rank,monarch --budget 1/2 --allocate error --dry-run
        phmrun compress latest --layer dense --calibrate 0
    """
    plugins = load_plugins(plugin)
    share = None if budget is None else share_of(budget)
    if budget is not None and share is None:
        raise PhmrunError(f"{budget!r} is not a fraction", where="--budget", valid=("1/2", "0.25", "above 0, up to 1"))
    if share is None and (allocate or "," in layer):
        hint = f"Run: phmrun compress {choose_run(runs_dir, run).reference} --layer {layer} --budget 1/2"
        hint += "" if n is None else f" --n {n}"
        hint += f" --allocate {allocate or 'loss'}{' --dry-run' * dry_run}"
        raise PhmrunError("--allocate, and several structures, need a budget", where="--budget", hint=hint)
    keys = settings(set_ or [])
    with waiting("preparing"):
        from phmrun.engine import experiment
        from phmrun.engine.trained_model import open_run
        from phmrun.exchange.compress import ORDERS, derivation, layer_of, make_plan, merge_updates, without_updates
        from phmrun.exchange.further_training import further_training

    named = {"embedding": embedding, "output": output}
    for key, _, _ in keys:
        scope, _, option = key.partition(".")
        if key == "training.max_steps" or (scope == "model" and "dropout" not in option):
            hint = "--steps N trains on after the fit; the other sizes of a trained network stay."
            raise PhmrunError(f"{key} cannot be changed", where="--set", hint=hint)
        if scope in SCOPES and not (option and named.get(scope, layer)):
            hint = f"Name the structure: --{scope} low-rank --set {scope}.rank=16"
            raise PhmrunError(f"{key} has no effect here", where="--set", hint=hint)
    options = {scope: below({key: value for key, value, _ in keys}, scope) for scope in SCOPES}
    if n is not None:
        options["layer"]["n"] = n
    trained = open_run(choose_run(runs_dir, run))
    chosen = [setting for setting in keys if setting[0].partition(".")[0] not in SCOPES]
    config = _config_with(chosen, trained)
    if config.data.name == NO_DATA and (calibrate or not dry_run):
        raise _without_data(trained, f"--layer {layer}" + ("" if n is None else f" --n {n}"))
    weights = trained.load(checkpoint=checkpoint)
    trained, config = merge_updates(trained), without_updates(config, trained)
    wanted, *others = (layer_of(name.strip(), options["layer"]) for name in layer.split(","))
    plan = make_plan(
        trained,
        wanted,
        budget=share,
        batches=calibrate,
        fixed={scope for scope, its in options.items() if its.keys() & {*ORDERS, "rank"}},
        tables={scope: layer_of(name, options[scope], scope) for scope, name in named.items() if name},
        config=config,
        others=others,
        allocate=allocate or "loss",
    )
    training = further_training(
        config.training, trained.module.schedule, trained.run.status.step, steps, [key for key, *_ in chosen]
    )
    if not as_json:
        _show(plan)
    result = None
    if not dry_run:
        result = experiment.train(
            plan.config_of(config, wanted, training),
            origin={},
            runs_dir=trained.run.path.parent,
            plugins=plugins,
            derivation=derivation(trained, plan, weights, calibrate, taught=teacher and steps > 0),
        )
    if as_json:
        _print_json(trained, plan, result)
    elif result:
        console.print_line(_sizes(trained, result.run_dir, plan))
        console.print_result(result.run_id, result.run_dir, result.metrics, as_json, result.state)


def _config_with(chosen: Settings, trained: "TrainedModel") -> "Experiment":
    """Return the run's configuration with the settings.

    New data keep the run's vocabulary, to which its trained tables belong.

    Raises:
        PhmrunError: (exit 2) A key is unknown, or a value invalid.
    """
    from phmrun.experiments import resolve_request

    if not chosen:
        return trained.config
    task = trained.config.task
    if any(key.startswith("data.") for key, *_ in chosen) and TASKS.get(task).converts:
        vocabulary = str(trained.run.vocabulary.resolve())
        chosen = [*chosen, ("data.vocabulary.path", vocabulary, "the run's vocabulary")]
    return resolve_request(task, chosen, parent=trained.run.config_path).resolved.config


def _without_data(trained: "TrainedModel", layers: str) -> PhmrunError:
    """Return the error of an imported run without data; ``layers`` are the command's options that its hint repeats."""
    return data_error(
        f"{trained.run.id} has no data to calibrate and score with: its checkpoint was imported without any",
        "data.prefix",
        f"Run: phmrun compress {trained.run.reference} {layers} --set data.prefix=corpus/ --set data.source=en "
        "--set data.target=de (corpus/train.en, corpus/train.de …); --calibrate 0 --dry-run needs no data.",
    )


def _print_json(parent: "TrainedModel", plan: "Plan", result: "TrainResult | None") -> None:
    """Print the plan and, if a run was written, its id, folder and scores."""
    outcome = {"run_id": result.run_id, "run_dir": str(result.run_dir), "metrics": result.metrics} if result else {}
    before, after = plan.loss or (None, None)
    size = {"parameters": plan.parameters, "dense_parameters": plan.dense_parameters, "share_of_model": plan.share}
    summary = {**size, "loss_before": before, "loss_after": after, "maps": [vars(entry) for entry in plan.maps]}
    console.print_json({"parent": parent.run.id, "plan": summary, **outcome})


def _sizes(parent: "TrainedModel", child: Path, plan: "Plan") -> str:
    """Return the sizes of a compressed run relative to its parent.

    They are shares in percent: of the parameters, and of the exported safetensors file, with factors and folded. Both
    files are relative to the parent's with factors.
    """
    from phmrun.engine.trained_model import open_run
    from phmrun.exchange.factored import weight_bytes
    from phmrun.ledger import Run

    (_, before), (folded, factored) = (
        weight_bytes(trained.module.network, trained.module.export_graph().network)
        for trained in (parent, open_run(Run(child)))
    )
    text = f"parameters {plan.share:.1%} · file as exported with --factored {factored / before:.1%}"
    return f"{text}, folded {folded / before:.1%}"


def _show(plan: "Plan") -> None:
    """Print a plan: a table of the kinds of matrices, then totals.

    Columns: kind, number, shape, structures, share of parameters kept, and mean energy kept, of the matrices and of
    their outputs. Totals are parameters and, if calibrated, the losses before and after.
    """
    rows = []
    for kind, maps in grouped_by(plan.maps, attrgetter("kind")).items():
        shape, layers = "×".join(map(str, maps[0].shape)), ", ".join(sorted({_label(entry.layer) for entry in maps}))
        size = sum(entry.parameters for entry in maps) / sum(entry.shape[0] * entry.shape[1] for entry in maps)
        energy = sum(entry.energy for entry in maps) / len(maps)
        outputs = [entry.output_energy for entry in maps if entry.output_energy is not None]
        kept = f"{sum(outputs) / len(outputs):.3f}" if outputs else "–"
        rows.append((kind, str(len(maps)), shape, layers, f"{size:.3f}", f"{energy:.3f}", kept))
    console.print_table(("map", "number", "shape", "layer", "parameters", "energy kept", "of the outputs"), rows)
    if any(entry.energy < 0 or (entry.output_energy or 0) < 0 for entry in plan.maps):
        console.print_line("energy kept below 0: the fit is farther from the map than zeros are")
    share = plan.parameters / plan.dense_parameters
    text = f"{plan.parameters:,} of {plan.dense_parameters:,} parameters in these maps ({share:.1%})"
    if plan.loss:
        text += f" · loss on the calibration data {plan.loss[0]:.3f} before, {plan.loss[1]:.3f} after"
    console.print_line(text)


def _label(layer: Mapping[str, Any]) -> str:
    """Return a structure with its non-default options, such as ``phm n=4``.

    Its order is named even if it is the default.
    """
    from phmrun.config.options import options_of
    from phmrun.exchange.compress import ORDERS
    from phmrun.ledger.directory import layer_label

    usual = options_of(layer["structure"]).defaults()
    options = {key: value for key, value in layer.items() if key in ORDERS or key not in usual or value != usual[key]}
    return str(layer_label(options, words=True))
