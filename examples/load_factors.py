"""Read a safetensors file with the factors of structures without phmrun: `phmrun export RUN --factored`, `layers.save`.

    pip install torch safetensors
    python load_factors.py model-factored.safetensors dense.safetensors

`dense_weights(path)` returns the weights of the plain model by name: for each factored layer `NAME.weight`, built from
its factors, and all other tensors as they are. Load them with `model.load_state_dict(weights)`.

The metadata entry "phmrun" of the file is JSON. `steps` has the structures with their options and places, `shapes` the
rows and columns of each W. `tied` has further names of tensors, `int8` and `int4` the scales of tensors of 8 and 4
bits, and `repairs` the factors of their rounding errors. A biaffine form's matrices are `NAME.maps.NUMBER.matrix`. An
LSTM's factors are under `cells`: only phmrun builds its weights.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

Factors = dict[str, Tensor]
Options = dict[str, Any]


def phm(factors: Factors, options: Options) -> Tensor:
    """W = Σ_i A_i ⊗ S_i; with `dual`, A_i ∘ σ(B_i) in place of A_i."""
    a, s = factors["a"], factors["s"]
    if "b" in factors:
        a = a * torch.sigmoid(factors["b"])
    if options["variant"] == "released":  # block (a, i) is rowsum(A_i)[a] · S_i
        a = torch.diag_embed(a.sum(2).t(), dim1=0, dim2=2)
    return torch.einsum("ipq,irc->prqc", a, s).flatten(2).flatten(0, 1)


def low_rank(factors: Factors, options: Options) -> Tensor:
    """W = U V."""
    return factors["u"] @ factors["v"]


def kronecker(factors: Factors, options: Options) -> Tensor:
    """W = Σ_i A_i ⊗ B_i, stored as A [p, q, i] and B [s, i, t]; cut to its size."""
    return torch.einsum("pqi,sit->psqt", factors["a"], factors["b"]).flatten(2).flatten(0, 1)


def monarch(factors: Factors, options: Options) -> Tensor:
    """Block (i, j) of W is L_ij R_ji; cut to its size."""
    left, right = factors["left"], factors["right"]
    blocks = len(left)
    left, right = left.unflatten(2, (blocks, -1)), right.unflatten(1, (blocks, -1))
    return torch.einsum("iajr,jirc->iajc", left, right).flatten(2).flatten(0, 1)


def block_circulant(factors: Factors, options: Options) -> Tensor:
    """Blocks whose columns are the first one, rotated; cut to its size."""
    columns = factors["columns"]
    places = torch.arange(columns.shape[2])
    return columns[:, :, (places[:, None] - places) % len(places)].transpose(1, 2).flatten(2).flatten(0, 1)


def group(factors: Factors, options: Options) -> Tensor:
    """Block-diagonal W; `shared`: all blocks are one."""
    return torch.block_diag(*factors["block"].expand(options["groups"], -1, -1))


BUILD: dict[str, Callable[[Factors, Options], Tensor]] = {
    "phm": phm,
    "low-rank": low_rank,
    "kronecker": kronecker,
    "monarch": monarch,
    "block-circulant": block_circulant,
    "group": group,
}


def dense_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the weights of the plain model in single precision, by name; tied ones under all of their names."""
    with safe_open(path, framework="pt") as file:
        recipe = json.loads(file.metadata()["phmrun"])
        stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, scale in recipe.get("int8", {}).items():
        stored[name] = stored[name] * stored.pop(scale)
    for name, scale in recipe.get("int4", {}).items():
        whole = torch.stack([stored[name] & 15, stored[name] >> 4], -1).flatten(-2).float() - 8
        stored[name] = whole * stored.pop(scale).float().repeat_interleave(32, -1)
    for name, (up, down) in recipe.get("repairs", {}).items():
        stored[name] = stored[name] + stored.pop(up).float() @ stored.pop(down).float()
    weights = {name: value.float() if value.is_floating_point() else value for name, value in stored.items()}
    weights.update({name: weights[source] for name, source in recipe["tied"].items()})
    for step in recipe["steps"]:
        if "maps" in step["options"]:
            raise SystemExit(f"{step['places'][0]} is an LSTM: phmrun.layers.load builds it")
        if step["structure"] not in BUILD:
            raise SystemExit(f"this script builds {', '.join(BUILD)}, not {step['structure']}")
        for place in step["places"]:
            linear = any(name.startswith(f"{place}.structure.") for name in weights)  # else of a biaffine form
            prefix, name = (f"{place}.structure.", "weight") if linear else (f"{place}.", "matrix")
            factors = {key.removeprefix(prefix): weights.pop(key) for key in list(weights) if key.startswith(prefix)}
            if place not in recipe["shapes"]:
                raise SystemExit(f"{place} is no linear map or table: phmrun.layers.load builds it")
            rows, columns = recipe["shapes"][place]
            weights[f"{place}.{name}"] = BUILD[step["structure"]](factors, step["options"])[:rows, :columns]
    for name in [name for name in weights if ".structure." in name]:  # further names of a tied table
        place, source = (text.partition(".structure.")[0] for text in (name, recipe["tied"][name]))
        weights[f"{place}.weight"] = weights[f"{source}.weight"]
        del weights[name]
    return weights


if __name__ == "__main__":
    dense = dense_weights(sys.argv[1])
    save_file({name: value.clone().contiguous() for name, value in dense.items()}, sys.argv[2])
    print(f"{len(dense)} tensors, {sum(value.numel() for value in dense.values()):,} numbers")
