"""Export of a trained model: safetensors with dense matrices or factors, ONNX, CTranslate2, folders of transformers.

The task's module defines the exported function (:class:`~phmrun.engine.module.ExportGraph`). All but CTranslate2's
files are run once after writing, and their outputs are compared with the trained model's.
"""

import copy
import inspect
import logging
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast, get_args

import torch
from torch import Tensor, nn

from phmrun.config import decoding_section
from phmrun.engine.calibration import calibration_batches, input_covariances
from phmrun.engine.module import ExportGraph, Run, outputs_of
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.exchange.ctranslate2 import MARK, Quantization, converted
from phmrun.exchange.factored import factored_copy
from phmrun.exchange.pages import ctranslate2_page, onnx_page
from phmrun.files import replacing, replacing_directory, write_json, write_text
from phmrun.layers import folded, load, save
from phmrun.layers.factored_file import Precision
from phmrun.models.transformer import EncoderDecoder
from phmrun.registry import TASKS, extra_package
from phmrun.text.token_names import token_names, write_models
from phmrun.text.vocabularies import Vocabularies

FORMATS = ("safetensors", "onnx", "ctranslate2")
PRECISIONS = {"safetensors": get_args(Precision), "ctranslate2": get_args(Quantization)}
"""Roundings of the weights by format; others have none."""
FOLDERS = ("transformers", "peft")
"""Formats of networks of transformers."""
TOKENS = "tokens.json"  # names of all tokens by id, beside the graphs that a search calls
SEARCH = ("beam", "alpha", "penalty", "max_length_ratio", "max_length_offset")
"""Settings of the search that translations depend on."""
BATCHES = 8  # training batches for the factors of rounding errors
Moments = Mapping[str, Tensor] | None
TOLERANCE = 1e-4
"""Largest accepted difference of an output, relative to its largest absolute value."""


@dataclass(frozen=True)
class Format:
    """Format in which a run can be served.

    Attributes:
        name: "checkpoint", "safetensors", "onnx" or "ctranslate2".
        factored: True for factors of structures, False for dense matrices.
        precision: "none", "bfloat16", "int8", "int4" or "int4+16", with the rank of factors of the rounding errors.
    """

    name: str
    factored: bool = False
    precision: str = "none"

    @property
    def label(self) -> str:
        """Name for tables: ``safetensors factored int8``; precision "none" is left out."""
        kept = " factored" if self.factored else ""
        return f"{self.name}{kept}{'' if self.precision == 'none' else f' {self.precision}'}"

    @property
    def suffix(self) -> str:
        """End of a file's name, such as "-factored-int8".

        Empty for dense matrices in single precision.
        """
        return self.label.removeprefix(self.name).replace(" ", "-")


@dataclass(frozen=True)
class Exported:
    """An exported file."""

    path: Path
    format: str
    bytes: int
    difference: float | None  # largest difference from the trained model's output, relative to its largest value
    inputs: Mapping[str, Sequence[str | int]]  # dimensions of each input by its name: sizes, or names of free sizes
    outputs: Sequence[str]
    parts: Mapping[str, "Exported"] = field(default_factory=dict)  # files of a directory by name; empty for a file


def export(
    trained: TrainedModel,
    path: Path | None,
    kind: str,
    *,
    factored: bool = False,
    precision: str = "none",
    checkpoint: str | None = None,
) -> Exported:
    """Write a trained run in another format, and check its outputs.

    Without rounding, they must equal the trained model's up to 1e-4 (``TOLERANCE``) of the largest absolute value.
    CTranslate2 is not checked: ``export --compare`` decodes with it.

    Args:
        trained: The opened run.
        path: File to write, or directory for ``onnx`` of a translator; None for ``exports/model.<kind>`` or
            ``exports/onnx`` in the run directory, with ``-factored`` and the precision in the name.
        kind: "safetensors" (weights), "onnx" (a program) or "ctranslate2" (a folder for this engine); for a network of
            transformers "transformers" (a folder with dense matrices) or "peft" (the updates of frozen matrices).
        factored: Write the factors of structures; else their dense matrices.
        precision: Rounding of the weights; outputs of rounded weights are compared, but may differ. Factors of the
            rounding errors are those of 8 training batches.
        checkpoint: "best", "last" or a file; None: those that training scored.

    Raises:
        PhmrunError: The format is unknown, or has no factors or no such rounding (exit 2). Or the network cannot be
            traced, a library is missing (exit 2), or the file's outputs differ (exit 1).
    """
    if kind not in (*FORMATS, *FOLDERS):
        raise unknown("export format", kind, (*FORMATS, *FOLDERS), where="--format")
    if precision not in PRECISIONS.get(kind, ("none",)):
        raise unknown("quantization", precision, PRECISIONS.get(kind, ("none",)), where="--quantization")
    if factored and kind != "safetensors":
        what = "only safetensors files keep all factors"
        raise PhmrunError(what, where="--factored", hint="Use --format safetensors with --factored.")
    if kind in FOLDERS:
        return _export_folder(trained, path, kind, checkpoint)
    if kind == "ctranslate2":
        return _export_ctranslate2(trained, path, precision, checkpoint)
    label = trained.load(checkpoint)
    program = trained.module.export_graph()
    if kind != "safetensors" and program.untraceable:
        hint = f"phmrun export {trained.run.reference} --format safetensors writes the folded weights."
        raise PhmrunError(f"this network cannot be traced: {program.untraceable}", where=trained.run.id, hint=hint)
    form = Format(kind, factored, precision)
    facts = {"run": trained.run.id, "weights": label}
    if kind == "onnx" and program.parts:
        return _export_parts(program, _folder(trained, path, "onnx"), form, trained, facts)
    moments = None
    if "+" in precision:
        moments = input_covariances(trained.module, calibration_batches(trained, trained.config, BATCHES))
    path = path or trained.run.access.folder("exports") / f"model{form.suffix}.{kind}"
    return _export_file(program, path, form, facts, moments)


def _folder(trained: TrainedModel, out: Path | None, name: str) -> Path:
    """Return the folder to write: ``out``, or without it one of the run's ``exports``, by its name.

    Raises:
        PhmrunError: (exit 2) Files in ``out`` would be lost.
    """
    if out and out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise PhmrunError("other files would be overwritten", where=out, hint="Give an empty folder with --out.")
    return out or trained.run.access.folder("exports") / name


def _export_ctranslate2(trained: TrainedModel, out: Path | None, precision: str, checkpoint: str | None) -> Exported:
    """Convert a run for CTranslate2, into ``out`` or else its ``exports`` folder.

    Raises:
        PhmrunError: (exit 2) The run is not a sequence-to-sequence network, the library is missing, the precision is
            unknown, or ``out`` holds other files.
    """
    if not TASKS.get(trained.config.task).converts:
        task, other = trained.config.task, "transformers" if hasattr(trained.module.network, "model") else "onnx"
        what = f"CTranslate2 exports translation models only; {task} is not a sequence-to-sequence task"
        hint = f"`phmrun export {trained.run.reference} --format {other}` writes the model."
        raise PhmrunError(what, where=trained.run.id, hint=hint)
    trained.load(checkpoint)
    form = Format("ctranslate2", precision=precision)
    path = _folder(trained, out, f"{form.name}{form.suffix}")
    vocabularies, search = cast(Vocabularies, trained.vocabulary), cast(Any, decoding_section(trained.config))
    converted(cast(EncoderDecoder, trained.module.network), vocabularies, path, cast(Quantization, precision))
    write_text(path / "README.md", ctranslate2_page(vocabularies, beam=search.beam, alpha=search.alpha))
    return Exported(path, "ctranslate2", sum(file.stat().st_size for file in path.iterdir()), None, {}, ())


def _export_folder(trained: TrainedModel, path: Path | None, kind: str, checkpoint: str | None) -> Exported:
    """Write a folder of transformers or peft; the difference is that of logits, for peft that of the updates.

    Raises:
        PhmrunError: (exit 2) The run's network is none of transformers, or it has no updates of a folder's model. (exit
            1) The logits of a folder for transformers differ by more than ``TOLERANCE``; nothing is written.
    """
    from phmrun.exchange import transformers_folder as folders

    network: Any = trained.module.network
    model: Any = getattr(network, "model", None)
    if not hasattr(model, "save_pretrained"):
        hint = "Train with --model hf, or use --format safetensors."
        raise PhmrunError(f"the run's network is none of transformers, as {kind} needs", where="--format", hint=hint)
    label = trained.load(checkpoint)
    facts = {"run": f"{trained.run.id}, {label}", "layer": trained.config.layer.structure}
    directory = _folder(trained, path, kind)
    vocabulary = getattr(trained.vocabulary, "words", trained.vocabulary)
    with replacing_directory(directory) as beside:
        if kind == "peft":
            if network.folder is None or trained.config.adapts:
                what = "these are not updates of the folder model.path: there is none, or the run adapts another run"
                raise PhmrunError(what, where="--format", hint="Write the whole model with --format transformers.")
            difference = folders.write_peft(model, beside, base=network.folder, name=directory.name, facts=facts)
        else:
            difference = folders.write_transformers(model, beside, name=directory.name, facts=facts)
            _require_close(difference)
        details = {"padding": model.config.pad_token_id, "has_kinds": getattr(network, "has_kinds", False)}
        folders.write_tokenizer(vocabulary, beside, network.folder, **details)
    size = sum(file.stat().st_size for file in directory.iterdir())
    return Exported(directory, kind, size, difference, {}, ())


def _export_file(
    program: ExportGraph, path: Path, form: Format, facts: Mapping[str, str], moments: Moments = None
) -> Exported:
    """Write one file, and compare its outputs with the trained model's.

    ``moments`` are those of :func:`phmrun.layers.save`.

    Raises:
        PhmrunError: (exit 1) An output differs by more than 1e-4 (``TOLERANCE``), without rounding; nothing is written.
            A package is missing, or ``path`` is a folder (exit 2).
    """
    write = _write_onnx if form.name == "onnx" else _write_safetensors
    if path.is_dir():
        hint = f"Name a file: --out {path / f'model.{form.name}'}"
        raise PhmrunError(f"{form.name} is a file, and a folder has this name", where=path, hint=hint)
    with replacing(path) as temporary:
        run = write(program, temporary, {**facts, **program.facts}, form, moments)
        difference = largest_difference(program, run)
        if form.precision == "none":
            _require_close(difference)
    return Exported(path, form.name, path.stat().st_size, difference, program.inputs, program.outputs)


def _require_close(difference: float) -> None:
    """Check the largest difference of outputs, relative to the largest of them.

    Raises:
        PhmrunError: (exit 1) It is above 1e-4 (``TOLERANCE``).
    """
    if not difference <= TOLERANCE:  # a NaN is none
        what = f"the exported model's outputs differ from the trained model's by {difference:.1e}"
        raise PhmrunError(what, hint="Nothing was written. Try another format.", code=ExitCode.BUG)


def _export_parts(
    program: ExportGraph, directory: Path, form: Format, trained: TrainedModel, facts: Mapping[str, str]
) -> Exported:
    """Write the graphs that a search calls, as ONNX files of a directory.

    The directory also gets the vocabularies' models, ``tokens.json`` with token names and search settings,
    ``phmrun.json`` with ``facts`` and settings, and a README.md. It replaces an earlier one when complete.

    Raises:
        PhmrunError: (exit 1) An output differs by more than 1e-4 (``TOLERANCE``), without rounding; nothing is
            replaced. A package is missing (exit 2).
    """
    vocabularies = cast(Vocabularies, trained.vocabulary)
    decoding: Any = decoding_section(trained.config)
    search = {name: getattr(decoding, name) for name in SEARCH}
    with replacing_directory(directory) as beside:
        parts = {name: _export_file(part, beside / f"{name}.onnx", form, facts) for name, part in program.parts.items()}
        write_models(vocabularies, beside)
        names = {"source": token_names(vocabularies.source), "target": token_names(vocabularies.target)}
        write_json(beside / TOKENS, {**names, "search": search})
        write_json(beside / MARK, {**facts, "search": search})
        limit = {"ratio": decoding.max_length_ratio, "offset": decoding.max_length_offset}
        write_text(beside / "README.md", onnx_page(vocabularies, beam=decoding.beam, **limit))
    parts = {name: replace(part, path=directory / part.path.name) for name, part in parts.items()}
    size = sum(path.stat().st_size for path in directory.iterdir())
    difference = max(part.difference or 0.0 for part in parts.values())
    return Exported(directory, "onnx", size, difference, program.inputs, program.outputs, parts)


@torch.no_grad()
def largest_difference(program: ExportGraph, run: Run) -> float:
    """Return the largest difference between the network's and the ``run``'s outputs.

    Each difference is relative to the largest finite absolute value of the network's output. All examples are compared.
    Infinity if shapes differ, or an output has NaN. Equal numbers, infinities included, differ by 0.
    """
    worst = 0.0
    for inputs in program.examples:
        expected, outputs = outputs_of(program.reference, inputs), outputs_of(run, inputs)
        if [output.shape for output in expected] != [output.shape for output in outputs]:
            return float("inf")
        for right, output in zip(expected, outputs, strict=True):
            gap = (output - right).abs().masked_fill(output == right, 0).max()
            difference = float(gap / right.abs().masked_fill(right.isinf(), 0).max()) if gap else 0.0
            worst = max(worst, float("inf") if math.isnan(difference) else difference)
    return worst


def _write_safetensors(
    program: ExportGraph, path: Path, facts: Mapping[str, str], form: Format, moments: Moments
) -> Run:
    """Write weights by name.

    Return the exported function with the weights of the file, which is read back into ``program.network``: rounding
    changes it.
    """
    written = factored_copy(cast(nn.Module, program.trained), program.network) if form.factored else program.network
    save(written, path, precision=cast(Precision, form.precision), moments=moments, facts=facts)
    read = folded(load(lambda: copy.deepcopy(program.network), path).float())
    program.network.load_state_dict(read.state_dict())
    return program.function


def _write_onnx(program: ExportGraph, path: Path, facts: Mapping[str, str], *_: Any) -> Run:
    """Write an ONNX graph with ``facts`` as its metadata.

    Return a function that runs the file in onnxruntime.

    Raises:
        PhmrunError: A package is missing (exit 2), or torch cannot export the model (exit 1).
    """
    # torch's exporter requires onnxscript.
    onnx, onnxruntime, _ = (extra_package(name, "export") for name in ("onnx", "onnxruntime", "onnxscript"))
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.onnx.export(
            program.function,
            program.examples[0],
            dynamo=True,
            verbose=False,
            input_names=list(program.inputs),
            output_names=list(program.outputs),
            dynamic_shapes=_free_sizes(program),
        )
    if exported is None:
        raise PhmrunError("torch could not export this model to ONNX", code=ExitCode.BUG)
    proto = exported.model_proto
    for node in proto.graph.node:  # the lines of source code that each node comes from
        del node.metadata_props[:]
    for key, value in facts.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(proto, path)
    # Loaded from the file, so that the reported difference is that of the written model.
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of the file for tensors in the graph's order."""
        named = {name: value.numpy() for name, value in zip(program.inputs, inputs, strict=True)}
        return tuple(torch.from_numpy(output) for output in session.run(None, named))

    return run


def _free_sizes(program: ExportGraph) -> tuple[Any, ...]:
    """Return the free dimensions of each input, for torch's exporter.

    Each has a size of at least 1, without a maximum. Equal names mean equal sizes. Dimensions of ``*args`` inputs form
    a nested tuple, as torch requires.
    """
    names = {name for dimensions in program.inputs.values() for name in dimensions if isinstance(name, str)}
    sizes = {name: torch.export.Dim(name, min=1) for name in names}
    free = [
        {place: sizes[name] for place, name in enumerate(dimensions) if isinstance(name, str)}
        for dimensions in program.inputs.values()
    ]
    parameters = inspect.getfullargspec(program.function.forward)
    fixed = len(parameters.args) - 1  # without self
    return (*free[:fixed], tuple(free[fixed:])) if parameters.varargs else tuple(free)
