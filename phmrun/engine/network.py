"""A task's module for a config: its network, with the single maps that differ."""

from phmrun.config import Experiment, Task
from phmrun.engine.module import TrainingModule
from phmrun.errors import PhmrunError
from phmrun.layers.replacement import replace_structures
from phmrun.registry import TASKS


def build_module(config: Experiment, *sizes: int) -> TrainingModule:
    """The module of an experiment, on the current default device.

    Args:
        config: The resolved config.
        *sizes: Of its vocabularies.

    Raises:
        PhmrunError: Sizes, structures and names of maps that do not go together, or are too large.
    """
    task: Task = TASKS.get(config.task)
    try:
        module: TrainingModule = task.load("module")(config, *sizes)
    except RuntimeError as error:
        if "overflow" not in str(error) and "allocate" not in str(error):
            raise
        what = "a matrix of the network has more numbers than the machine can hold"
        raise PhmrunError(what, where="model", hint="`phmrun count-params` shows what a network has.") from error
    replace_structures(module.network, {one.name: one.layer.arguments for one in config.maps})
    return module
