"""What training runs on, as torch sees it, and the entry of a process in the run's ``environment.json``."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from phmrun.config import Experiment
from phmrun.ledger import Run, State
from phmrun.ledger.environment import Segment, facts

LOG = logging.getLogger("phmrun.training")


def torch_facts(config: Experiment) -> dict[str, Any]:
    """Threads, accelerators, and the settings and flags that decide how torch computes."""
    return {
        "threads": torch.get_num_threads(),
        "accelerators": [_accelerator(number) for number in range(torch.cuda.device_count())],
        "settings": {**config.hardware.model_dump(mode="json"), "precision": config.training.precision},
        "flags": {
            "cudnn": torch.backends.cudnn.version(),
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
            "float32_matmul_precision": torch.get_float32_matmul_precision(),
            "mkldnn": torch.backends.mkldnn.is_available(),
        },
    }


@contextmanager
def recorded(run: Run, config: Experiment, leader: bool) -> Iterator[Segment | None]:
    """An entry in ``environment.json`` for what this process does in the block; ``None`` for all but the leader."""
    if not leader:
        yield None
        return
    segment = Segment(run, {**facts(run), **torch_facts(config)})
    try:
        yield segment
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt | SystemExit) or run.status.state is State.INTERRUPTED
        with suppress(OSError):  # a full disk is what has ended it, perhaps
            segment.end("interrupted" if stopped else "failed")
        raise
    if torch.cuda.is_available():
        segment.entry["peak_accelerator_memory_bytes"] = torch.cuda.max_memory_allocated()
    segment.end(run.status.state.value)


def continued(segment: Segment, step: int) -> None:
    """Notes where training goes on, and warns where that is in another environment than it was begun in."""
    changed = segment.resumed(step)
    if changed:
        LOG.warning(
            "from step %s on this run is made in another environment, so it need not end as it would have in one: %s",
            f"{step:,}",
            "; ".join(changed[:8]) + (f"; and {len(changed) - 8} more" if len(changed) > 8 else ""),
        )


def _accelerator(number: int) -> dict[str, Any]:
    found = torch.cuda.get_device_properties(number)
    return {"name": found.name, "memory_bytes": found.total_memory, "cuda": torch.version.cuda, "driver": _driver()}


def _driver() -> str | None:
    """The version of the GPU's driver, as the system tells it."""
    try:
        return Path("/sys/module/nvidia/version").read_text(encoding="ascii").strip()
    except OSError:
        return None
