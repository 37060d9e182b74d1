"""``phmrun bench``: how fast layers and models are, against what one would take instead."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import bench_layers, completion, console, measuring
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import Repeats, Texts, Threads, measured
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory
from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.experiments import resolve_request
from phmrun.progress import progress, waiting
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.networks import Measured
    from phmrun.bench.run import Report

app = typer.Typer(help="Speed of layers and of whole models, against others in the same run.", no_args_is_help=True)

OPPONENTS = ("hf", "dense", "ctranslate2", "ctranslate2-int8")  # what stands beside a run without being one
PARTS = ("training", "decoding")
NETWORKS_EPILOG = """Examples:

phmrun bench networks --preset small --preset base --threads 1

phmrun bench networks --layer "phm n=4" --layer "monarch budget=1/8" --length 40"""
TABLE_EPILOG = """Examples:

phmrun bench table configs/papers/phm/table4.yaml

phmrun bench table configs/papers/reproduction/table5-small.yaml --threads 1 --sentences 64

phmrun table configs/papers/phm/table4.yaml --paper"""
RUN_EPILOG = """Examples:

phmrun bench run nmt-multi30k-phm-1

phmrun bench run nmt-multi30k-phm-1 --against hf --against dense --threads 2

phmrun bench run nmt-multi30k-phm-1 --only decoding --against ctranslate2 --against ctranslate2-int8 --against hf"""

BatchSizes = Annotated[Texts, measured(metavar="N,…", help="Sentences decoded at a time (default: 1,64).")]

app.command("layers", epilog=bench_layers.EPILOG)(bench_layers.bench_layers)


@app.command("networks", epilog=NETWORKS_EPILOG)
def bench_networks(
    preset: Annotated[
        Texts, measured(metavar="NAME", help="Sizes of the task nmt; may be repeated (default: small).")
    ] = None,
    layer: Annotated[
        Texts,
        measured(
            metavar="NAME",
            help="Structure of the blocks' matrices, with options if need be: 'phm n=8'; may be repeated (default: "
            "all).",
            autocompletion=completion.layers,
        ),
    ] = None,
    vocabulary: Annotated[int, measured(min=5, help="Tokens that there are.")] = 8000,
    length: Annotated[int, measured(min=2, help="Tokens of every sentence, of both sides.")] = 24,
    tokens: Annotated[int, measured(min=1, help="Target tokens of a training step.")] = 2048,
    batch_size: BatchSizes = None,
    repeats: Repeats = 5,
    plugin: Plugin = None,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measures Transformers with random weights: an optimizer step, and beam search with a beam of 5.

    Figures beside the time of the dense network are ratios to it: below 1 is faster. Multiplications are those of the
    weight matrices, for one token.
    """
    load_plugins(plugin)
    wanted = [measuring.name_and_options(text, "--layer") for text in layer or STRUCTURES.names()]
    from phmrun.bench import machine, networks
    from phmrun.engine.trained_model import choose_device

    measuring.prepare_process(threads)
    place = choose_device(device)
    sizes = tuple(measuring.numbers(batch_size, "--batch-size")) or networks.Amount.sentences
    amount = networks.Amount(vocabulary, length, tokens, sizes, repeats)
    # All configurations are resolved before anything is measured, so that a mistake in the last is told at once.
    plans = [(name, _configs(name, wanted, vocabulary)) for name in measuring.listed(preset) or ["small"]]
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": place}
    found = [networks.measure(name, configs, amount, device=place) for name, configs in plans]
    if as_json:
        console.print_json({"machine": facts, "rows": [row.to_json() for rows in found for row in rows]})
        return
    measuring.print_machine(facts)
    for rows in found:
        _print_preset(rows, tokens)


def _configs(preset: str, wanted: list[tuple[str, dict[str, Any]]], vocabulary: int) -> dict[str, Any]:
    """By structure and options the configs of all networks that can be built, the dense one first."""
    from phmrun.engine.counting import count_parameters

    configs: dict[str, Any] = {}
    left_out = []
    for name, options in [("dense", {}), *wanted]:
        label = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
        settings = [("model.preset", preset, "--preset"), ("layer.structure", name, "--layer")]
        settings += [(f"layer.{key}", value, "--layer") for key, value in options.items()]
        config = resolve_request("nmt", settings).resolved.config
        try:
            count_parameters(config, (vocabulary, vocabulary))
            configs[label] = config
        except PhmrunError as error:
            left_out.append(f"{preset}, {label}: {error.what}")
    for reason in left_out:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    # dense itself always fits, so these are all that were asked for
    if wanted and len(left_out) == len(wanted):
        raise PhmrunError(f"no layer fits: {left_out[-1]}", where="--layer")
    return configs


def _print_preset(rows: list["Measured"], tokens: int) -> None:
    """One line per network; the dense one's has its times."""
    dense, lines = rows[0], []
    for row in rows:
        multiplications = f"{row.multiplications / 1e6:,.1f} M"
        times = [
            measuring.duration(row.seconds[name]) if row is dense else f"{row.ratios[name]:.2f}" for name in row.seconds
        ]
        lines.append((row.layer, f"{row.parameters:,}", multiplications, *times))
    heads = [name if name.startswith("train") else f"beam 5, {name}" for name in dense.seconds]
    columns = ("layer", "parameters", "multiplications", *heads)
    console.print_table(columns, lines, title=f"\n{dense.preset}: a step of {tokens:,} tokens, and decoding")


app.command("embeddings", epilog=bench_layers.EMBEDDINGS_EPILOG)(bench_layers.bench_embeddings)
app.command("rates", epilog=bench_layers.RATES_EPILOG)(bench_layers.bench_rates)


@app.command("table", epilog=TABLE_EPILOG)
def bench_table(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A paper table's file, or that of a smaller twin.")],
    only: Annotated[
        Texts, typer.Option(metavar="KEY=VALUE", help="Only cells with this value: row=Vanilla, seed=1.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also measure what has been measured before.")] = False,
    batches: Annotated[int, measured(min=1, help="Training or validation batches in a measurement.")] = 8,
    sentences: Annotated[
        int, measured(min=1, help="Test items in a measurement; the time of more is in proportion.")
    ] = 256,
    repeats: Repeats = 3,
    cpu_time: Annotated[bool, measured("--cpu-time", help="CPU seconds, where the machine has other work.")] = False,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measures the runs of a table's cells, one after the other, for its columns of times.

    They are kept in each run's directory, in bench.json, and `phmrun table FILE --paper` shows them beside the paper's.
    """
    from phmrun.cli.sweep_work import recorded
    from phmrun.ledger import Run
    from phmrun.ledger.listing import PREFIX, TIMES, read_times
    from phmrun.ledger.run import State
    from phmrun.sweeps.cell_status import distinct, survey

    made = recorded(file, runs_dir, only)
    columns = made.sweep.table.columns.values() if made.sweep.table else []
    wanted = {str(column.score) for column in columns if str(column.score).startswith(PREFIX)}
    if not wanted:
        raise PhmrunError("no column of this file is a time", where=file, hint="`phmrun bench run RUN` measures a run.")
    # Several cells may be one experiment, whose run is measured once.
    statuses = distinct(survey(made, runs_dir))
    runs = [status.run for status in statuses if status.run and status.run.state == State.DONE]
    if not runs:
        hint = "`phmrun sweep FILE` makes them; --runs-dir names another directory of runs."
        raise PhmrunError(
            f"none of its cells has a finished run in {runs_dir}", where=file, hint=hint, code=ExitCode.DATA
        )
    from phmrun.bench.machine import warn_if_busy
    from phmrun.bench.run import Amount, measure_times

    measuring.prepare_process(threads)
    warn_if_busy()
    found = {}
    with progress("measuring", len(runs), "runs") as advance:
        for run in runs:
            lacking = wanted if again else wanted - read_times(run.path).keys()
            if lacking:
                amount = Amount(repeats, batches, sentences=sentences)
                measure_times(Run(run.path), lacking, amount, device, "cpu" if cpu_time else "wall")
            found[run.id] = {name: entry for name, entry in read_times(run.path).items() if name in wanted}
            advance(1)
    if as_json:
        console.print_json(found)
        return
    measuring.print_machine(next(entry["machine"] for times in found.values() for entry in times.values()))
    shown = sorted(wanted)
    lines = [(name, *(f"{times[key]['value']:.4g}" for key in shown)) for name, times in found.items()]
    console.print_table(("run", *(TIMES[key] for key in shown)), lines)


@app.command("trees")
def bench_trees(
    length: Annotated[Texts, measured(metavar="WORDS,…", help="Words of a sentence (default: 10,20,40).")] = None,
    sentences: Annotated[int, measured(min=1, help="Sentences per call.")] = 64,
    repeats: Repeats = 5,
    threads: Threads = 0,
    as_json: Json = False,
) -> None:
    """Measures spanning trees with one root, beside supar's if that is installed, on the CPU.

    Scores are random, so that every sentence must be searched, or peaked as a trained parser's, whose best heads
    mostly are a tree.
    """
    lengths = measuring.numbers(length, "--length")
    from phmrun.bench import machine, trees

    measuring.prepare_process(threads)
    if not trees.has_supar():
        console.stderr().print("left out: supar's spanning trees: not installed", markup=False)
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": "cpu"}
    rows = list(trees.measure(lengths or trees.LENGTHS, sentences=sentences, rounds=repeats))
    if as_json:
        console.print_json({"machine": facts, "rows": [row.to_json() for row in rows]})
        return
    measuring.print_machine(facts)
    others = list(rows[0].ratios)
    lines = []
    for row in rows:
        beside = [cell for name in others for cell in (round(row.rates[name]), f"{row.ratios[name]:.1f}×")]
        ours = round(row.rates[trees.OURS])
        lines.append((row.scores, row.words, row.sentences, f"{row.searched:.0%}", ours, *beside))
    heads = [cell for name in others for cell in (name, "ratio")]
    columns = ("scores", "words", "batch", "searched", trees.OURS, *heads)
    console.print_table(columns, lines, title="\nSentences per second")


@app.command("run", epilog=RUN_EPILOG)
def bench_run(
    run: RunArgument,
    against: Annotated[
        Texts,
        measured(
            metavar="RUN|dense|hf|ctranslate2|ctranslate2-int8",
            help="Beside it another run, a model of the same sizes (ours with dense matrices, or Hugging Face's, with "
            "the run's weights where it has a place for them), or its own weights in CTranslate2; may be repeated. "
            "With random weights, all decode as many tokens as the references have.",
        ),
    ] = None,
    only: Annotated[str | None, measured(metavar="training|decoding", help="Leave the other out.")] = None,
    batches: Annotated[int, measured(min=1, help="Training batches in a measurement.")] = 8,
    batch_size: BatchSizes = None,
    sentences: Annotated[int, measured(min=1, help="Test sentences in a measurement of decoding, in batches.")] = 256,
    single: Annotated[int, measured(min=1, help="Test sentences in a measurement of decoding one by one.")] = 24,
    repeats: Repeats = 5,
    profile: Annotated[bool, measured("--profile", help="Also show which operations take the time.")] = False,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measures a run's model on its data: training and decoding speed, and the memory that they take.

    Training speed counts what the loss is averaged over: target tokens, words, sentences. Translations are searched for
    greedily and with a beam of 5; other tasks answer as predict does; both at 64 sentences and at one.
    The run's own figures are kept in its `bench.json`.
    """
    if only is not None and only not in PARTS:
        raise unknown("part", only, PARTS, where="--only")
    sizes = measuring.numbers(batch_size, "--batch-size")
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when torch is imported: its profiler writes to stderr
    with waiting("preparing"):
        from phmrun.bench.run import Amount
        from phmrun.bench.run import bench_run as measure

    measuring.prepare_process(threads)
    report = measure(
        found,
        against=[name if name in OPPONENTS else Run.find(runs_dir, name) for name in dict.fromkeys(against or [])],  # type: ignore[misc]
        amount=Amount(repeats, batches, sizes or Amount.sizes, sentences, single),
        parts=(only,) if only else PARTS,  # type: ignore[arg-type]
        profiled=profile,
        device=device,
    )
    report.record()
    if as_json:
        console.print_json(report.to_json())
    else:
        _print_run(report)


def _print_run(report: "Report") -> None:
    """Rates of the run's model and of the others, and memory; then profiles."""
    measuring.print_machine(report.machine)
    others = list(dict.fromkeys(name for phase in report.phases for name in phase.ratios))
    columns = ["", "per second", report.layer, *(part for name in others for part in (name, "ratio")), "peak memory"]
    rows = []
    for phase in report.phases:
        figures: list[float | str | None] = []
        for name in others:
            figures += (phase.rates[name], f"{phase.ratios[name]:.2f}×") if name in phase.ratios else (None, None)
        memory = f"{phase.peak_memory / 2**20:,.0f} MiB"
        rows.append((phase.name, phase.unit, phase.rates["run"], *figures, memory))
    console.print_table(columns, rows, title=f"\n{report.run.id}")
    for phase in report.phases:
        if phase.operations:
            lines = [
                (operation.name, operation.calls, f"{1000 * operation.seconds:,.1f} ms", f"{operation.share:.1%}")
                for operation in phase.operations
            ]
            title = f"\n{phase.name}: where the time of {phase.amount:,} {phase.unit} goes"
            console.print_table(("operation", "calls", "own time", "share"), lines, title=title)
