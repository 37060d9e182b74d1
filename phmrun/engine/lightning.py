"""What the engine uses of Lightning, loaded without what training never needs.

Lightning loads torchmetrics, which loads transformers, SciPy and Matplotlib where they are installed: 3.5 of the 5.9
seconds of CPU time that Lightning took to load. For as long as it loads, these are not found. Who wants torchmetrics'
scores that need them imports torchmetrics first, as a plug-in does at its top.
"""

from unittest import mock

from lightning_utilities.core import imports

UNUSED = {"matplotlib", "scipy", "transformers"}
_version, _available = imports._version, imports.package_available


def _version_of(name: str) -> str:
    if name in UNUSED:
        raise imports.PackageNotFoundError(name)
    return _version(name)


with (
    mock.patch.object(imports, "_version", _version_of),
    mock.patch.object(imports, "package_available", lambda name: name not in UNUSED and _available(name)),
):
    import pytorch_lightning as pl
    from lightning_fabric.plugins.io import TorchCheckpointIO
    from lightning_fabric.utilities.exceptions import MisconfigurationException
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.profilers import PassThroughProfiler
    from pytorch_lightning.utilities import move_data_to_device

__all__ = [
    "Callback",
    "MisconfigurationException",
    "PassThroughProfiler",
    "TorchCheckpointIO",
    "move_data_to_device",
    "pl",
]
