"""Time of one sentence at batch 1 with cold caches, by structure and size, beside CTranslate2.

At batch 1 a decoder step reads every weight once, so the time follows the memory that is read. The weights are random:
the speed does not depend on them. A pass over more memory than the caches hold precedes each sentence.

``python -m benchmarks.latency --size 40M --threads 1 --repeats 5``
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.arguments import parser, start
from phmrun.bench.machine import last_level_cache
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.errors import PhmrunError
from phmrun.exchange.ctranslate2 import library, specification_of
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.options import TransformerOptions
from phmrun.models.transformer import Transformer
from phmrun.progress import progress
from phmrun.text.vocabulary import PAD

SIZES = {
    "tiny": {"width": 64, "feedforward": 256, "heads": 4, "encoder_layers": 1, "decoder_layers": 1},
    "40M": {"width": 512, "feedforward": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
    "200M": {"width": 1024, "feedforward": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6},
}
WORDS = {"tiny": 64, "40M": 8000, "200M": 16000}
LAYERS: Mapping[str, Mapping[str, Any]] = {
    "dense": {"structure": "dense"},
    "phm n=4": {"structure": "phm", "n": 4},
    "phm n=8": {"structure": "phm", "n": 8},
    "phm n=16": {"structure": "phm", "n": 16},
    "low-rank 1/8": {"structure": "low-rank", "budget": "1/8"},
}
LENGTH = 20
"""Tokens of the source, and of the output."""


@dataclass(frozen=True)
class Latency:
    """Time of a sentence."""

    system: str  # structure with the form of its maps, or engine
    size: str  # name of the dense model's size
    parameters: int  # weights that it keeps
    ms: float  # median milliseconds a sentence
    ratio: float  # median of the quotients by the dense decoder's in the same rounds


def measure(size: str, rounds: int, *, cold: int | None = None) -> list[Latency]:
    """Measure all systems of a size in the same rounds.

    Args:
        size: Key of ``SIZES``.
        rounds: Sentences of each system; the first, untimed one is added.
        cold: Bytes to write before each sentence; None: twice the last-level cache.
    """
    systems: dict[str, tuple[int, Callable[[], object]]] = {}
    for name, layer in LAYERS.items():
        torch.manual_seed(1)
        shape = TransformerOptions(**SIZES[size], tie="all")
        network = Transformer(shape, (WORDS[size], WORDS[size]), {"layer": layer}).eval()
        count = sum(parameter.numel() for parameter in network.parameters())
        if name == "dense":
            options = {"beam_size": 1, "min_decoding_length": LENGTH, "max_decoding_length": LENGTH}
            for kind, translator in translators(network).items():
                run = partial(translator.translate_batch, [["w7"] * LENGTH], **options)
                systems[f"ctranslate2 {kind}"] = count, run
            systems[name] = count, partial(_sentence, IncrementalTransformer(network, PAD))
        else:
            factored = IncrementalTransformer(network, PAD, "factored", "factored")
            systems[f"{name}, factored"] = count, partial(_sentence, factored)
    eviction = torch.empty(2 * last_level_cache() if cold is None else cold, dtype=torch.uint8)
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    with progress("measuring", rounds + 1, "rounds") as advance, torch.inference_mode():
        for _ in range(rounds + 1):
            for name, (_, run) in systems.items():
                eviction.add_(1)
                began = time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()
                run()
                ended = time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()
                seconds[name].append(ended - began)
            advance(1)
    dense = seconds["dense"][1:]
    return [
        Latency(
            name,
            size,
            count,
            1000 * median(seconds[name][1:]),
            median(mine / theirs for mine, theirs in zip(seconds[name][1:], dense, strict=True)),
        )
        for name, (count, _) in systems.items()
    ]


def _sentence(decoder: IncrementalTransformer) -> None:
    """Encode a sentence and decode ``LENGTH`` tokens greedily."""
    state = decoder.start(torch.full((1, LENGTH), 7))
    tokens = torch.full((1, 1), 7)
    for _ in range(LENGTH):
        tokens = decoder.step(tokens, state).argmax(2)


def translators(network: Transformer) -> dict[str, Any]:
    """Return CTranslate2's translators in "float32" and "int8_float32"; empty if it is not installed.

    Token number i is the word "wi".
    """
    try:
        engine = library()
    except PhmrunError:
        return {}
    words = [f"w{number}" for number in range(network.source_embedding.num_embeddings)]  # type: ignore[union-attr]
    names = ["<pad>", "<unk>", "<s>", "</s>", *words[4:]]
    engines = {}
    for kind in ("float32", "int8_float32"):
        specification = specification_of(network)
        specification.register_source_vocabulary(names)
        specification.register_target_vocabulary(names)
        specification.validate()
        specification.optimize(quantization=None if kind == "float32" else kind)
        with tempfile.TemporaryDirectory() as folder:
            specification.save(str(Path(folder)))
            engines[kind] = engine.Translator(
                folder, device="cpu", compute_type=kind, intra_threads=torch.get_num_threads(), inter_threads=1
            )
    return engines


def main() -> None:
    """Print the table, or JSON with ``--json``."""
    options = parser(__doc__, repeats=5)
    options.add_argument("--size", choices=list(SIZES), default="40M", help="parameters of the dense model")
    args = options.parse_args()
    machine = start(args)
    results = measure(args.size, args.repeats)
    if args.json:
        console.print_json({"machine": machine, "results": [asdict(result) for result in results]})
        return
    measuring.print_machine(machine)
    rows = [(r.system, f"{r.parameters:,}", f"{r.ms:.1f}", f"{r.ratio:.2f}") for r in results]
    console.print_table(("system", "parameters", "ms a sentence", "of dense"), rows)


if __name__ == "__main__":
    main()
