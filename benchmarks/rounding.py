"""Bits per byte of a language model with rounded weights, on a part of WikiText-2's test text.

    python -m benchmarks.rounding FOLDER int8 int4 int4+16 low-rank

FOLDER holds a network of transformers with its tokenizer. The part is the first 12,000 bytes of the test text; factors
are calibrated on the first 12,000 bytes of the training text. "low-rank" has int8 factors with the bytes of int4.
"""

import argparse
import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.factored_file import from_int4, to_int8, to_integers
from phmrun.layers.fitting import best_low_rank
from phmrun.models.model_folder import folder_tokenizer, read_model

BYTES = 12_000
LENGTH = 512


def pieces(folder: Path, split: str, vocabulary: Any) -> tuple[int, list[Tensor]]:
    """Return the bytes of a split's part, and its tokens ``[1, length]``."""
    text = (folder / f"wiki.{split}.tokens").read_text(encoding="utf-8")[:BYTES]
    ids = vocabulary.tokenizer.encode(text).ids
    return len(text.encode()), [torch.tensor([ids[start : start + LENGTH]]) for start in range(0, len(ids), LENGTH)]


@torch.no_grad()
def bits(model: Any, tokens: list[Tensor]) -> float:
    """Return the information of the tokens in bits, without the first of each piece."""
    logits = ((model(input_ids=piece).logits[0, :-1], piece[0, 1:]) for piece in tokens)
    return sum(float(F.cross_entropy(*pair, reduction="sum")) for pair in logits) / math.log(2)


def moments(model: nn.Module, tokens: list[Tensor]) -> dict[str, Tensor]:
    """Return E[x xᵀ] of the inputs of each map of the blocks, by its weight's name."""
    sums: dict[str, Tensor] = {}

    def add(name: str, _: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """Add the second moments of a map's inputs."""
        read = inputs[0].flatten(0, -2)
        sums[name] = sums.get(name, torch.zeros(())) + read.t() @ read

    hooks = [
        part.register_forward_pre_hook(partial(add, f"{name}.weight"))
        for name, part in model.named_modules()
        if isinstance(part, nn.Linear) and ".layers." in name
    ]
    bits(model, tokens)
    for hook in hooks:
        hook.remove()
    return sums


def low_rank(weights: dict[str, Tensor], read: dict[str, Tensor]) -> Iterator[tuple[str, Tensor, int]]:
    """Yield name, product and bytes of each map as int8 factors with about the bytes of int4."""
    for name, covariance in read.items():
        rank = round(weights[name].numel() * 9 / 16 / sum(weights[name].shape))
        factors = [to_int8(factor.float()) for factor in best_low_rank(weights[name], rank, covariance)]
        yield name, (factors[0][0] * factors[0][1]) @ (factors[1][0] * factors[1][1]), rank * sum(weights[name].shape)


def rounded(weights: dict[str, Tensor], precision: str, read: dict[str, Tensor]) -> tuple[dict[str, Tensor], int]:
    """Return the weights after rounding, and the bytes of a file."""
    tables = {name for name in weights if "embed" in name}
    tensors = dict(weights)
    recipe = to_integers(tensors, "int8" if precision == "low-rank" else precision, tables, read)
    size = sum(tensor.nbytes for tensor in tensors.values())
    values = {name: tensors[name] * tensors[scale] for name, scale in recipe.get("int8", {}).items()}
    values |= {name: from_int4(tensors[name], tensors[scale]) for name, scale in recipe.get("int4", {}).items()}
    for name, (up, down) in recipe.get("repairs", {}).items():
        values[name] = values[name] + tensors[up].float() @ tensors[down].float()
    for name, product, numbers in low_rank(weights, read) if precision == "low-rank" else ():
        values[name], size = product, size - tensors[name].nbytes + numbers
    return values, size


def main() -> None:
    """Print a row for each precision: bits per byte, megabytes, CPU seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("precisions", nargs="*")
    parser.add_argument("--texts", type=Path, default=Path("data/wikitext-2"), help="folder of wiki.test.tokens")
    arguments = parser.parse_args()
    model: Any = read_model(arguments.folder).eval()
    vocabulary = folder_tokenizer(arguments.folder, model.config.vocab_size)
    size, tokens = pieces(arguments.texts, "test", vocabulary)
    weights = {name: value.clone() for name, value in model.named_parameters()}
    calibrated = any("+" in name or name == "low-rank" for name in arguments.precisions)
    read = moments(model, pieces(arguments.texts, "train", vocabulary)[1]) if calibrated else {}
    print(f"none {bits(model, tokens) / size:.4f} {sum(value.nbytes for value in weights.values()) / 1e6:.1f} MB")
    for precision in arguments.precisions:
        started = time.process_time()
        values, stored = rounded(weights, precision, read)
        for name, parameter in model.named_parameters():
            parameter.data.copy_(values.get(name, weights[name]))
        spent = time.process_time() - started
        print(f"{precision} {bits(model, tokens) / size:.4f} {stored / 1e6:.1f} MB {spent:.0f} s", flush=True)


if __name__ == "__main__":
    main()
