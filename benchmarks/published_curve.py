"""Losses of the PHM+ notebook and of a run of ours, by epoch, and BLEU as the notebook computes it.

The notebook's losses are those of n = 2, printed below cell 77 of ``PHM_Transformer_Style_Transfer.ipynb`` in
demegire/Parameterization-of-Hypercomplex-Multiplications, commit 5f5fa45; its BLEU is that of the first 500 test lines.
Run from a checkout::

    python -m benchmarks.published_curve runs/RUN --out docs/pictures/phm-plus-n2.svg
"""

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from phmrun.ledger import Run
from phmrun.metric import metric_of
from phmrun.results.items import RunItems
from phmrun.results.plots.canvas import PALETTE

STEPS = 575  # optimizer steps of an epoch
LINES = 500  # test lines that the notebook scores
NOTEBOOK: Mapping[str, list[float]] = {
    "train/loss": [5.859, 5.002, 4.667, 4.431, 4.229, 4.048, 3.882, 3.728, 3.581],
    "val/loss": [4.828, 4.456, 4.263, 4.129, 4.035, 3.959, 3.894, 3.865, 3.844],
}


def losses(run: Run, key: str) -> list[float]:
    """Return a loss of a run at the end of each epoch.

    The validation loss is that of the epoch's last step, the training loss the average over its logged intervals, of
    which a restored run has kept only some.
    """
    epochs: dict[int, list[float]] = {}
    for row in run.history.rows(key):
        epochs.setdefault((int(row["step"]) - 1) // STEPS, []).append(float(row[key]))
    whole = range(int(max(row["step"] for row in run.history.rows("val/loss"))) // STEPS)
    return [epochs[epoch][-1] if key == "val/loss" else fmean(epochs[epoch]) for epoch in whole]


def bleu(run: Run, lines: int | None = None) -> float:
    """Return the mean BLEU of sentences over the first ``lines`` test lines, in percent; ``None``: over all."""
    score = "test/sentence-bleu-nltk"
    (items,) = RunItems().of([run], score)
    return metric_of(score).computed(items.counts[:lines])


def draw(ours: Mapping[str, list[float]]) -> Figure:
    """Draw our losses by epoch over the notebook's: one color for training, another for validation."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for color, (key, published) in zip(PALETTE, NOTEBOOK.items(), strict=False):
        name = {"train/loss": "training", "val/loss": "validation"}[key]
        axes.plot(range(1, 10), published, "--o", color=color, markersize=3, label=f"{name}, notebook")
        axes.plot(range(1, len(ours[key]) + 1), ours[key], "-", color=color, label=f"{name}, phmrun")
    axes.set_xlabel("epoch")
    axes.set_ylabel("loss (nats a token)")
    axes.legend(frameon=False)
    return figure


def main() -> None:
    """Print both losses of each epoch and BLEU; draw the losses if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="Directory of a run of configs/style/phm-plus.yaml.")
    parser.add_argument("--out", type=Path, help="Picture to write, by its ending: .svg, .png, .pdf.")
    options = parser.parse_args()
    run = Run(options.run)
    ours = {key: losses(run, key) for key in NOTEBOOK}
    print("epoch  training: notebook, ours  validation: notebook, ours")
    for epoch, values in enumerate(zip(*ours.values(), strict=True)):
        pairs = [f"{NOTEBOOK[key][epoch]:.3f}, {value:.3f}" for key, value in zip(NOTEBOOK, values, strict=True)]
        print(f"{epoch + 1:5}  {pairs[0]:>24}  {pairs[1]:>26}")
    print(f"BLEU of sentences: first {LINES} lines {bleu(run, LINES):.2f}, all lines {bleu(run):.2f}")
    if options.out:
        draw(ours).savefig(options.out, metadata={"Date": None} if options.out.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
