"""CPU seconds of a Transformer's training step by arithmetic: float32 by each library, bfloat16 by each optimizer.

One thread, interleaved, medians; ratios to float32 as torch computes it. Run from a checkout::

    python -m benchmarks.arithmetic --layers 3 --width 256
    python -m benchmarks.arithmetic --layers 6 --width 512

Where AMX would compute float32 products in bfloat16, ``--onednn`` limits oneDNN's instruction set, and bfloat16 is left
out.
"""

import argparse
import os
import statistics
import time
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple

import torch
from torch import Tensor

from phmrun.engine.optimizers import build_optimizer
from phmrun.kernels import onednn_products
from phmrun.kernels.choice import LIMIT
from phmrun.layers.cross_entropy import linear_cross_entropy
from phmrun.ledger.environment import processor
from phmrun.models.transformer import Transformer

VOCABULARY, SENTENCES, LENGTH = 8000, 64, 30


class Arithmetic(NamedTuple):
    """Arithmetic of a step."""

    onednn: bool = False
    bf16: bool = False
    fused: bool = True

    def applied(self) -> AbstractContextManager[object]:
        """Return a context with the library and the precision."""
        with ExitStack() as stack:
            stack.enter_context(onednn_products(self.onednn))
            stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=self.bf16))
            return stack.pop_all()


class Training:
    """A Transformer with its optimizer and one batch of random sentences."""

    def __init__(self, layers: int, width: int, arithmetic: Arithmetic) -> None:
        torch.manual_seed(0)
        shape = {"width": width, "feedforward": 4 * width, "heads": width // 64}
        options = Transformer.options(**shape, encoder_layers=layers, decoder_layers=layers)
        self.network = Transformer(options, (VOCABULARY, VOCABULARY), {})
        self.optimizer = build_optimizer(self.network, fused=arithmetic.fused)
        self.arithmetic = arithmetic
        self.source, self.target, self.wanted = (torch.randint(4, VOCABULARY, (SENTENCES, LENGTH)) for _ in range(3))

    def loss(self) -> Tensor:
        """Return the mean smoothed cross-entropy of the batch."""
        hidden = self.network(self.source, None, self.target).flatten(0, 1)
        output = self.network.output
        loss, _ = linear_cross_entropy(hidden, output.weight, output.bias, self.wanted.flatten(), smoothing=0.1)
        return loss / self.wanted.numel()

    def step(self) -> float:
        """Train one step and return its CPU seconds."""
        began = time.process_time()
        with self.arithmetic.applied():
            self.loss().backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        self.optimizer.zero_grad()
        return time.process_time() - began


def main() -> None:
    """Print a line for each arithmetic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=3, help="Layers of the encoder and of the decoder.")
    parser.add_argument("--width", type=int, default=256, help="Width, a multiple of 64.")
    parser.add_argument("--rounds", type=int, default=7, help="Measured steps of each arithmetic.")
    parser.add_argument("--onednn", action="store_true", help="Compare libraries instead of precisions.")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cases = {"float32": Arithmetic()}
    if arguments.onednn:
        os.environ.setdefault(LIMIT, "AVX512_CORE")
        cases["float32 by oneDNN"] = Arithmetic(onednn=True)
    else:
        cases["bf16-mixed"] = Arithmetic(bf16=True)
        cases["bf16-mixed, separate kernels of Adam"] = Arithmetic(bf16=True, fused=False)
    runs = {name: Training(arguments.layers, arguments.width, case) for name, case in cases.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(arguments.rounds + 1):
        for name, run in runs.items():
            taken = run.step()
            if number:  # the first step sets things up
                seconds[name].append(taken)
    usual = statistics.median(seconds["float32"])
    print(f"{processor()}, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread")
    size = f"{arguments.layers}+{arguments.layers}×{arguments.width}"
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{size}  {name}: {1000 * median:.0f} ms, {median / usual:.2f}")


if __name__ == "__main__":
    main()
