"""What the processes that train together know of each other."""

import os
from typing import Any, TypeVar

import torch
import torch.distributed as dist

Value = TypeVar("Value")


def together() -> bool:
    """Whether this process trains with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def is_leader() -> bool:
    """Whether this process is the one that writes: the first of its run, on all machines."""
    return all(os.environ.get(name, "0") == "0" for name in ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK"))


def rank() -> int:
    """This process's number among those that train together, from 0."""
    return dist.get_rank() if together() else 0


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if together() else 1


def gathered(value: Value) -> list[Value]:
    """Every process's value, in the order of their numbers; called by all of them at once."""
    if not together():
        return [value]
    values: list[Any] = [None] * world()
    dist.all_gather_object(values, value)
    return values


def largest(value: float, device: torch.device) -> float:
    """The largest of all processes' values; called by all of them at once.

    Args:
        value: This process's.
        device: What it computes on.
    """
    if not together():
        return value
    shared = torch.tensor(float(value), device=device)
    dist.all_reduce(shared, op=dist.ReduceOp.MAX)
    return float(shared)
