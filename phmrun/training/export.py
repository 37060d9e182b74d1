"""Handing a trained model over: every structure folded into plain dense layers, in formats that other tools read.

The exported program maps ``source [batch, source]`` and ``target [batch, target]`` (tokens, the target beginning with
the beginning token) to ``logits [batch, target, vocabulary]`` of the next tokens. Batch and lengths are free.
"""

import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.files import replacing
from phmrun.layers import folded
from phmrun.models.transformer import Transformer
from phmrun.text.vocabulary import BOS, EOS, PAD
from phmrun.training.sequences import SequenceToSequence
from phmrun.training.trained import Trained

Format = Literal["safetensors", "torch-export", "onnx"]
FORMATS: tuple[str, ...] = get_args(Format)
ENDINGS = {"safetensors": ".safetensors", "torch-export": ".pt2", "onnx": ".onnx"}
LONGEST = 512
"""Most source or target tokens of an exported program: the length of its position table."""
TOLERANCE = 1e-4
"""Largest difference of a logit, relative to the largest logit, that counts as the same output."""


@dataclass(frozen=True)
class Exported:
    """An exported file.

    Attributes:
        path: Where it is.
        format: What it is.
        bytes: Its size.
        difference: Largest difference of a logit from the trained model's, relative to the largest logit.
    """

    path: Path
    format: str
    bytes: int
    difference: float


class NextToken(nn.Module):
    """The folded network as one function of two token tensors; padding is masked always, so that nothing branches."""

    def __init__(self, network: Transformer) -> None:
        super().__init__()
        self.network = folded(network)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits ``[batch, target, vocabulary]``."""
        mask = source.ne(PAD)[:, None, None, :]
        logits: Tensor = self.network.output(self.network(source, mask, target))
        return logits


def export(trained: Trained, path: Path | None, kind: str, **weights: Any) -> Exported:
    """Writes a trained run in another format and checks that the file gives the same outputs.

    Args:
        trained: The opened run.
        path: The file to write; unless given, ``exports/model<ending>`` in the run directory.
        kind: "safetensors" (folded weights and their meaning), "torch-export" (a program for ``torch.export.load``) or
            "onnx".
        **weights: Which weights: the arguments of ``Trained.load``.

    Raises:
        PhmrunError: Unknown format, a missing library, or a file whose outputs differ.
    """
    if kind not in FORMATS:
        raise unknown("export format", kind, FORMATS, where="--format")
    if not isinstance(trained.module, SequenceToSequence):
        raise PhmrunError(f"the task {trained.config.task!r} cannot be exported", where=trained.run.id)
    label = trained.load(**weights)
    network = trained.module.transformer
    model = NextToken(network).eval()
    path = path or trained.run.path / "exports" / f"model{ENDINGS[kind]}"
    writers: dict[str, Callable[[NextToken, Path, dict[str, str]], Callable[[Tensor, Tensor], Tensor]]] = {
        "safetensors": _write_safetensors,
        "torch-export": _write_torch_export,
        "onnx": _write_onnx,
    }
    facts = {"run": trained.run.id, "weights": label, "pad": str(PAD), "bos": str(BOS), "eos": str(EOS)}
    with replacing(path) as temporary:
        run = writers[kind](model, temporary, facts)
        difference = largest_difference(network.eval(), run)
        if difference > TOLERANCE:
            raise PhmrunError(
                f"the exported model's outputs differ from the trained model's by {difference:.1e}",
                hint="Nothing was written. Try another format.",
                code=ExitCode.BUG,
            )
    return Exported(path, kind, path.stat().st_size, difference)


@torch.no_grad()
def largest_difference(network: Transformer, run: Callable[[Tensor, Tensor], Tensor]) -> float:
    """Largest difference between a network's logits and an exported program's over batches of several shapes."""
    generator = torch.Generator().manual_seed(1)
    worst = 0.0
    for batch, source_length, target_length in ((1, 5, 1), (3, 17, 9), (2, 8, 21)):
        sizes = (network.source_embedding.num_embeddings, network.target_embedding.num_embeddings)
        source = torch.randint(EOS + 1, sizes[0], (batch, source_length), generator=generator)
        target = torch.randint(EOS + 1, sizes[1], (batch, target_length), generator=generator)
        source[-1, source_length // 2 + 1 :] = PAD
        mask = source.ne(PAD)[:, None, None, :]
        wanted = network.output(network(source, mask, target))
        worst = max(worst, float((run(source, target) - wanted).abs().max() / wanted.abs().max()))
    return worst


def _write_safetensors(model: NextToken, path: Path, facts: dict[str, str]) -> Callable[[Tensor, Tensor], Tensor]:
    """Folded weights by name; a tied table is written once, under its first name."""
    from safetensors.torch import load_file, save_file

    weights: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    owners: dict[int, str] = {}
    for name, weight in model.network.state_dict(keep_vars=True).items():
        owner = owners.setdefault(id(weight), name)
        if owner == name:
            weights[name] = weight.detach().contiguous()
        else:
            aliases[name] = owner
    save_file(weights, path, metadata={**facts, "tied": json.dumps(aliases)})
    read = load_file(path)
    read.update({name: read[owner] for name, owner in aliases.items()})
    model.network.load_state_dict(read)
    return model


def _write_torch_export(model: NextToken, path: Path, facts: dict[str, str]) -> Callable[[Tensor, Tensor], Tensor]:
    """A program that ``torch.export.load`` reads."""
    source, target, shapes = _example()
    program = torch.export.export(model, (source, target), dynamic_shapes=shapes)
    # torch.export.save refuses other endings than its own.
    beside = path.with_suffix(".pt2")
    try:
        torch.export.save(program, beside, extra_files={"phmrun.json": json.dumps(facts)})
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    with path.open("rb") as handle:
        run: Callable[[Tensor, Tensor], Tensor] = torch.export.load(handle).module()
    return run


def _write_onnx(model: NextToken, path: Path, facts: dict[str, str]) -> Callable[[Tensor, Tensor], Tensor]:
    """An ONNX graph, run once in onnxruntime."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401  (what torch's exporter needs)
    except ImportError as error:
        raise PhmrunError(
            f"the package {error.name!r} is not installed", hint='Run: pip install "phmrun[export]"'
        ) from error
    source, target, shapes = _example()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            model,
            (source, target),
            dynamo=True,
            verbose=False,
            input_names=["source", "target"],
            output_names=["logits"],
            dynamic_shapes=shapes,
        )
    if program is None:
        raise PhmrunError("torch could not make an ONNX graph of this model", code=ExitCode.BUG)
    proto = program.model_proto
    for key, value in facts.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(proto, path)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def run(source: Tensor, target: Tensor) -> Tensor:
        outputs = session.run(None, {"source": source.numpy(), "target": target.numpy()})
        return torch.from_numpy(outputs[0])

    return run


def _example() -> tuple[Tensor, Tensor, tuple[dict[int, Any], dict[int, Any]]]:
    """Tokens to trace with, and which of their sizes are free."""
    batch = torch.export.Dim("batch", min=1, max=4096)
    lengths = [torch.export.Dim(name, min=1, max=LONGEST) for name in ("source_length", "target_length")]
    source = torch.full((2, 7), EOS + 1)
    target = torch.full((2, 5), EOS + 1)
    return source, target, ({0: batch, 1: lengths[0]}, {0: batch, 1: lengths[1]})
