"""Checks of third-party structures, with errors that name the fault and its source line.

A third-party class is checked twice; built-in structures have tests instead:

1. on registration: required methods and options;
2. on the first build: a trial on torch's meta device, which uses no memory.
"""

import inspect
from contextlib import suppress
from typing import Any

import torch

from phmrun.errors import PhmrunError
from phmrun.plugin_errors import place_of

NEEDED = {
    "reset_parameters": "def reset_parameters(self, std: float) -> None, which draws the parameters",
    "materialize": "def materialize(self) -> Tensor, which builds W [out_features, in_features]",
}
"""Signatures of the methods that a structure must define."""


def check_class(structure: type[Any], base: type[Any]) -> None:
    """Check that a class defines the methods and options of a structure.

    Only its definition is read; nothing is built. It must derive from ``base`` and override the methods in
    :data:`NEEDED`. Its ``__init__`` takes out_features and in_features, then options: keyword-only, with default and
    annotation. Its ``check`` takes all these options.

    Args:
        structure: Class to register.
        base: Base class of all structures.

    Raises:
        PhmrunError: The class lacks something; the hint says what to write.
    """
    if not (isinstance(structure, type) and issubclass(structure, base)):
        raise PhmrunError(f"{structure!r} is no structure", hint="Derive it from phmrun.layers.Structure.")
    for name, line in NEEDED.items():
        if getattr(structure, name) is getattr(base, name):
            raise class_error(structure, f"has no {name}", f"Define {line}.")
    signature = inspect.signature(structure.__init__)
    parameters = list(signature.parameters.values())[1:]
    options = parameters[2:]
    wrong = [
        option
        for option in options
        if option.kind is not option.KEYWORD_ONLY or option.empty in (option.default, option.annotation)
    ]
    if [parameter.name for parameter in parameters[:2]] != ["out_features", "in_features"] or wrong:
        wanted = 'def __init__(self, out_features: int, in_features: int, *, option: Annotated[int, "its meaning"] = 4)'
        raise class_error(structure, f"has the constructor {signature}", f"Write {wanted}.")
    # Listings call check with the defaults for every size.
    try:
        inspect.signature(structure.check).bind(1, 1, **{option.name: option.default for option in options})
    except TypeError as error:
        names = "".join(f", {option.name}" for option in options)
        hint = f"Write def check(cls, out_features, in_features{', *' if options else ''}{names}) -> str | None."
        raise class_error(structure, f"does not take all of its options in check: {error}", hint) from error


def built(structure: type[Any], out_features: int, in_features: int, **options: Any) -> Any:
    """Build a structure, whose class is validated first if it is new.

    The parameters are not initialized. Each class is validated once per process, by a trial of these sizes without
    memory: W has the right shape, and depends on a parameter, if one is trained.

    Raises:
        PhmrunError: The sizes or options do not fit, or the class is faulty.
    """
    size = (out_features, in_features)
    if structure not in _TRIED:
        detached = False
        with torch.device("meta"), torch.inference_mode(False), torch.enable_grad():
            trial = structure(*size, **options)
            trial.reset_parameters(1.0)
            returned = due = f"a Tensor of shape {[*size]}"
            with suppress(NotImplementedError, RuntimeError):  # an operation that needs real numbers
                w = trial.materialize()
                returned = f"a Tensor of shape {[*w.shape]}" if isinstance(w, torch.Tensor) else f"{w!r:.40}"
                detached = returned == due and not w.requires_grad and any(p.requires_grad for p in trial.parameters())
        # Without this check, a wrong shape fails in the first matrix product with torch's message.
        if returned != due:
            raise class_error(structure, f"returns {returned} from materialize, where {due} is due")
        if detached:
            hint = "Compute it from the parameters without detach, .data and no_grad."
            raise class_error(structure, "returns a W from materialize that is not trained", hint)
        if not any(True for _ in trial.parameters()):
            raise class_error(structure, "has no parameters", "Make them nn.Parameter and attributes of self.")
        _TRIED.add(structure)
    return structure(*size, **options)


_TRIED: set[type] = set()
"""Classes that were validated in this process."""


def class_error(structure: type, fault: str, hint: str | None = None) -> PhmrunError:
    """Return an error about a faulty class, with the place of its source."""
    return PhmrunError(f"the structure {structure.__qualname__} {fault}", where=place_of(structure), hint=hint)
