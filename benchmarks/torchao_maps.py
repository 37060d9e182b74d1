"""CPU time of one linear map with weights rounded by torchao, in parts of the float32 map's.

``pip install torchao``, then ``python -m benchmarks.torchao_maps --size 576x1536 --threads 1``. Forms are
called as torchao leaves them, uncompiled. "torch int8" is torch's own dynamic quantization. The error is that of the
outputs on random numbers, in parts of their norm.
"""

import copy
import logging
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.arguments import parser, start
from phmrun.bench.timing import interleave, ratios
from phmrun.cli import bench as measuring
from phmrun.cli import console

REFERENCE = "float32"


def forms(linear: nn.Linear) -> dict[str, tuple[nn.Module, torch.dtype]]:
    """Return the map in each form, with the type of its inputs."""
    from torchao import quantization
    from torchao.prototype.quantization.int4 import PrototypeInt4WeightOnlyConfig
    from torchao.quantization.granularity import PerGroup

    groups = {"weight_dtype": torch.int4, "granularity": PerGroup(32)}  # type: ignore[attr-defined]
    configs: dict[str, Any] = {
        "int8 weights": quantization.Int8WeightOnlyConfig(),
        "int8 weights and inputs": quantization.Int8DynamicActivationInt8WeightConfig(),
        "int4 weights": PrototypeInt4WeightOnlyConfig(group_size=32, set_inductor_config=False),
        "int4 weights, unpacked": quantization.IntxWeightOnlyConfig(**groups),
    }
    maps = {REFERENCE: (linear, torch.float32), "bfloat16": (copy.deepcopy(linear).bfloat16(), torch.bfloat16)}
    dynamic = torch.ao.quantization.quantize_dynamic(nn.Sequential(copy.deepcopy(linear)), {nn.Linear})
    maps["torch int8"] = (dynamic, torch.float32)
    for name, config in configs.items():
        rounded = nn.Sequential(copy.deepcopy(linear))
        quantization.quantize_(rounded, config)
        maps[name] = (rounded, torch.float32)
    return maps


@torch.inference_mode()
def main(arguments: Sequence[str] | None = None) -> None:
    """Print the error of each form, its time, and that in parts of the float32 map's."""
    options = parser(__doc__, repeats=15)
    options.add_argument("--size", default="576x1536", help="inputs x outputs of the map")
    options.add_argument("--tokens", action="append", metavar="N,…", help="numbers of vectors (1,128)")
    args = options.parse_args(arguments)
    facts = start(args)
    warnings.simplefilter("ignore")
    logging.getLogger("torchao").setLevel(logging.ERROR)
    torch.manual_seed(1)
    width, height = measuring.sides(args.size)
    maps = forms(nn.Linear(width, height, bias=False).eval())
    counts = measuring.numbers(args.tokens, "--tokens") or [1, 128]
    inputs = torch.randn(max(counts), width)
    exact = maps[REFERENCE][0](inputs)
    rows = {name: [f"{(f(inputs.to(kind)) - exact).norm() / exact.norm():.4f}"] for name, (f, kind) in maps.items()}
    for count in counts:
        calls = {name: partial(form, inputs[:count].to(kind)) for name, (form, kind) in maps.items()}
        timings = interleave(calls, rounds=args.repeats, at_least=0.02)
        shares = {REFERENCE: 1.0, **ratios(timings, REFERENCE)}
        for name, row in rows.items():
            row += [measuring.duration(timings[name].median), f"{shares[name]:.2f}"]
    measuring.print_machine(facts)
    heads = ["weights", "error", *(head for count in counts for head in (f"{count} vectors", "of float32"))]
    console.print_table(heads, [(name, *row) for name, row in rows.items()], title=f"\n{args.size}")


if __name__ == "__main__":
    main()
