"""Random states in and out of a checkpoint: the part of exact resume that Lightning leaves out."""

import random
from typing import Any

import numpy as np
import torch

from phmrun.engine.lightning import Callback, pl
from phmrun.engine.processes import gathered, rank


class Randomness(Callback):
    """Saves every random state with a checkpoint, and restores it at the first batch of a resumed run.

    Not before: setting up loaders and models draws from the same generators. Each of several processes has states of
    its own, since it has drawn as much as its own batches took.
    """

    def __init__(self) -> None:
        self._restored: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """The states of torch, CUDA, NumPy and Python, as tensors and lists, of every process."""
        return {"states": gathered(random_states())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps this process's states for the first batch; where it has none, it goes on with those that it has."""
        states = state_dict["states"]
        states = states if isinstance(states, list) else [states]
        self._restored = states[rank()] if rank() < len(states) else None

    def on_train_batch_start(self, trainer: pl.Trainer, module: pl.LightningModule, batch: Any, index: int) -> None:
        """Restores them once."""
        if self._restored is not None:
            set_random_states(self._restored)
            self._restored = None


def seed_everything(seed: int) -> None:
    """Seeds torch, NumPy and Python, before the model is built."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def random_states() -> dict[str, Any]:
    """All global random states, in types that load with ``weights_only=True``."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": [version, list(internal), gauss],
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Puts back what :func:`random_states` took."""
    torch.set_rng_state(states["torch"].cpu())
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
