"""Milliseconds of a decoder step by part: products, attention, norms, search, encoder, and what is left for Python.

CPU time of one thread, a Transformer with random weights, all sentences of one length. Each part's time excludes that
of the parts which it calls; reading the clock adds some 0.3 µs to each call. Run from a checkout::

    python -m benchmarks.decoding --layers 3 --width 256 --case 1,5 --case 32,5 --engines

``--engines`` decodes by Hugging Face's ``generate`` and CTranslate2 too, by turns; all make the same number of steps.
"""

import argparse
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.hugging_face import HuggingFace
from benchmarks.latency import translators
from benchmarks.systems import Endless, Sources
from phmrun.bench.timing import interleave, ratios
from phmrun.cli.bench import prepare_process
from phmrun.decoding import beam
from phmrun.kernels import packed
from phmrun.ledger.environment import processor
from phmrun.models import incremental
from phmrun.models.options import TransformerOptions
from phmrun.models.transformer import Transformer
from phmrun.text.vocabulary import EOS, PAD

VOCABULARY, LENGTH = 8000, 20
Search = Callable[[int, int], object]
"""Decodes so many random sentences with so wide a beam."""
PARTS: tuple[tuple[str, Any, str], ...] = (
    ("attention", incremental.F, "scaled_dot_product_attention"),
    ("layer norms", torch, "layer_norm"),
    ("encoder", incremental.IncrementalTransformer, "start"),
    ("rest of the step: copies, sums, Python", incremental.IncrementalTransformer, "step"),
    ("reordering", incremental.IncrementalTransformer, "reorder"),
    ("log-softmax", beam, "log_probabilities"),
    ("candidates", beam, "_best"),
    ("rest of the search", beam, "beam_search"),
)


class Clock:
    """CPU seconds and calls of each part, without those of inner parts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._inner: list[float] = []

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, its time counted under ``name``."""

        def call(*arguments: Any, **options: Any) -> Any:
            """Call the function between two readings of the clock."""
            self._inner.append(0.0)
            began = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                taken = time.process_time() - began
                self.seconds[name] += taken - self._inner.pop()
                self.calls[name] += 1
                if self._inner:
                    self._inner[-1] += taken

        return call

    def products(self, name: str) -> packed.Kernel:
        """Return the kernel of a name, with maps whose time is counted."""
        kernel = packed.KERNELS[name]
        return lambda weight, bias: self.timed("products of the decoder", kernel(weight, bias))


def sentences(batch: int) -> Tensor:
    """Return random tokens ``[batch, LENGTH]``."""
    return torch.randint(EOS + 1, VOCABULARY, (batch, LENGTH), generator=torch.Generator().manual_seed(1))


def search(decoder: incremental.IncrementalTransformer, batch: int, width: int) -> None:
    """Decode random sentences with this beam; each output has ``LENGTH`` tokens."""
    source = sentences(batch)
    with torch.inference_mode():
        beam.beam_search(Endless(decoder), source, beam=width, alpha=0.6, max_lengths=[LENGTH] * batch)


def engines(network: Transformer, options: TransformerOptions) -> dict[str, Search]:
    """Return the same search by Hugging Face, and by CTranslate2 in float32 and int8 if it is installed."""
    theirs = HuggingFace(options, VOCABULARY, VOCABULARY, smoothing=0.0, alpha=0.6, device="cpu")
    limits = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH}

    def translate(translator: Any, batch: int, width: int) -> None:
        """Decode random sentences with CTranslate2."""
        words = [[f"w{token}" for token in row] for row in sentences(batch).tolist()]
        translator.translate_batch(words, beam_size=width, **limits)

    return {
        "Hugging Face": lambda batch, width: theirs.decode(Sources(sentences(batch), [LENGTH] * batch, True), width),
        **{f"CTranslate2 {kind}": partial(translate, engine) for kind, engine in translators(network).items()},
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the whole time of a step without and with the clocks, then each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=3, help="layers of the encoder and of the decoder")
    parser.add_argument("--width", type=int, default=256, help="width, a multiple of 64")
    parser.add_argument("--case", action="append", metavar="BATCH,BEAM", help="default: 1,5, 32,5, 64,5 and greedy")
    parser.add_argument("--repeats", type=int, default=3, help="searches of each case")
    parser.add_argument("--engines", action="store_true", help="time Hugging Face and CTranslate2, too")
    args = parser.parse_args(arguments)
    prepare_process(1)
    layers, width = args.layers, args.width
    shape = {"width": width, "feedforward": 4 * width, "heads": width // 64, "tie": "all", "bias": False}
    options = Transformer.options(**shape, encoder_layers=layers, decoder_layers=layers)
    network = Transformer(options, (VOCABULARY, VOCABULARY), {}).eval()
    decoder = incremental.IncrementalTransformer(network, PAD)
    decoder.measured_kernels = True
    texts = args.case or ["1,1", "1,5", "32,1", "32,5", "64,1", "64,5"]
    cases = [tuple(int(part) for part in text.split(",")) for text in texts]
    systems: dict[str, Search] = {"phmrun": partial(search, decoder)}
    systems |= engines(network, options) if args.engines else {}
    whole = {}
    for case in cases:
        whole[case] = interleave({name: partial(run, *case) for name, run in systems.items()}, rounds=args.repeats)
    print(f"{processor()}, torch {torch.__version__}, one thread, load {os.getloadavg()[0]:.1f}")
    for case in cases:
        clock = Clock()
        with ExitStack() as stack:
            for name, place, attribute in PARTS:
                timed = clock.timed(name, getattr(place, attribute))
                # A plain function becomes a method, as those of the decoder must.
                stack.enter_context(patch.object(place, attribute, timed))
            stack.enter_context(patch.dict(packed.KERNELS, {name: clock.products(name) for name in packed.KERNELS}))
            decoder = incremental.IncrementalTransformer(network, PAD)
            decoder.measured_kernels = True
            for _ in range(args.repeats):
                search(decoder, *case)
        steps, total = args.repeats * LENGTH, sum(clock.seconds.values())
        ours = whole[case]["phmrun"]
        step, clocked = (1000 * seconds for seconds in (ours.median / LENGTH, total / steps))
        print(f"batch {case[0]}, beam {case[1]}: {step:.2f} ms a step, {clocked:.2f} with clocks")
        for name, ratio in ratios(whole[case], "phmrun").items():
            print(f"{ratio:8.2f} of this time: {name}")
        for name, taken in sorted(clock.seconds.items(), key=lambda item: -item[1]):
            print(f"{1000 * taken / steps:8.3f} ms {taken / total:6.1%} {clock.calls[name] / steps:6.1f} calls  {name}")


if __name__ == "__main__":
    main()
