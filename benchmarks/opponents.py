"""Sentences a second of a trained translator, beside its own weights in Hugging Face's library and in CTranslate2.

Each sentence ends where the model ends it. ``hf`` is M2M100 with the run's weights, for which the run needs pre-norm;
otherwise it is MarianMT with random weights, and all systems decode as many tokens as the batch's longest reference
has. Needs ``pip install "phmrun[transformers,ctranslate2]"``.

``python -m benchmarks.opponents RUN --threads 1 --against hf --against ctranslate2 --against ctranslate2-int8``
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks.arguments import parser, run, start
from benchmarks.hugging_face import HuggingFace, has_place_for
from benchmarks.systems import Converted, Ours, Sources, Translating, decoding
from phmrun.bench.run import evenly, opened
from phmrun.bench.timing import interleave
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.decoding.search import max_length
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError
from phmrun.exchange.ctranslate2 import Quantization
from phmrun.families.sequence_to_sequence.data import ParallelData
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.families.sequence_to_sequence.predictor import converted_model
from phmrun.ledger import Run
from phmrun.models.sentences import batch_of
from phmrun.models.transformer import Transformer
from phmrun.text.lines import read_parallel

BEAMS = (1, 5)
OPPONENTS = ("hf", "ctranslate2", "ctranslate2-int8")


def opponent(name: str, trained: TrainedModel, ours: Ours) -> Translating:
    """Build an opponent; CTranslate2's model is converted into the run's ``exports`` folder."""
    config: Any = trained.config
    vocabulary: Any = trained.vocabulary
    network = ours.module.network
    if name == "hf":
        lent = network if has_place_for(network, config.model) else None
        rest = {"smoothing": 0.0, "alpha": ours.search.alpha, "device": ours.device}
        return HuggingFace(config.model, *vocabulary.sizes, **rest, weights=lent)
    quantization: Quantization = "none" if name == "ctranslate2" else "int8"
    search = ours.search.model_copy(update={"engine": "ctranslate2", "quantization": quantization})
    exports = trained.run.access.folder("exports")
    return Converted(converted_model(network, vocabulary, exports, quantization, ours.device), search)


def batches_of(data: ParallelData, ours: Ours, size: int, sentences: int, *, exact: bool) -> list[Sources]:
    """Return evenly spaced batches of the test split, sorted by length, longest first, as in evaluation.

    Limits of length are those of the search; if ``exact``, as many tokens as the longest reference of the batch has.
    """
    pairs = list(read_parallel(*(data.files.get("test") or data.files["dev"])))
    sources = data.vocabulary.source.encode_all([source for source, _ in pairs])
    targets = data.vocabulary.target.encode_all([target for _, target in pairs])
    order = sorted(range(len(pairs)), key=lambda number: -len(sources[number]))
    batches = []
    for number in evenly(max(1, len(order) // size), sentences // size):
        chosen = order[number * size : (number + 1) * size]
        tokens = batch_of([np.array(sources[sentence]) for sentence in chosen]).tokens
        longest = max(len(targets[sentence]) + 1 for sentence in chosen)
        ratio, offset = ours.search.max_length_ratio, ours.search.max_length_offset
        limits = [longest if exact else max_length(len(sources[row]) + 1, ratio, offset) for row in chosen]
        batches.append(Sources(tokens.to(ours.device), limits, exact))
    return batches


def measure(
    run: Run, against: Sequence[str], sizes: Sequence[int], sentences: int, single: int, rounds: int, device: str
) -> Iterator[dict[str, Any]]:
    """Yield sentences a second by system, and our speed in parts of the others', by search and batch size."""
    trained, data = opened(run)
    if not isinstance(trained.module, SequenceToSequenceModule) or not isinstance(trained.module.network, Transformer):
        raise PhmrunError("only Transformers that translate have these opponents", where=run.id)
    ours = Ours(trained.module, cast(Any, trained.config).decoding, device)
    exact = "hf" in against and not has_place_for(trained.module.network, cast(Any, trained.config).model)
    with trained.kernels(run.environment()).applied():
        systems = {"phmrun": ours, **{name: opponent(name, trained, ours) for name in against}}
        for size in sizes:
            batches = batches_of(data, ours, size, single if size == 1 else sentences, exact=exact)
            count = sum(len(batch.limits) for batch in batches)
            for beam in BEAMS:
                calls = {name: decoding(system, batches, beam) for name, system in systems.items()}
                timings = interleave(calls, rounds=rounds, device=device)
                rates = {name: count / timing.median for name, timing in timings.items()}
                ratios = {name: timings[name].ratio(timings["phmrun"]) for name in against}
                search = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {size}"
                yield {"search": search, "sentences": count, "rates": rates, "ratios": ratios}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a line for each search and batch size."""
    options = parser(__doc__, repeats=5)
    options.add_argument("run", help="run id, unique prefix of one, path, or latest")
    options.add_argument("--against", action="append", choices=OPPONENTS, help="opponent; may be repeated")
    options.add_argument("--batch-size", action="append", metavar="N,…", help="sentences decoded at a time (1,64)")
    options.add_argument("--sentences", type=int, default=256, help="test sentences per measurement of batches")
    options.add_argument("--single", type=int, default=24, help="the same one by one")
    options.add_argument("--runs-dir", type=Path, default=Path("runs"), help="directory of the runs")
    args = options.parse_args(arguments)
    sizes = measuring.numbers(args.batch_size, "--batch-size") or [1, 64]
    facts = start(args)
    torch.manual_seed(0)
    amounts = (sizes, args.sentences, args.single, args.repeats, facts["device"])
    rows = list(measure(Run.find(args.runs_dir, args.run), args.against or OPPONENTS, *amounts))
    if args.json:
        console.print_json({"machine": facts, "rows": rows})
        return
    measuring.print_machine(facts)
    names = list(rows[0]["ratios"])
    lines = []
    for row in rows:
        pairs = [(f"{row['rates'][name]:.1f}", f"{row['ratios'][name]:.2f}") for name in names]
        lines.append((row["search"], f"{row['rates']['phmrun']:.1f}", *(cell for pair in pairs for cell in pair)))
    heads = [part for name in names for part in (name, "ours / its")]
    console.print_table(("search", "phmrun", *heads), lines, title="\nSentences a second")


if __name__ == "__main__":
    run(main)
