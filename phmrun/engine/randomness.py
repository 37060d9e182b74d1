"""States of the random generators, which a checkpoint holds for every process."""

import random
from typing import Any

import numpy as np
import torch

from phmrun.engine.lightning import Callback, pl
from phmrun.engine.processes import all_gather, rank


class Randomness(Callback):
    """Random states of all processes, saved in checkpoints and restored on resume.

    They are restored at the first batch, because the setup of loaders and models draws from the same generators.
    """

    def __init__(self) -> None:
        self._restored: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return "states": those of torch, CUDA, NumPy and Python for each process, by rank."""
        return {"states": all_gather(random_states())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep this process's states for the first batch.

        One without saved states is seeded by its rank.
        """
        states = state_dict["states"]
        self._restored = states[rank()] if rank() < len(states) else None

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Seed torch by the rank, unless states are loaded: each process draws its own dropout masks.

        The first process keeps its state, as one alone.
        """
        if rank() and self._restored is None:
            torch.manual_seed((torch.initial_seed() + 0x9E3779B9 * rank()) % 2**32)  # of more bits, a CPU reads 32

    def on_train_batch_start(self, trainer: pl.Trainer, module: pl.LightningModule, batch: Any, index: int) -> None:
        """Restore the loaded states before the first batch, once; nothing if none are loaded."""
        if self._restored is not None:
            set_random_states(self._restored)
            self._restored = None


def random_states() -> dict[str, Any]:
    """Return the global random states of torch, CUDA, Python and NumPy, by name.

    Their types load with ``weights_only=True``. "cuda" is an empty list without a GPU.
    """
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": [version, list(internal), gauss],
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Set the global random states to those of :func:`random_states`.

    Those of GPUs are set for the GPUs that there are.
    """
    torch.set_rng_state(states["torch"].cpu())
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"][: torch.cuda.device_count()]])
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
