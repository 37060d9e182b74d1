"""Cost of serving a run in each format: bytes, memory, time per sentence and score, each in a process of its own."""

import multiprocessing
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch

from phmrun.bench.machine import memory_in_use, peak_memory
from phmrun.bench.run import answering, sampled_lines
from phmrun.bench.timing import interleave
from phmrun.config import decoding_section
from phmrun.engine.module import TrainingModule
from phmrun.engine.predictor import Evaluation, Predictor
from phmrun.engine.trained_model import TrainedModel, open_run
from phmrun.exchange.ctranslate2 import Quantization, longest_line
from phmrun.exchange.ctranslate2_engine import CTranslate2Model
from phmrun.exchange.factored import has_factors
from phmrun.exchange.formats import Format, export
from phmrun.families.sequence_to_sequence.config import DecodingConfig
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.files import cache_dir
from phmrun.layers import load
from phmrun.ledger import Run
from phmrun.models.transformer import EncoderDecoder
from phmrun.progress import waiting
from phmrun.registry import TASKS, load_plugins
from phmrun.text.token_names import token_names
from phmrun.text.vocabularies import Vocabularies

BATCHES = (1, 32)
SINGLE = 16  # items of a round with batch 1
ROUNDS = 5  # rounds of the timing; medians are reported
PACKAGES = {"safetensors": "safetensors", "onnx": "onnxruntime", "ctranslate2": "ctranslate2"}


UNMEASURED: Mapping[str, Any] = {
    **dict.fromkeys(("peak_memory", "single_ms", "batch_ms", "latency_ratio")),
    **{"metric": "", "score": None, "changed": None, "sentences": 0},
}
"""Measurements of a format that is not decoded; keys of :func:`serve_all`."""


def formats_of(trained: TrainedModel) -> list[Format]:
    """Return the installed formats that fit the run, the checkpoint first.

    Factors need a structure other than dense, ONNX a traceable network, CTranslate2 a translation task. Each but ONNX
    comes in full precision, bfloat16 and int8, safetensors in int4, too.
    """
    program = trained.module.export_graph()
    factored = [False, True] if has_factors(trained.module.network) else [False]
    roundings = ("none", "bfloat16", "int8", "int4")
    formats = [Format("checkpoint")]
    formats += [Format("safetensors", kept, precision) for kept in factored for precision in roundings]
    if not program.untraceable:
        formats.append(Format("onnx"))
    if TASKS.get(trained.config.task).converts:
        formats += [Format("ctranslate2", False, precision) for precision in roundings[:3]]
    return [item for item in formats if item.name == "checkpoint" or find_spec(PACKAGES[item.name])]


def serve_all(
    run: Run,
    formats: Sequence[Format],
    *,
    split: str = "test",
    plugins: Mapping[Path, str] | None = None,
    reference: Run | None = None,
    decode: bool = True,
) -> list[dict[str, Any]]:
    """Export a run in several formats; measure each in a new process.

    Files are written into the run's ``exports`` folder. ONNX files are written, but only their bytes and differences
    measured. Each process has one thread. Results are in the order of ``formats``, as flat objects for JSON:

    name, factored, precision, label: The format.
    path: Exported file or directory.
    parameters: Parameters of the run, tied ones counted once.
    bytes: Size on disk of what the format needs, without vocabularies.
    difference: Largest difference of an output of the network, relative to its largest value; None for a checkpoint
        and for CTranslate2.
    peak_memory: Largest resident memory above that of the process before loading, in bytes, loading included.
    single_ms: Milliseconds of CPU time a sentence with batch 1, on one thread.
    batch_ms: The same with batch 32.
    latency_ratio: ``single_ms`` relative to the reference run in float32, timed by turns in the same process.
    metric: Name of the score.
    score: Score on the split.
    changed: Outputs that differ from the checkpoint's; CTranslate2's other length penalty changes some, too.
    sentences: Items of the split.

    Args:
        run: The run.
        formats: Formats; the first one's outputs are those that ``changed`` compares with.
        split: Split to score.
        plugins: Plug-ins to load, by file.
        reference: Run of ``latency_ratio``; None: ``run``.
        decode: False to measure only bytes and differences of outputs, without a process.
    """
    results: list[dict[str, Any]] = []
    expected: list[str] | None = None
    for place, item in enumerate(formats, start=1):
        with waiting(f"measuring {item.label}, {place} of {len(formats)}"):
            path, difference = written(run, item)
            size = sum(part.stat().st_size for part in _weights(path))
            served = {**asdict(item), "label": item.label, "path": str(path), **UNMEASURED}
            served |= {"parameters": int(run.parameters()["total"]), "bytes": size, "difference": difference}
            if decode and item.name != "onnx":
                spawn, quiet = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_DFL)
                arguments = (run.path, item, path, split, list(plugins or {}), (reference or run).path)
                # Ctrl-C ends the process without a traceback of its own
                with ProcessPoolExecutor(1, mp_context=spawn, initializer=signal.signal, initargs=quiet) as pool:
                    facts, outputs = pool.submit(measured, *arguments).result()
                expected = outputs if expected is None else expected
                changed = sum(mine != theirs for mine, theirs in zip(outputs, expected, strict=True))
                served |= {**facts, "changed": changed, "sentences": len(outputs)}
        results.append(served)
    return results


def written(run: Run, item: Format) -> tuple[Path, float | None]:
    """Export a run in a format into its directory.

    Return its path and the largest difference of its outputs, ``None`` if they are not compared. The checkpoint is not
    exported: its path is that of ``best.ckpt``, else of ``last.ckpt``.
    """
    trained = open_run(run)
    if item.name == "checkpoint":
        best = run.checkpoints / "best.ckpt"
        return best if best.is_file() else run.checkpoints / "last.ckpt", None
    precision = _engine_precision(item) if item.name == "ctranslate2" else item.precision
    exported = export(trained, None, item.name, factored=item.factored, precision=precision)
    return exported.path, exported.difference


def _engine_precision(item: Format) -> Quantization:
    """Return CTranslate2's name of a precision.

    "int8" is "int8_float32": the rest keeps single precision.
    """
    return "int8_float32" if item.precision == "int8" else cast(Quantization, item.precision)


def _weights(path: Path) -> list[Path]:
    """Return a file, or a directory's files of weights and graphs.

    These end in ``.onnx`` or ``.bin``.
    """
    if path.is_file():
        return [path]
    return [part for part in path.iterdir() if part.suffix in (".onnx", ".bin")]


def measured(
    directory: Path, item: Format, path: Path, split: str, plugins: Sequence[Path], reference: Path
) -> tuple[dict[str, Any], list[str]]:
    """Measure a format in this process, which must do nothing else; torch keeps one thread.

    Memory is the peak above that before loading. Times are CPU time: medians of ``ROUNDS`` rounds over
    sampled items, in which the format and the reference take turns. The score is the first of the evaluation, made with
    batch 32 while memory is measured.

    Args:
        directory: Directory of the run.
        item: The format.
        path: Its file or directory.
        split: Split to score.
        plugins: Plug-ins to load.
        reference: Directory of the run of ``latency_ratio``.

    Returns:
        Measurements of :func:`serve_all` by name, and the predictions by item.
    """
    torch.set_num_threads(1)
    load_plugins(list(plugins))
    trained = open_run(Run(directory))
    data = TASKS.get(trained.config.task).load("data")(trained.config, cache_dir())
    data.prepare()
    if item.name == "ctranslate2":
        __import__("ctranslate2")
    before = memory_in_use()
    with peak_memory("cpu") as peak:
        engine = _engine(trained, item, path)
        evaluation: Evaluation = _predictor(trained, engine, item, BATCHES[1]).evaluate(data, split)
        memory = peak() - before
    other = open_run(Run(reference))
    exact = _predictor(other, _engine(other, Format("checkpoint"), path), Format("checkpoint"), BATCHES[0])
    (few, single, _), (many, batch, _) = sampled_lines(data, SINGLE), sampled_lines(data, BATCHES[1])
    calls = {
        "reference": answering(exact, few),
        "single": answering(_predictor(trained, engine, item, BATCHES[0]), few),
        "batch": answering(_predictor(trained, engine, item, BATCHES[1]), many),
    }
    timings = interleave(calls, rounds=ROUNDS)
    metric, score = next(iter(evaluation.scores.items()))
    facts = {
        "peak_memory": max(memory, 0),
        "single_ms": 1000 * timings["single"].median / single,
        "batch_ms": 1000 * timings["batch"].median / batch,
        "latency_ratio": timings["single"].ratio(timings["reference"]),
        "metric": metric,
        "score": score.value,
    }
    return facts, _outputs(evaluation)


def _outputs(evaluation: Evaluation) -> list[str]:
    """Return the predictions by item.

    Trees are split at empty lines. Of a table, the first column is kept, which is the predicted class, without the
    header.
    """
    if evaluation.ending == "tsv":
        return [line.partition("\t")[0] for line in evaluation.predictions.split("\n")[1:] if line]
    if evaluation.ending == "conllu":
        return evaluation.predictions.rstrip("\n").split("\n\n")
    return evaluation.predictions.removesuffix("\n").split("\n")  # empty outputs at the end count, too


def _engine(trained: TrainedModel, item: Format, path: Path) -> CTranslate2Model | TrainingModule:
    """Load a format.

    CTranslate2 has a model of its own. The checkpoint's default weights are loaded into the run's module, in
    place. Safetensors replace that module's network by the exported one with these weights, in single precision.
    """
    if item.name == "ctranslate2":
        vocabularies = cast(Vocabularies, trained.vocabulary)
        names = token_names(vocabularies.target), token_names(vocabularies.source)
        arithmetic = "float32" if item.precision == "none" else _engine_precision(item)
        longest = longest_line(cast(EncoderDecoder, trained.module.network))
        return CTranslate2Model(path, *names, longest=longest, arithmetic=arithmetic)
    if item.name == "checkpoint":
        trained.load()
    else:
        plain = trained.module.export_graph().network
        trained.module.network = load(lambda: plain, path).float().eval()
    return trained.module


def _predictor(trained: TrainedModel, engine: CTranslate2Model | TrainingModule, item: Format, batch: int) -> Predictor:
    """Return a predictor over a loaded format with a batch size.

    A model of CTranslate2 gets a translator with the run's search settings, its engine and its quantization.
    """
    if isinstance(engine, TrainingModule):
        return trained.loaded(item.label, batch_size=batch, device="cpu")
    settings = {"batch": batch, "engine": "ctranslate2", "quantization": _engine_precision(item)}
    search = cast(DecodingConfig, decoding_section(trained.config)).model_copy(update=settings)
    vocabularies = cast(Vocabularies, trained.vocabulary)
    return Translator(None, vocabularies, search, item.label, decoder=engine)
