"""Conversion of ``torch.nn`` layers of a model to structures.

``folded`` is the inverse.
"""

import copy
import logging
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized

from phmrun.config.options import options_of
from phmrun.errors import PhmrunError, unknown
from phmrun.layers.adapters import freeze_base
from phmrun.layers.counterparts import Shared, counterpart, is_conv1d, replaced_matrices
from phmrun.layers.embedding import Embedding
from phmrun.layers.inference import replaced
from phmrun.layers.linear import Linear
from phmrun.layers.lstm import LSTM
from phmrun.layers.recurrence import StartedLSTM
from phmrun.layers.report import ATTRIBUTE, ConversionReport, ConvertedLayer, LeftLayer, parameter_count, trained_count
from phmrun.layers.structure import Structure
from phmrun.layers.structures.dense import Dense
from phmrun.layers.torch_attention import StructuredAttention
from phmrun.registry import STRUCTURES

_LOG = logging.getLogger(__name__)
Model = TypeVar("Model", bound=nn.Module)
KINDS = (nn.Linear, NonDynamicallyQuantizableLinear, nn.Embedding, nn.LSTM, nn.MultiheadAttention)
"""Layers that are converted; subclasses are not, because they may compute something else."""
STRUCTURED = (Linear, Embedding, LSTM, StructuredAttention, Structure)
CONVERTIBLE = "nn.Linear, nn.Embedding, nn.LSTM, nn.MultiheadAttention or Conv1D of transformers"


def convert(
    model: Model,
    structure: str,
    *,
    names: str | Iterable[str] = "*",
    but: str | Iterable[str] = (),
    weights: Literal["new", "nearest"] = "new",
    **options: Any,
) -> Model:
    """Return a copy of ``model`` whose layers have a structure.

    Converted are ``nn.Linear``, ``nn.Embedding``, ``nn.LSTM``, the matrices of ``nn.MultiheadAttention``, and
    transformers' ``Conv1D``. The joint map of Q, K and V is one matrix. Tied parameters stay tied. Each layer keeps its
    device, type, training mode and ``requires_grad``. Create the optimizer after the copy. A warning in the log reports
    the converted layers and those that were left; :func:`conversion_report` has the whole report.

    Args:
        model: Any module.
        structure: A registered name: "phm", "low-rank", ….
        names: Pattern or patterns of names in ``model.named_modules()``, such as "encoder.*"; case-sensitive. A pattern
            that matches nothing is ignored if another one matches.
        but: Pattern or patterns of layers to leave unchanged; those that match nothing are ignored.
        weights: "new": initialize the layers; "nearest": approximate the present weights (:meth:`Structure.fit`) and
            copy the biases. The structure ``added`` with ``base="frozen"`` always keeps the weights and biases, and
            freezes all parameters of the model but the updates.
        **options: Options of the structure, such as ``n=4``.

    Raises:
        PhmrunError: No layer is left to convert, or a pattern of ``names`` matches only layers that cannot be
            converted. Or a list of all layers that fail: a size does not fit, a setting has no counterpart, or a weight
            is tied to an unchanged layer.
    """
    if weights not in ("new", "nearest"):
        raise unknown("kind of weights", weights, ("new", "nearest"), where="weights")
    patterns = [(part,) if isinstance(part, str) else tuple(part) for part in (names, but)]
    before = parameter_count(model)
    duplicate = copy.deepcopy(model)
    chosen = _chosen(duplicate, *patterns)
    duplicate, converted = convert_layers(duplicate, chosen, structure, options, near=weights == "nearest")
    # A warning, because Python prints warnings even if the program has not set up logging.
    _LOG.warning("%s", attach_report(duplicate, converted, before, patterns[1]).line())
    return duplicate


def convert_layers(
    model: Model, chosen: Mapping[nn.Module, str], structure: str, options: Mapping[str, Any], *, near: bool = False
) -> tuple[Model, list[ConvertedLayer]]:
    """Convert layers of ``model`` in place; return it with their records.

    If the model itself is such a layer, another module is returned. With a structure that updates frozen weights
    (:meth:`Structure.updates`), freeze all other parameters. Layers with the same dense weight share one structure,
    except LSTMs and attention. On an error no module is replaced, but attention may have changed already, and biases
    may have new values.

    Args:
        model: Module to change.
        chosen: Layers to convert, with their names.
        structure: A registered name.
        options: Its options.
        near: True to approximate the present weights, False to draw new ones; updates of frozen weights keep them.

    Returns:
        The model, and a record of each layer with its parameters before and after, and all options with their defaults.
        ``freeze`` is left out if it is "none" and no parameter of the structure's constructor.

    Raises:
        PhmrunError: A list of all layers that cannot be converted, such as one whose weight is tied to a layer outside
            ``chosen``; one reason if it is that of all.
    """
    owners: dict[int, list[tuple[nn.Module, str]]] = {}  # modules and names of each parameter, by its id
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(id(parameter), []).append((module, f"{prefix}.{name}"))
    shared: Shared = {}
    layers: dict[nn.Module, nn.Module] = {}
    records = []
    problems: dict[str, PhmrunError] = {}
    settings = {**options_of(structure).defaults(), **options}
    if settings.get("freeze") == "none" and "freeze" not in STRUCTURES.get(structure).defaults():
        del settings["freeze"]
    updates = STRUCTURES.get(structure).updates(**options)
    for module, name in chosen.items():
        places = [place for parameter in replaced_matrices(module) for place in owners[id(parameter)]]
        outside = [place for owner, place in places if owner not in chosen or is_conv1d(owner) != is_conv1d(module)]
        if outside:
            problems[name] = PhmrunError(f"its weight is tied to {outside[0]}, which is not converted")
            continue
        kind, before = type(module).__name__, _own_parameters(module)
        try:
            layers[module] = counterpart(module, structure, shared, near or updates, dict(options))
        except PhmrunError as error:
            problems[name] = error
            continue
        records.append(ConvertedLayer(name, kind, structure, settings, before, _own_parameters(layers[module])))
    reasons = {error.what.partition(": ")[2] for error in problems.values()}  # without the sizes before them
    if len(reasons) == 1 < len(problems) == len(chosen):  # a mistake in an option
        raise next(iter(problems.values()))
    if problems:
        lines = "".join(f"\n  {name}: {error.what}" for name, error in problems.items())
        hint = "Other sizes or options, or leave them as they are: but=[…], or model.only=… of a run."
        raise PhmrunError(f"{len(problems)} of {len(chosen)} layers cannot be converted:{lines}", hint=hint)
    model = replaced(model, lambda module: layers.get(module, module))
    if updates:
        freeze_base(model)
    return model, records


def attach_report(
    model: nn.Module, converted: Iterable[ConvertedLayer], before: int, but: Iterable[str] = ()
) -> ConversionReport:
    """Build the report of a conversion and attach it.

    It is kept in the model's attributes and returned. Layers of earlier conversions come first in it. An earlier
    report's count of parameters before conversion stays.

    Args:
        model: Converted model.
        converted: Layers that were converted now.
        before: Parameters of the model before; ignored if there is an earlier report.
        but: Patterns of layers that the caller has excluded.
    """
    earlier = model.__dict__.get(ATTRIBUTE)
    records = [*(earlier.converted if earlier else ()), *converted]
    counts = earlier.before if earlier else before, parameter_count(model), trained_count(model)
    report = ConversionReport(records, _left(model, but), *counts)
    model.__dict__[ATTRIBUTE] = report
    return report


def is_supported(module: nn.Module) -> bool:
    """Return True if :func:`convert` can convert a layer.

    Its exact class, not a base class, must be in ``KINDS`` or be transformers' ``Conv1D``. Its weight must not be
    parametrized.
    """
    # Old weight normalization keeps the class; a parametrization of torch has a class of its own.
    weight = "in_proj_weight" if isinstance(module, nn.MultiheadAttention) else "weight"
    plain = isinstance(module, nn.LSTM) or weight in module._parameters
    return is_conv1d(module) or (type(module) in KINDS and plain)


def is_replaceable(module: nn.Module) -> bool:
    """Return True if :func:`convert_layers` can convert a layer.

    These are the layers of :func:`is_supported`, and of folded networks of phmrun: a dense matrix of a biaffine form or
    of an LSTM's gate, and an LSTM with learned first states.
    """
    return is_supported(module) or type(module) in (Dense, StartedLSTM)


def _own_parameters(module: nn.Module) -> int:
    """Return the number of parameters of a layer.

    For ``nn.MultiheadAttention`` they include its structured maps, but not its output map, which is a layer of its own.
    """
    if isinstance(module, nn.MultiheadAttention):
        maps = parameter_count(module.maps) if isinstance(module, StructuredAttention) else 0
        return maps + sum(parameter.numel() for parameter in module.parameters(recurse=False))
    return parameter_count(module)


def _chosen(model: nn.Module, names: tuple[str, ...], but: tuple[str, ...]) -> dict[nn.Module, str]:
    """Return the layers to convert, with their names, in the model's order.

    They are supported, match one of ``names`` and none of ``but``; patterns are case-sensitive. A module with several
    names has the first. A pattern of ``names`` that matches no module is ignored if a layer is left.

    Args:
        model: Model to search.
        names: Patterns of layers to convert.
        but: Patterns of layers to leave.

    Raises:
        PhmrunError: No layer is left.
    """
    layers = {module: name for name, module in model.named_modules() if is_supported(module)}
    chosen = {module: name for module, name in layers.items() if _matches(name, names) and not _matches(name, but)}
    if not chosen:
        what = f"no {CONVERTIBLE} of the model is called {' or '.join(names)}"
        raise PhmrunError(what, hint="Patterns of names: names=['encoder.*']; print(model) shows the names.")
    return chosen


def _left(model: nn.Module, but: Iterable[str]) -> list[LeftLayer]:
    """Return all modules with own parameters outside structured layers.

    Each has its name, class, reason, number of parameters, and True if one of these has two dimensions or more. The
    parameters of a parametrization count for its module.
    """
    inside = {part for module in model.modules() if isinstance(module, STRUCTURED) for part in _parts(module)}
    left = []
    for name, module in model.named_modules():
        parameters = list(module.parameters(recurse=is_parametrized(module)))
        if parameters and module not in inside and not isinstance(module, ParametrizationList):
            matrix = any(parameter.dim() > 1 for parameter in parameters)
            count = sum(parameter.numel() for parameter in parameters)
            left.append(LeftLayer(name, type(module).__name__, _reason(module, but, name, matrix), count, matrix))
    return left


def _parts(module: nn.Module) -> Iterable[nn.Module]:
    """Return the modules that make up a structured layer, itself included.

    The output map of attention is a layer of its own, and not among them.
    """
    return (module, *module.maps.modules()) if isinstance(module, StructuredAttention) else module.modules()


def _reason(module: nn.Module, but: Iterable[str], name: str, matrix: bool) -> str:
    """Return why a module is left as it is, for the report."""
    if is_supported(module):
        return "excluded by `but`" if _matches(name, but) else "not selected by `names`"
    return "not supported" if matrix else "vectors only"


def _matches(name: str, patterns: Iterable[str]) -> bool:
    """Return True if a name matches one of the patterns, case-sensitively."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
