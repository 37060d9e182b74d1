"""CPU seconds of a Transformer's training step: our structures, Hugging Face, ``nn.Transformer``, float32 and bfloat16.

One thread, interleaved, medians. All systems have one Adam and the same random sentences. Run from a checkout::

    python -m benchmarks.arithmetic --layers 3 --width 256
    python -m benchmarks.arithmetic --layers 6 --width 512 --system dense --system hf --precision 32

``--onednn`` adds float32 products by oneDNN for every system. Where AMX would compute them in bfloat16, it limits
oneDNN's instruction set; bfloat16 is then left out.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.arguments import structure_of
from benchmarks.hugging_face import HuggingFace
from phmrun.engine.optimizers import build_optimizer
from phmrun.engine.processes import keep_freed_memory
from phmrun.kernels.choice import LIMIT
from phmrun.kernels.switch import onednn_products
from phmrun.layers.cross_entropy import linear_cross_entropy
from phmrun.ledger.environment import processor
from phmrun.models.options import TransformerOptions
from phmrun.models.positions import SinusoidalPositions
from phmrun.models.transformer import Transformer

VOCABULARY, LENGTH, SMOOTHING = 8000, 30, 0.1
SYSTEMS = ("dense", "phm n=4", "phm n=8", "monarch", "blast", "low-rank", "nn.Transformer", "hf")
PRECISIONS = ("32", "bf16-mixed", "onednn")
Loss = Callable[[], Tensor]


class TorchTransformer(nn.Module):
    """``nn.Transformer`` with one table of embeddings, as in torch's tutorial on translation."""

    def __init__(self, options: TransformerOptions) -> None:
        super().__init__()
        width, dropout = options.width, options.dropout
        layers = options.encoder_layers, options.decoder_layers
        rest = {"batch_first": True, "norm_first": True}
        self.transformer = nn.Transformer(width, options.heads, *layers, options.feedforward, dropout, **rest)
        self.table = nn.Embedding(VOCABULARY, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        self.positions = SinusoidalPositions(width)
        self.dropout = nn.Dropout(dropout)
        self.scale = width**0.5

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits ``[batch, target, vocabulary]``."""
        vectors = [
            self.dropout(self.table(side) * self.scale + self.positions(side.shape[1])) for side in (source, target)
        ]
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return F.linear(self.transformer(*vectors, tgt_mask=mask, tgt_is_causal=True), self.table.weight)


class Training:
    """System with its optimizer and one batch of random sentences."""

    def __init__(self, system: str, precision: str, layers: int, width: int, tokens: int) -> None:
        torch.manual_seed(0)
        shape = {"width": width, "feedforward": 4 * width, "heads": width // 64, "tie": "all"}
        options = Transformer.options(**shape, encoder_layers=layers, decoder_layers=layers)
        sentences = tokens // LENGTH
        self.source, self.target, self.wanted = (torch.randint(4, VOCABULARY, (sentences, LENGTH)) for _ in range(3))
        self.network, self.loss = self._built(system, options)
        self.optimizer = build_optimizer(self.network)
        for group in (
            self.optimizer.param_groups
        ):  # the default of 1 is meant for a schedule; and divergence leaves denormal numbers
            group["lr"] = 1e-4
        self.precision = precision

    def _built(self, system: str, options: TransformerOptions) -> tuple[nn.Module, Loss]:
        """Return a system's network, and the function of its summed loss."""
        if system == "nn.Transformer":
            theirs = TorchTransformer(options)
            return theirs, lambda: self._cross_entropy(theirs(self.source, self.target))
        if system == "hf":
            sizes = (VOCABULARY, VOCABULARY)
            model = HuggingFace(options, *sizes, smoothing=SMOOTHING, alpha=0.0, device="cpu").model.train()
            calls = {"input_ids": self.source, "decoder_input_ids": self.target, "use_cache": False}
            return model, lambda: self._cross_entropy(model(**calls).logits)
        name, values = structure_of(system)
        ours = Transformer(options, (VOCABULARY, VOCABULARY), {"layer": {"structure": name, **values}})

        def loss() -> Tensor:
            """Return the summed loss by the fused cross-entropy."""
            hidden = ours(self.source, None, self.target).flatten(0, 1)
            weight, bias = ours.output.weight, ours.output.bias
            return linear_cross_entropy(hidden, weight, bias, self.wanted.flatten(), smoothing=SMOOTHING)[0]

        return ours, loss

    def _cross_entropy(self, logits: Tensor) -> Tensor:
        """Return the summed loss of logits by torch's cross-entropy."""
        wanted = self.wanted.flatten()
        return F.cross_entropy(logits.flatten(0, 1), wanted, label_smoothing=SMOOTHING, reduction="sum")

    def applied(self) -> AbstractContextManager[object]:
        """Return a context with the library and the precision."""
        with ExitStack() as stack:
            stack.enter_context(onednn_products(self.precision == "onednn"))
            stack.enter_context(torch.autocast("cpu", torch.bfloat16, enabled=self.precision == "bf16-mixed"))
            return stack.pop_all()

    def step(self) -> float:
        """Train one step and return its CPU seconds."""
        began = time.process_time()
        with self.applied():
            (self.loss() / self.wanted.numel()).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        self.optimizer.zero_grad()
        return time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each system and precision, with ratios within rounds to the first of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=3, help="Layers of the encoder and of the decoder.")
    parser.add_argument("--width", type=int, default=256, help="Width, a multiple of 64.")
    parser.add_argument("--tokens", type=int, default=1920, help="Target tokens of a step.")
    parser.add_argument("--rounds", type=int, default=5, help="Measured steps of each.")
    parser.add_argument("--system", action="append", help=f"A structure, hf or nn.Transformer ({', '.join(SYSTEMS)}).")
    parser.add_argument("--precision", action="append", choices=PRECISIONS[:2], help="Default: both.")
    parser.add_argument("--onednn", action="store_true", help="Compare libraries instead of precisions.")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    keep_freed_memory()
    precisions = args.precision or list(PRECISIONS[:2])
    if args.onednn:
        os.environ.setdefault(LIMIT, "AVX512_CORE")
        precisions = ["32", "onednn"]
    sizes = args.layers, args.width, args.tokens
    names = [(system, precision) for system in args.system or SYSTEMS for precision in precisions]
    runs = {name: Training(*name, *sizes) for name in names}
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in runs}
    for number in range(args.rounds + 1):
        for name, run in runs.items():
            taken = run.step()
            if number:  # the first step sets things up
                seconds[name].append(taken)
    print(f"{processor()}, torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread,", end=" ")
    print(f"load {os.getloadavg()[0]:.1f}; {sizes[0]}+{sizes[0]}×{sizes[1]}, {sizes[2]} tokens")
    usual = seconds[names[0]]
    for (system, precision), values in seconds.items():
        median = statistics.median(values)
        ratio = statistics.median(mine / its for mine, its in zip(values, usual, strict=True))
        print(f"{system:16}{precision:12}{1000 * median:6.0f} ms {sizes[2] / median:8.0f} tokens/s {ratio:6.2f}")


if __name__ == "__main__":
    main()
