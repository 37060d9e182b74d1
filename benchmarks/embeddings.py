"""Time of embedding lookups at inference, in parts of ``nn.Embedding``'s.

A deep embedding's vector depends on its word alone, so all vectors can be kept in a table after training (Mehta et al.
2020, section 3.4). "folded": the table as a plain module, as scoring and prediction use it. "kept": the table inside of
the module in evaluation. "computed": the vectors made anew at each call, as training does.

``python -m benchmarks.embeddings --embedding "define depth=7 width=128" --words 10000 --width 400 --tokens 1400``
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.arguments import parser, start, structure_of
from phmrun.bench.timing import MEASUREMENT, interleave, ratios
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.config.options import checked_options, options_of
from phmrun.layers import DeFINE, build_embedding, folded
from phmrun.progress import progress
from phmrun.registry import EMBEDDINGS

REFERENCE = "nn.Embedding"


@dataclass(frozen=True)
class Lookup:
    """Time of a lookup."""

    embedding: str  # its name and options
    words: int  # entries of the vocabulary
    width: int  # numbers of a vector
    tokens: int  # words looked up per call
    parameters: int  # of the module as it is trained
    seconds: dict[str, float]  # median time per call, by form
    ratios: dict[str, float]  # that in parts of ``nn.Embedding``'s in the same rounds
    difference: float  # the largest difference of a looked-up number to the computed one


def measure(
    embeddings: Sequence[tuple[str, Mapping[str, Any]]],
    *,
    words: int,
    width: int,
    tokens: int,
    rounds: int = 15,
    device: torch.device | str = "cpu",
    at_least: float = MEASUREMENT,
) -> Iterator[Lookup]:
    """Measures each embedding, named with its options, in medians over the rounds; refuses what does not fit."""
    with progress("measuring", len(embeddings), "embeddings") as advance:
        for name, options in embeddings:
            with torch.no_grad():
                module = build_embedding(words, width, structure=name, **options).to(device).eval()
                text = torch.randint(words, (tokens,), device=device)
                forms: dict[str, Callable[[], Tensor]] = {
                    REFERENCE: partial(nn.Embedding(words, width, device=device), text),
                    "folded": partial(folded(module), text),
                    "kept": partial(module, text),
                    "computed": partial(module.embed if isinstance(module, DeFINE) else module, text),
                }
                computed = forms["computed"]()
                difference = max(float((forms[form]() - computed).abs().max()) for form in ("folded", "kept"))
                timings = interleave(forms, rounds=rounds, at_least=at_least, device=device)
            label = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
            parameters = sum(parameter.numel() for parameter in module.parameters())
            seconds = {form: timing.median for form, timing in timings.items()}
            shares = ratios(timings, REFERENCE)
            # Outside of no_grad: it would go on holding in the caller while this generator waits.
            yield Lookup(label, words, width, tokens, parameters, seconds, shares, difference)
            advance(1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the embeddings and print a line for each."""
    options = parser(__doc__, repeats=15)
    options.add_argument("--embedding", action="append", metavar="NAME", help="name with options; may be repeated")
    options.add_argument("--words", type=int, default=10_000, help="entries of the vocabulary")
    options.add_argument("--width", type=int, default=384, help="numbers of a vector")
    options.add_argument("--tokens", type=int, default=1400, help="words looked up per call")
    args = options.parse_args(arguments)
    named = [structure_of(text) for text in args.embedding or EMBEDDINGS.names()]
    checked = [(name, checked_options(name, options_of(name, table=True), values)) for name, values in named]
    facts = start(args)
    sizes = {"words": args.words, "width": args.width, "tokens": args.tokens}
    rows = list(measure(checked, **sizes, rounds=args.repeats, device=facts["device"]))
    if args.json:
        console.print_json({"machine": facts, "rows": [asdict(row) for row in rows]})
        return
    measuring.print_machine(facts)
    forms = list(rows[0].ratios)
    lines = []
    for row in rows:
        shares = [f"{row.ratios[form]:.2f}" for form in forms]
        time = measuring.duration(row.seconds[REFERENCE])
        lines.append((row.embedding, f"{row.parameters:,}", time, *shares, f"{row.difference:.0e}"))
    title = f"\n{args.tokens:,} of {args.words:,} words, {args.width} numbers each; ratios to {REFERENCE}"
    console.print_table(("embedding", "parameters", REFERENCE, *forms, "difference"), lines, title=title)


if __name__ == "__main__":
    main()
