"""A network for tabular data, recorded from Python: diagnoses of breast tumors from 30 measurements (569 patients).

`python train_mlp.py` trains three structures with three seeds each and records them in runs/. If it is killed, the
same command skips finished runs and continues an unfinished one from its checkpoint. `phmrun table` then
shows the scores with verdicts. Needs scikit-learn, which has the data.
"""

import argparse

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn
from torch.nn import functional as F

import phmrun
from phmrun.layers import convert

WIDTH, TRAINING = 64, 300  # the other 269 patients are the test set
LAYERS = ("dense", {"structure": "phm", "n": 4}, {"structure": "low-rank", "budget": 0.25})


def measurements() -> tuple[Tensor, Tensor]:
    """Measurements in units of their deviation, and diagnoses, in a fixed order."""
    values, labels = load_breast_cancer(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs = torch.tensor(values, dtype=torch.float32)[order]
    mean, deviation = inputs[:TRAINING].mean(0), inputs[:TRAINING].std(0)
    return (inputs - mean) / deviation, torch.tensor(labels)[order]


def network(layer: str | dict[str, object]) -> nn.Module:
    """A network whose inner maps have a structure."""
    dense = nn.Sequential(
        *(nn.Linear(30, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()),
        *(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 2)),
    )
    if isinstance(layer, str):
        return dense
    options = {key: value for key, value in layer.items() if key != "structure"}
    return convert(dense, str(layer["structure"]), names=["2", "4"], **options)


def train(run: phmrun.Recording, layer: str | dict[str, object], seed: int, steps: int) -> None:
    """Train one network, or go on from its checkpoint, and record its scores."""
    torch.manual_seed(seed)
    model = network(layer)
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    step, checkpoint = 0, run.directory / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    inputs, labels = measurements()
    while step < steps:
        chosen = torch.randint(TRAINING, (32,), generator=torch.Generator().manual_seed(seed * 10**6 + step))
        loss = F.cross_entropy(model(inputs[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, run.directory / "new.pt")
            (run.directory / "new.pt").replace(checkpoint)  # whole or not at all
            run.log(step, train__loss=loss.item())
    with torch.no_grad():
        right = model(inputs[TRAINING:]).argmax(1) == labels[TRAINING:]
    run.parameters(sum(parameter.numel() for parameter in model.parameters()))
    run.score("test/accuracy", items=right.int())


def main() -> None:
    """Record a run for each structure and seed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    for layer in LAYERS:
        for seed in range(1, options.seeds + 1):
            settings = {"layer": layer, "steps": options.steps}
            with phmrun.record("tumors", settings=settings, seed=seed, inputs=[__file__]) as run:
                if not run.done:
                    train(run, layer, seed, options.steps)
                    print(run.id)


if __name__ == "__main__":
    main()
