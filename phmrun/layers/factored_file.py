"""Converted models on disk: one safetensors file with the factors, and in its metadata the recipe of the conversion.

The metadata entry ``phmrun`` is JSON::

    {"format": 1, "steps": [{"structure": "phm", "options": {"n": 4, …}, "places": ["encoder.0", …]}],
     "tied": {"output.structure.a": "table.structure.a"}}

A place is a layer of the factory's model, or a dense matrix in an LSTM that an earlier step has converted:
``lstm.cells.0.input.0``. ``"shapes": {"encoder.0": [rows, columns], …}`` are the sizes of each W, for readers other
than :func:`load`. The optional key ``"int8": {"encoder.0.structure.s": "encoder.0.structure.s.scale", …}`` names 8-bit
tensors and their scales: the product of both is the tensor. ``"int4"`` names tensors of 4 bits and their scales: two
numbers to a byte, the first in the lower half, less 8, times the scale of the 32 numbers. ``"repairs": {NAME: [up,
down]}`` names factors whose product is then added. Other metadata are the writer's.

A file of updates of frozen weights (structure ``added``) holds no frozen tensors. Its recipe has the further key
"frozen", their checksum: the factory's model must have the same.

The file holds numbers and names only; reading it executes nothing.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from phmrun.errors import ExitCode, PhmrunError, data_error, unknown
from phmrun.files import disk_errors, replacing
from phmrun.layers.conversion import attach_report, convert_layers, is_replaceable
from phmrun.layers.fitting import best_low_rank
from phmrun.layers.report import conversions, parameter_count
from phmrun.layers.structure import Structure

_LOG = logging.getLogger(__name__)
Model = TypeVar("Model", bound=nn.Module)
Precision = Literal["none", "bfloat16", "int8", "int8+8", "int4", "int4+8", "int4+16", "int4+32"]
"""Rounding of stored numbers: "none"; "bfloat16", all of them; "int8" and "int4", those of large tensors.

The number behind + is the rank of the factors that approximate the rounding errors of dense linear maps.
"""
SMALLEST = 1024
"""Numbers of the smallest tensor that is stored in 8 or 4 bits."""
GROUP = 32
"""Numbers of 4 bits that have a scale in common, and the least of 8 bits if the tensor has them below its first
dimension."""
KEY = "phmrun"
"""Metadata entry with the recipe."""


class Step(BaseModel):
    """Conversion of some layers to one structure."""

    structure: str
    options: dict[str, Any]
    places: list[str]


class Recipe(BaseModel):
    """Entry "phmrun" of a file's metadata; see :mod:`phmrun.layers.factored_file`."""

    format: Literal[1]
    steps: list[Step]
    tied: dict[str, str]
    frozen: str | None = None
    int8: dict[str, str] = {}
    int4: dict[str, str] = {}
    repairs: dict[str, tuple[str, str]] = {}


def steps_of(model: nn.Module) -> list[dict[str, Any]]:
    """Return the steps of a converted model's recipe.

    The keys of a step are "structure", "options" and "places", the names of its layers. Layers with the same structure
    and options are one step; steps are in the order of their first layer.

    Raises:
        PhmrunError: A converted layer has no structure any more.
    """
    steps: dict[str, dict[str, Any]] = {}
    modules = dict(model.named_modules())
    for layer in conversions(model):
        if not any(isinstance(part, Structure) for part in modules.get(layer.name, nn.Module()).modules()):
            hint = "Save the model that phmrun.layers.convert returned, not a folded copy."
            raise PhmrunError(f"layer {layer.name!r} was converted but has no structure now", hint=hint)
        step = {"structure": layer.structure, "options": dict(layer.options), "places": []}
        steps.setdefault(json.dumps(step, sort_keys=True), step)["places"].append(layer.name)
    return list(steps.values())


def read_recipe(metadata: Mapping[str, str] | None) -> Recipe:
    """Return the recipe in a file's metadata, after validation of its form.

    Raises:
        PhmrunError: There is no recipe, or it is damaged or of another format.
    """
    text = (metadata or {}).get(KEY)
    if text is None:
        raise PhmrunError("the file has no recipe", hint="Write it with phmrun.layers.save.")
    try:
        return Recipe.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise PhmrunError(f"the recipe is damaged: {where}: {first['msg']}, not {str(first['input'])[:60]}") from error


@contextmanager
def _of_file(path: Path) -> Iterator[None]:
    """Give the errors of a file that is damaged or does not fit its place and exit code 3."""
    from safetensors import SafetensorError  # slow to import

    try:
        yield
    except PhmrunError as error:
        raise PhmrunError(error.what, where=path, valid=error.valid, hint=error.hint, code=ExitCode.DATA) from error
    except (SafetensorError, OSError, RuntimeError, KeyError) as error:
        lost = isinstance(error, FileNotFoundError)
        what = "there is no such file" if lost else f"the file is damaged or does not fit: {error}"
        raise data_error(what, path) from error


def save(
    model: nn.Module,
    path: str | Path,
    *,
    precision: Precision = "none",
    moments: Mapping[str, Tensor] | None = None,
    facts: Mapping[str, str] | None = None,
) -> Path:
    """Write a converted model as one safetensors file.

    Return the path. The file holds its factors, other tensors and the recipe. Tied tensors are stored once. Parameters
    of training only (the dense matrix of ``guided``) are not stored, and with updates of frozen weights (``added``) no
    frozen parameters.

    Args:
        model: Result of :func:`phmrun.layers.convert`, or a module that holds such results.
        path: File to write; it is replaced as a whole.
        precision: "none": numbers keep their type. "bfloat16": all floating-point numbers. Otherwise see
            :func:`to_integers`; vectors and tensors with fewer than 1,024 numbers keep their type.
        moments: E[x xᵀ] of the inputs x of dense linear maps by name, for the factors of rounding errors; None: no map
            has such factors. A warning in the log reports if none gets them.
        facts: Further metadata of the file; None: none. The recipe replaces an entry "phmrun".

    Raises:
        PhmrunError: A converted layer has no structure any more, the precision is unknown, or the file cannot be
            written.
    """
    from safetensors import torch as safetensors  # slow to import

    if precision not in get_args(Precision):
        raise unknown("precision", precision, get_args(Precision), where="precision")
    path = Path(path)
    steps, modules = steps_of(model), dict(model.named_modules())
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    names: dict[int, str] = {}
    memory: set[int] = set()
    frozen = frozen_weights(model)
    skipped = _temporary(model) | frozen.keys()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if name in skipped:
            continue
        if id(tensor) in names:
            tied[name] = names[id(tensor)]
            continue
        names[id(tensor)] = name
        values = tensor.detach().cpu().contiguous()
        address = values.untyped_storage().data_ptr()
        tensors[name] = values.clone() if address in memory else values  # the format refuses shared memory
        memory.add(address)
    recipe: dict[str, Any] = {"format": 1, "steps": steps, "tied": tied, "shapes": _shapes(model)}
    if frozen:
        recipe["frozen"] = digest_of(frozen)
    if precision == "bfloat16":
        tensors = {name: value.bfloat16() if value.is_floating_point() else value for name, value in tensors.items()}
    elif precision != "none":
        tables = {id(part.weight) for part in model.modules() if isinstance(part, nn.Embedding)}
        apart = {names[table] for table in tables if table in names}
        maps = ((name, moment) for name, moment in (moments or {}).items() if isinstance(modules.get(name), nn.Linear))
        recipe |= to_integers(tensors, precision, apart, {f"{name}.weight": moment for name, moment in maps})
        if "+" in precision and "repairs" not in recipe:
            _LOG.warning("%s: the file has no dense linear maps, so none has factors of rounding errors", precision)
    content = safetensors.save(tensors, metadata={**(facts or {}), KEY: json.dumps(recipe, separators=(",", ":"))})
    with disk_errors(), replacing(path) as unfinished:
        unfinished.write_bytes(content)
    return path


def load(factory: Callable[[], Model], path: str | Path) -> Model:
    """Build the plain model, convert it by the recipe, and load the factors.

    Names and shapes must be equal. The model is on the factory's devices, with the types of the file; numbers of 8 bits
    become single precision. Parameters of training only start anew and have no effect: training counts as complete
    (:meth:`Structure.set_progress` with 1).

    Args:
        factory: Builds the model as it was before the conversion; called once, and its result is converted in place.
            For updates of frozen weights, with these weights.
        path: File written by :func:`save`; it may come from an untrusted source.

    Raises:
        PhmrunError: (exit 3) The file is missing or damaged, its structure is unknown, or it does not fit the model. Or
            it updates frozen weights that the factory's model does not have.
    """
    from safetensors import safe_open  # slow to import

    model = factory()
    with _of_file(Path(path)):
        with safe_open(path, framework="pt") as file:
            recipe = read_recipe(file.metadata())
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        for name, scale in recipe.int8.items():
            tensors[name] = tensors[name].float() * tensors.pop(scale)
        for name, scale in recipe.int4.items():
            tensors[name] = from_int4(tensors[name], tensors.pop(scale))
        for name, (up, down) in recipe.repairs.items():
            tensors[name] = tensors[name] + tensors.pop(up).float() @ tensors.pop(down).float()
        model = _converted(model, recipe)
        frozen = {name: value for name, value in frozen_weights(model).items() if name not in tensors}
        if recipe.frozen != (digest_of(frozen) if frozen else None):
            hint = "The factory must build the model with the weights that were frozen."
            raise PhmrunError("the factory's model has other frozen weights than the file updates", hint=hint)
        _fill(model, tensors, recipe.tied, _temporary(model) | frozen.keys())
        for module in model.modules():
            if isinstance(module, Structure):
                module.restore()
                module.set_progress(1.0)
    return model


def _fill(model: nn.Module, tensors: Mapping[str, Tensor], tied: Mapping[str, str], optional: set[str]) -> None:
    """Copy tensors by name into a model, in place, with their types; ``tied`` gives further names.

    Tensors named in ``optional`` may be missing.

    Raises:
        PhmrunError: Names, shapes or ties differ from the model's.
    """
    state = model.state_dict(keep_vars=True)
    owners: dict[int, str] = {}
    problems = [
        f"{name} and {owners[id(state[name])]} are one tensor in the model, two in the file"
        for name in tensors
        if name in state and owners.setdefault(id(state[name]), name) != name
    ]
    tensors = {**tensors, **{name: tensors[source] for name, source in tied.items()}}
    problems += [f"{name} is missing" for name in state if name not in tensors and name not in optional]
    problems += [f"{name} is not in the model" for name in tensors if name not in state]
    problems += [
        f"{name} is {list(tensors[name].shape)}, in the model {list(state[name].shape)}"
        for name in tensors
        if name in state and tensors[name].shape != state[name].shape
    ]
    if problems:
        what = "the file does not fit the model:\n  " + "\n  ".join(problems[:5])
        raise PhmrunError(what, hint="The factory must build the model as it was before the conversion.")
    for name, values in tensors.items():
        state[name].data = values.to(state[name].device, copy=True)  # not a view of the mapped file


def _shapes(model: nn.Module) -> dict[str, list[int]]:
    """Return rows and columns of W by the modules' names.

    Listed are modules with an attribute ``structure``, such as maps and tables, and converted matrices; a shared
    structure has several names.
    """
    converted = {layer.name for layer in conversions(model)}
    return {
        name.removesuffix(".structure"): [module.out_features, module.in_features]
        for name, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, Structure) and (name.endswith(".structure") or name in converted)
    }


def to_integers(
    tensors: dict[str, Tensor], precision: str, tables: Collection[str], moments: Mapping[str, Tensor]
) -> dict[str, dict[str, Any]]:
    """Replace large tensors by integers of 8 or 4 bits, in place.

    Their scales are added as ``NAME.scale``, and factors of their rounding errors as ``NAME.up`` and ``NAME.down`` in
    bfloat16. Vectors, integers and tensors with fewer than 1,024 numbers (``SMALLEST``) stay. Tables, and tensors whose
    last dimension is no multiple of 32, have 8 bits in any case.

    Args:
        tensors: Tensors by name.
        precision: "int8" or "int4", and "+" with the rank of the factors. They are the best ones for the outputs of the
            inputs in ``moments``: LQER (Zhang et al., ICML 2024) with whitened inputs.
        tables: Names of tables of vectors.
        moments: E[x xᵀ] of the inputs x of the maps that get factors, by the tensor's name.

    Returns:
        Entries "int8", "int4" and "repairs" of the recipe that are not empty.
    """
    kind, _, rank = precision.partition("+")
    entries: dict[str, dict[str, Any]] = {"int8": {}, "int4": {}, "repairs": {}}
    for name, values in list(tensors.items()):
        if not values.is_floating_point() or values.dim() < 2 or values.numel() < SMALLEST:
            continue
        small = kind == "int4" and name not in tables and values.shape[-1] % GROUP == 0
        whole, scale = to_int4(values) if small else to_int8(values)
        tensors[name], tensors[f"{name}.scale"] = whole, scale
        entries["int4" if small else "int8"][name] = f"{name}.scale"
        if rank and name in moments:
            missing = values.float() - (from_int4(whole, scale) if small else whole * scale)
            for part, factor in zip(("up", "down"), best_low_rank(missing, int(rank), moments[name]), strict=True):
                tensors[f"{name}.{part}"] = factor.bfloat16().contiguous()
            entries["repairs"][name] = [f"{name}.up", f"{name}.down"]
    return {key: entry for key, entry in entries.items() if entry}


def to_int8(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor as 8-bit integers and their scales in 32 bits, which broadcast to the integers.

    A scale belongs to the numbers of the last dimension. If these are fewer than 32 (``GROUP``), it also belongs to
    those of further trailing dimensions, but never of the first. Numbers are rounded to the nearest integer; the
    largest absolute value is 127 times its scale.
    """
    first = values.dim() - 1
    while first > 1 and values[(0,) * first].numel() < GROUP:
        first -= 1
    greatest = values.float().abs().amax(tuple(range(first, values.dim())), keepdim=True)
    scale = greatest.div(127).clamp(min=torch.finfo(torch.float32).tiny)
    return (values.float() / scale).round().to(torch.int8), scale


def to_int4(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor as 4-bit integers, two to a byte, and their scales in bfloat16.

    Shapes: ``[…, d] -> […, d/2], […, d/32]``. The number of largest absolute value of 32 is -8 times the scale.
    """
    groups = values.float().unflatten(-1, (-1, GROUP))
    largest = groups.gather(-1, groups.abs().argmax(-1, keepdim=True))
    scale = (largest / -8).bfloat16()
    whole = (groups / scale.float().where(scale != 0, 1.0)).round().clamp(-8, 7).add(8).to(torch.uint8).flatten(-2)
    return whole[..., ::2] | whole[..., 1::2] << 4, scale.squeeze(-1)


def from_int4(packed: Tensor, scale: Tensor) -> Tensor:
    """Return the tensor of :func:`to_int4` in single precision."""
    whole = torch.stack([packed & 15, packed >> 4], -1).flatten(-2).float() - 8
    return (whole.unflatten(-1, (-1, GROUP)) * scale.float().unsqueeze(-1)).flatten(-2)


def _converted(model: Model, recipe: Recipe) -> Model:
    """Convert the factory's model by a recipe, in place; return it with the report of the conversion.

    Raises:
        PhmrunError: A place, structure or option does not fit the model.
    """
    before = parameter_count(model)
    for step in recipe.steps:
        layers = dict(model.named_modules())
        for place in step.places:
            if place not in layers or not is_replaceable(layers[place]):
                raise PhmrunError(f"the factory's model has no layer {place!r} that can be converted")
        chosen = {layers[place]: place for place in step.places}
        model, converted = convert_layers(model, chosen, step.structure, step.options)
        attach_report(model, converted, before)
    return model


def _temporary(model: nn.Module) -> set[str]:
    """Return the names of parameters of training only."""
    return {
        f"{place}.{name}".lstrip(".")
        for place, part in model.named_modules(remove_duplicate=False)
        if isinstance(part, Structure)
        for name in part.temporary
    }


def frozen_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the frozen parameters outside updates by name; empty for a model without updates of its own weights."""
    structures = [part for part in model.modules() if isinstance(part, Structure)]
    updates = [structure for structure in structures if structure.updates(**structure.options)]
    inside = {id(parameter) for update in updates for parameter in update.parameters()}
    return {
        name: parameter
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if updates and id(parameter) not in inside and not parameter.requires_grad
    }


def digest_of(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of tensors by name, such as a state dict.

    Names, shapes, types and bits count, in their order.
    """
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype} ".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
