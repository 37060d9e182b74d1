"""CPU time and memory of ``phmrun train sva`` and ``nli`` beside a plain loop over torch's ``nn.LSTM``.

Both train the same LSTM classifier from the same weights on the same padded batches, each in a process of its own, by
turns, one thread, as ``python -m benchmarks.plain_loop`` does. The loop gets its batches as tensors. With ``--dropout
0`` the weights end with the same norm; otherwise the loop draws one random number for each entry, phmrun one for four.

``python -m benchmarks.lstm_loop sva``; ``python -m benchmarks.lstm_loop nli``
"""

import sys
import tempfile
from collections.abc import Sequence
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.plain_loop import BATCHES, CLIP, compare
from benchmarks.versions import take_turns

CONFIGS = {"sva": "configs/sva/linzen-small.yaml", "nli": "configs/nli/scitail-small.yaml"}


def plain_loop(writing: int, steps: int, folder: Path) -> None:
    """Train the classifier of a folder on its batches, by turns. Imports nothing of phmrun."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    weights, batches, rates, adam, (dropout, word_dropout, last) = torch.load(folder / BATCHES)
    tables, projections, maps = (
        [weights[name] for name in weights if name.startswith(part) and name.endswith("weight")]
        for part in ("embedding", "embedding.projections", "output")
    )
    embedding = nn.Embedding.from_pretrained(tables[0], freeze=bool(projections))
    hidden, width = weights["lstm.weight_hh_l0"].shape[1], weights["lstm.weight_ih_l0"].shape[1]
    lstm = nn.LSTM(width, hidden, batch_first=True)
    linears = nn.ModuleList(nn.Linear(*matrix.shape[::-1]) for matrix in maps)
    lstm.load_state_dict({name[5:]: value for name, value in weights.items() if name.startswith("lstm.")})
    lstm.bias_hh_l0.requires_grad_(False)  # phmrun has one bias
    linears.load_state_dict({name[12:]: value for name, value in weights.items() if name.startswith("output.")})
    wide = [nn.Parameter(matrix) for matrix in projections]
    trained = [*wide, *nn.ModuleList([embedding, lstm, linears]).train().parameters()]
    optimizer = torch.optim.Adam(trained, lr=1.0, fused=True, **adam)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rates[min(step, len(rates) - 1)])
    take_turns(writing, steps)
    for tokens, lengths, labels in batches:
        vectors = F.dropout(reduce(F.linear, wide, embedding(tokens)), dropout)
        vectors = vectors * F.dropout(vectors.new_ones(*tokens.shape, 1), word_dropout)
        outputs = lstm(vectors)[0]
        if last:
            summary = outputs[torch.arange(len(tokens)), lengths - 1]
        else:
            inside = (torch.arange(tokens.shape[1]) < lengths[:, None])[..., None]
            greatest = outputs.masked_fill(~inside, float("-inf")).amax(1)
            summary = torch.cat([greatest, (outputs * inside).sum(1) / lengths[:, None]], 1)
        scores = torch.cat(summary.chunk(len(tokens) // len(labels)), 1)
        for number, linear in enumerate(linears):
            scores = linear(F.dropout(scores.relu() if number else scores, dropout))
        F.cross_entropy(scores, labels).backward()
        torch.nn.utils.clip_grad_norm_(trained, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()


def prepare(task: str, settings: dict[str, Any], count: int, folder: Path) -> None:
    """Write the first weights, batches and rates of a run for the loop."""
    import torch
    from torch.nn import functional as F

    from phmrun.engine.data import build_data
    from phmrun.engine.module import build_module, seed_everything
    from phmrun.experiments import resolve_request
    from phmrun.layers import folded

    labelled = [(key, value, "--set") for key, value in settings.items()]
    config: Any = resolve_request(task, labelled, configs=[CONFIGS[task]]).resolved.config
    data = build_data(config)
    data.prepare()
    seed_everything(config.seed)
    module: Any = build_module(config, *data.vocabulary.sizes)
    module.begin(data)
    batches = []
    for batch in islice(data.train_dataloader(), count):
        longest = max(part.tokens.shape[1] for part in batch.sentences)
        tokens = torch.cat([F.pad(part.tokens, (0, longest - part.tokens.shape[1])) for part in batch.sentences])
        batches.append((tokens, torch.cat([part.lengths for part in batch.sentences]), batch.labels))
    rates, adam, model = [module.schedule(step + 1) for step in range(count)], config.training.optimizer, config.model
    weights = folded(module.network).state_dict()
    options = (model.dropout, model.word_dropout, model.pooling == "last")
    torch.save((weights, batches, rates, {"betas": adam.betas, "eps": adam.eps}, options), folder / BATCHES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print for each program the time of a step, its memory, and both in parts of the plain loop's."""
    from benchmarks.arguments import parser

    options = parser(__doc__, repeats=7)
    options.add_argument("task", choices=CONFIGS)
    options.add_argument("--dropout", type=float, help="rate of dropout in place of the configuration's")
    options.add_argument("--steps", type=int, default=10, help="optimizer steps of a turn")
    args = options.parse_args(arguments)
    settings = {} if args.dropout is None else {"model.dropout": args.dropout, "model.word_dropout": args.dropout}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(args.task, settings, args.steps * (args.repeats + 1), folder)
        words = [
            args.task,
            "--config",
            CONFIGS[args.task],
            *(f"--set={key}={value}" for key, value in settings.items()),
        ]
        compare(args, words, folder, __file__)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        plain_loop(int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    else:
        main()
