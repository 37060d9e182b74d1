"""One parameter for many maps of a network: which maps share is an option of their structure.

A structure that has an option ``share`` and names parameters in ``shareable`` takes part. In a finished network those
parameters are made the same object in every map that shares, as tied embeddings are: counted once, trained once, moved
and copied together. A state dict holds them under the name of every map; loading it keeps them tied.
"""

from typing import Literal

from torch import nn

from phmrun.layers.structure import Structure

Share = Literal["none", "model", "kind"]


def share_parameters(network: nn.Module) -> None:
    """Ties the shared parameters of all maps in ``network`` that have the same structure and options.

    "model": all of them share. "kind": those that stand in the same place of every layer do, such as all output maps
    of the encoder's attention; the place is the module's path without its numbers.

    Args:
        network: A finished network. ``Transformer`` and the training module of every task do this to theirs; for a
            network of your own, call it once all its modules are built.
    """
    owners: dict[object, Structure] = {}
    for path, module in network.named_modules():
        if not isinstance(module, Structure) or module.options.get("share", "none") == "none":
            continue
        options = tuple(sorted((name, repr(value)) for name, value in module.options.items()))
        owner = owners.setdefault((type(module), options, place(path, module.options["share"])), module)
        for name in module.shareable:
            setattr(module, name, getattr(owner, name))


def place(path: str, share: Share) -> str:
    """What maps that share have in common: "" or, for "kind", the path with a * for each number."""
    return "" if share == "model" else ".".join("*" if part.isdigit() else part for part in path.split("."))
