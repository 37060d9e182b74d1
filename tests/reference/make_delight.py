"""Record the units of sacmehta/delight: the DeLighT transformation, and DeFINE's (``--define-iclr``).

python tests/reference/make_delight.py GIT_DIRECTORY
"""

import sys

import numpy as np
import torch
from recording import Source, checked_out, empty_packages, record
from torch import Tensor, nn

SOURCE = Source(
    repository="https://github.com/sacmehta/delight",
    commit="cc499c53087cd248ee7a0d0b0e70c507e670cba3",
    license="MIT",
    files=("LICENSE", "fairseq/delight_modules"),
    changes="np.int is int; fairseq's own package file is not imported",
)
SIZES = {"in_features": 16, "in_proj_features": 8, "out_features": 16, "width_multiplier": 2, "dextra_depth": 4}


def renamed(unit: nn.Module, values: dict[str, Tensor], iclr: bool) -> dict[str, Tensor]:
    """Their parameters under our names."""
    named = {}
    for theirs, ours in (("input_layer", "enter"), ("output_layer", "leave")):
        named[f"{ours}.structure.matrix"] = values[f"{theirs}.weights"]
        named[f"{ours}.bias"] = values[f"{theirs}.bias"]
        for kind in ("weight", "bias"):
            named[f"{ours}_norm.{kind}"] = values[f"{theirs}.normalization_fn.{kind}"]
    for number, groups in enumerate(unit.groups_per_layer):
        weights, bias = (values[f"dextra_layers.{number}.{kind}"] for kind in ("weights", "bias"))
        blocks = weights[None] if groups == 1 else weights.transpose(1, 2)  # [groups, out, in]
        for kind in ("weight", "bias"):
            named[f"norms.{number}.{kind}"] = values[f"dextra_layers.{number}.normalization_fn.{kind}"]
        if iclr:
            named |= {f"transforms.{number}.maps.{g}.matrix": block for g, block in enumerate(blocks)}
            named[f"transforms.{number}.bias"] = bias.reshape(groups, -1)
        else:  # features are shuffled after the bias
            named[f"maps.{number}.structure.block"] = blocks
            named[f"maps.{number}.bias"] = bias.reshape(groups, -1).t().reshape(-1)
    return {name: value.detach().clone().contiguous() for name, value in named.items()}


def main(git_directory: str) -> None:
    """Outputs, gradients and a step of both units on the same inputs."""
    with checked_out(SOURCE, git_directory) as folder:
        np.int = int  # type: ignore[attr-defined]
        empty_packages(folder, "fairseq")
        torch.set_default_dtype(torch.float64)
        from fairseq.delight_modules.dextra_unit import DExTraUnit  # type: ignore[import-not-found]

        torch.manual_seed(1)
        inputs = torch.randn(5, 16)
        numbers: dict[str, Tensor] = {"inputs": inputs}
        for name, iclr, activation in (("delight", False, "swish"), ("define", True, "gelu")):
            options = {"dextra_dropout": 0.0, "max_glt_groups": 4, "act_type": activation, "glt_shuffle": True}
            unit = DExTraUnit(**SIZES, **options, is_iclr_version=iclr)
            for parameter in unit.parameters():
                nn.init.normal_(parameter, std=0.5)
            weights = dict(unit.named_parameters())
            numbers |= {f"{name}/before/{key}": value for key, value in renamed(unit, weights, iclr).items()}
            outputs = unit(inputs)
            outputs.square().sum().backward()
            numbers[f"{name}/outputs"] = outputs
            gradients = {key: value.grad for key, value in weights.items()}
            numbers |= {f"{name}/gradient/{key}": value for key, value in renamed(unit, gradients, iclr).items()}
            torch.optim.SGD(unit.parameters(), lr=0.1).step()
            numbers |= {f"{name}/after/{key}": value for key, value in renamed(unit, weights, iclr).items()}
            groups = (
                DExTraUnit.define_config(192, 384, 1024, 7, 16)
                if iclr
                else DExTraUnit.dextra_config(64, 128, 512, 7, 8)
            )
            for key in ("in", "out", "groups"):
                numbers[f"{name}/plan/{key}"] = torch.tensor(groups[key])
        record("delight", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
