"""Record a small AWD-LSTM of salesforce/awd-lstm-lm.

python tests/reference/make_awd_lstm.py GIT_DIRECTORY
"""

import sys

import torch
from recording import Source, checked_out, record
from torch import Tensor

SOURCE = Source(
    repository="https://github.com/salesforce/awd-lstm-lm",
    commit="1d466ec5875675ca6b6f0caacbb741240a29da9e",
    license="BSD-3-Clause",
    files=("LICENSE", "model.py", "splitcross.py", "embed_regularize.py", "locked_dropout.py", "weight_drop.py"),
    changes="no dropout, whose masks are random; sums stay float64; loss, penalties, clip and step as main.py:193-208",
)
WORDS, WIDTH, HIDDEN, LENGTH, BATCH = 20, 6, 10, 5, 3


def renamed(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their parameters under our names."""
    named = {
        "embedding.tables.0.structure.matrix": values["encoder.weight"],
        "output.tables.0.bias": values["decoder.bias"],
    }
    for number in range(3):
        cell = f"context.{number}.cells.0"
        named[f"{cell}.input.0.matrix"] = values[f"rnns.{number}.weight_ih_l0"]
        named[f"{cell}.recurrent.0.matrix"] = values[f"rnns.{number}.weight_hh_l0"]
        named[f"{cell}.bias"] = torch.stack([values[f"rnns.{number}.bias_{kind}_l0"] for kind in ("ih", "hh")])
    return {name: value.detach().clone() for name, value in named.items()}


def main(git_directory: str) -> None:
    """Losses of two segments, the gradient of the second and one step of SGD."""
    with checked_out(SOURCE, git_directory) as folder:
        path = folder / "splitcross.py"
        path.write_text(path.read_text().replace(".float()", ""))
        from model import RNNModel  # type: ignore[import-not-found]
        from splitcross import SplitCrossEntropyLoss  # type: ignore[import-not-found]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    model = RNNModel("LSTM", WORDS, WIDTH, HIDDEN, 3, 0, 0, 0, 0, 0, tie_weights=True)
    drawn = model.encoder.weight.detach().clone()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    criterion = SplitCrossEntropyLoss(WIDTH, splits=[], verbose=False)
    # embed_regularize.py:16 passes padding_idx=-1, in torch of today the last word, which is not read here.
    tokens = torch.randint(WORDS - 1, (2 * LENGTH + 1, BATCH))
    numbers = {"tokens": tokens.t().contiguous(), "start": drawn}
    numbers |= {f"before/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=30, weight_decay=1.2e-6)
    hidden = model.init_hidden(BATCH)
    for number in range(2):
        first = number * LENGTH
        hidden = [tuple(part.detach() for part in pair) for pair in hidden]
        optimizer.zero_grad()
        output, hidden, raw, dropped = model(tokens[first : first + LENGTH], hidden, return_h=True)
        targets = tokens[first + 1 : first + LENGTH + 1].flatten()
        nll = criterion(model.decoder.weight, model.decoder.bias, output, targets)
        loss = nll + 2 * dropped[-1].pow(2).mean() + (raw[-1][1:] - raw[-1][:-1]).pow(2).mean()
        numbers |= {f"nll/{number}": nll, f"loss/{number}": loss}
    loss.backward()
    numbers |= {f"gradient/{k}": v for k, v in renamed({k: v.grad for k, v in model.named_parameters()}).items()}
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    numbers |= {f"after/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
    record("awd-lstm", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
