"""What the engine uses of Lightning, loaded without what training never needs.

Lightning loads torchmetrics, which loads transformers, SciPy and Matplotlib where they are installed: 3.5 of the 5.9
seconds of CPU time that Lightning took to load. For as long as it loads, these are not found. Who wants torchmetrics'
scores that need them imports torchmetrics first, as a plug-in does at its top.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError
from unittest import mock

from lightning_utilities.core import imports

UNUSED = {"matplotlib", "scipy", "transformers"}


@contextmanager
def _unused_not_found() -> Iterator[None]:
    """What torchmetrics asks for packages finds none of the unused ones; a release that asks otherwise finds all."""
    version, available = getattr(imports, "_version", None), getattr(imports, "package_available", None)

    def version_of(name: str) -> str:
        if name in UNUSED:
            raise PackageNotFoundError(name)
        found: str = version(name)  # type: ignore[misc]
        return found

    def is_available(name: str) -> bool:
        return name not in UNUSED and available is not None and available(name)

    with ExitStack() as patches:
        if version is not None and available is not None:
            patches.enter_context(mock.patch.object(imports, "_version", version_of))
            patches.enter_context(mock.patch.object(imports, "package_available", is_available))
        yield


with _unused_not_found():
    import pytorch_lightning as pl
    from lightning_fabric.plugins.io import TorchCheckpointIO
    from lightning_fabric.utilities.exceptions import MisconfigurationException
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.profilers import PassThroughProfiler
    from pytorch_lightning.strategies import DDPStrategy
    from pytorch_lightning.utilities import move_data_to_device

__all__ = [
    "Callback",
    "DDPStrategy",
    "MisconfigurationException",
    "PassThroughProfiler",
    "TorchCheckpointIO",
    "move_data_to_device",
    "pl",
]
