"""Converted models on disk: one safetensors file with the factors, and in its metadata the recipe of the conversion.

The metadata entry ``phmrun`` is JSON::

    {"format": 1, "steps": [{"structure": "phm", "options": {"n": 4, …}, "places": ["encoder.0", …]}],
     "tied": {"output.structure.a": "table.structure.a"}}

A place is a layer of the factory's model, or a dense matrix in an LSTM that an earlier step has converted:
``lstm.cells.0.input.0``. ``"shapes": {"encoder.0": [rows, columns], …}`` are the sizes of each W, for readers other
than :func:`load`. The optional key ``"int8": {"encoder.0.structure.s": "encoder.0.structure.s.scale", …}`` names 8-bit
tensors and their scales: the product of both is the tensor. Other metadata are the writer's.

A file of updates of frozen weights (structure ``added``) holds no frozen tensors. Its recipe has the further key
``"base": {"names": […], "sha256": …}``: the tensors that the factory's model must have, and their checksum.

The file holds numbers and names only; reading it executes nothing.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from phmrun.config.options import checked_options, options_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import disk_errors, replacing
from phmrun.layers.conversion import attach_report, convert_layers, is_replaceable
from phmrun.layers.gate_maps import GateMapping
from phmrun.layers.recurrence import StartedLSTM
from phmrun.layers.report import conversions, parameter_count
from phmrun.layers.structure import Application, Structure
from phmrun.registry import STRUCTURES

Model = TypeVar("Model", bound=nn.Module)
Precision = Literal["none", "bfloat16", "int8"]
"""Rounding of stored numbers: "none"; "bfloat16", all of them; "int8", those of large tensors."""
SMALLEST = 1024
"""Numbers of the smallest tensor that is stored in 8 bits."""
ARGUMENTS = {"application": get_args(Application), "maps": get_args(GateMapping), "coupled": (True, False)}
"""Arguments of layers that a recipe's step may have beside its structure's options, with their values."""
GROUP = 32
"""Least numbers that have a scale in common, if the tensor has them below its first dimension."""
KEY = "phmrun"
"""Metadata entry with the recipe."""
FORMAT = 1
"""Version of the recipe."""


class Step(BaseModel):
    """Conversion of some layers to one structure."""

    structure: str
    options: dict[str, Any]
    places: list[str]


class Base(BaseModel):
    """Frozen weights that a file of updates does not hold."""

    names: list[str]
    sha256: str


class Recipe(BaseModel):
    """Entry "phmrun" of a file's metadata; see :mod:`phmrun.layers.factored_file`."""

    format: Literal[1]
    steps: list[Step]
    tied: dict[str, str]
    base: Base | None = None
    int8: dict[str, str] = {}


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


def read_recipe(path: Path, metadata: Mapping[str, str] | None) -> Recipe:
    """Return the recipe in a file's metadata, after validation of its form.

    Raises:
        PhmrunError: (exit 3) There is no recipe, or it is damaged or of another format.
    """
    text = (metadata or {}).get(KEY)
    if text is None:
        raise fault(path, "the file has no recipe", hint="Write it with phmrun.layers.save.")
    try:
        return Recipe.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise fault(path, f"the recipe is damaged: {where}: {first['msg']}, not {str(first['input'])[:60]}") from error


def fault(path: Path, what: str, hint: str | None = None) -> PhmrunError:
    """Return an error (exit 3) about the file."""
    return PhmrunError(what, where=str(path), hint=hint, code=ExitCode.DATA)


def save(
    model: nn.Module, path: str | Path, *, precision: Precision = "none", facts: Mapping[str, str] | None = None
) -> Path:
    """Write a converted model as one safetensors file.

    Return the path. The file holds its factors, other tensors and the recipe. Tied tensors are stored once. Parameters
    of training only (the dense matrix of ``guided``) are not stored, and with updates of frozen weights (``added``) no
    frozen parameters.

    Args:
        model: Result of :func:`phmrun.layers.convert`, or a module that holds such results.
        path: File to write; it is replaced as a whole.
        precision: "none": numbers keep their type. "bfloat16": all floating-point numbers. "int8": see :func:`to_int8`;
            vectors and tensors with fewer than 1,024 numbers keep their type.
        facts: Further metadata of the file; None: none. The recipe replaces an entry "phmrun".

    Raises:
        PhmrunError: A converted layer has no structure any more, or the model's state is not all tensors.
        PhmrunError: The file cannot be written.
    """
    from safetensors import torch as safetensors  # slow to import

    path = Path(path)
    steps = steps_of(model)
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    names: dict[int, str] = {}
    memory: set[int] = set()
    base = _base(model)
    skipped = _temporary(model) | set(base)
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not isinstance(tensor, Tensor):
            raise PhmrunError(f"the state {name!r} is a {type(tensor).__name__}, not a tensor, and cannot be saved")
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
    recipe: dict[str, Any] = {"format": FORMAT, "steps": steps, "tied": tied, "shapes": _shapes(model)}
    if base:
        recipe["base"] = {"names": list(base), "sha256": _digest(base)}
    if precision == "int8":
        recipe["int8"] = to_int8(tensors)
    elif precision == "bfloat16":
        tensors = {name: value.bfloat16() if value.is_floating_point() else value for name, value in tensors.items()}
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
        factory: Builds the model as it was before the conversion; called once. For updates of frozen weights, with
            these weights.
        path: File written by :func:`save`; it may come from an untrusted source.

    Raises:
        PhmrunError: (exit 3) The file is missing or damaged, its structure is unknown, or it does not fit the model. Or
            it updates frozen weights that the factory's model does not have.
    """
    from safetensors import SafetensorError, safe_open  # slow to import

    path = Path(path)
    if not path.is_file():
        raise fault(path, "no such file")
    plain = factory()
    try:
        with safe_open(path, framework="pt") as file:
            recipe = read_recipe(path, file.metadata())
            scales = recipe.int8
            names = [name for name in file.keys() if name not in scales.values()]  # noqa: SIM118
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}
            model = _built(plain, recipe, path, shapes)
            state = model.state_dict(keep_vars=True)
            base = recipe.base
            optional = _temporary(model) | set(base.names if base else ())
            _check_shapes(path, state, shapes, _aliases(path, recipe, shapes), optional)
            if base and _digest({name: state.get(name) for name in base.names}) != base.sha256:
                hint = "The factory must build the model with the weights that were frozen."
                raise fault(path, "the factory's model has other frozen weights than the file updates", hint)
            for name in shapes:
                values = file.get_tensor(name)
                if name in scales:
                    values = values.float() * file.get_tensor(scales[name])
                if values.is_floating_point() != state[name].is_floating_point():
                    raise fault(path, f"{name} is {values.dtype}, in the model {state[name].dtype}")
                state[name].data = values.to(state[name].device, copy=True)  # not a view of the mapped file
            for name, source in recipe.tied.items():
                if state[name] is not state[source]:  # tied by the converted model, but not by the factory's
                    state[name].data = state[source].data.clone()
    except (SafetensorError, OSError, RuntimeError) as error:
        raise fault(path, f"the file is damaged or does not fit: {error}") from error
    for module in model.modules():
        if isinstance(module, Structure):
            try:
                module.restore()
            except PhmrunError as error:
                raise fault(path, error.what, error.hint) from error
            if module.temporary:
                module.set_progress(1.0)
    return model


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


def to_int8(tensors: dict[str, Tensor]) -> dict[str, str]:
    """Replace large tensors by 8-bit integers, in place.

    Their scales are added as ``NAME.scale`` in 32 bits, and broadcast to the integers. Vectors, integers and tensors
    with fewer than 1,024 numbers (``SMALLEST``) stay. A scale belongs to the numbers of the last dimension. If these
    are fewer than 32 (``GROUP``), it also belongs to those of further trailing dimensions, but never of the first.
    Numbers are rounded to the nearest integer; the largest absolute value is 127 times its scale.

    Returns:
        Names of the scales, by tensor.
    """
    scales = {}
    for name, values in list(tensors.items()):
        if not values.is_floating_point() or values.dim() < 2 or values.numel() < SMALLEST:
            continue
        first = values.dim() - 1
        while first > 1 and values[(0,) * first].numel() < GROUP:
            first -= 1
        greatest = values.float().abs().amax(tuple(range(first, values.dim())), keepdim=True)
        scale = greatest.div(127).clamp(min=torch.finfo(torch.float32).tiny)
        tensors[name] = (values.float() / scale).round().to(torch.int8)
        scales[name] = f"{name}.scale"
        tensors[scales[name]] = scale
    return scales


def _built(model: Model, recipe: Recipe, path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """Convert the factory's model by a recipe, in place; return it.

    The sizes of each step's layers are checked before memory is allocated. The report of the conversion is kept with
    the model.

    Raises:
        PhmrunError: (exit 3) A place, structure or option does not fit the model.
    """
    before = parameter_count(model)
    stored = sum(torch.Size(shape).numel() for shape in shapes.values())
    for step in recipe.steps:
        layers = dict(model.named_modules())
        with step_errors(str(path), step.structure):
            options = step_options(step.structure, step.options)
            for place in step.places:
                if place not in layers or not is_replaceable(layers[place]):
                    raise fault(path, f"the factory's model has no layer {place!r} that can be converted")
                _check_memory(path, layers[place], place, step.structure, options, stored)
            chosen = {layers[place]: place for place in step.places}
            model, converted = convert_layers(model, chosen, step.structure, options)
        attach_report(model, converted, before)
    return model


@contextmanager
def step_errors(where: str, structure: str) -> Iterator[None]:
    """Give the errors of a recipe's step their exit code, 3, and the place of the file."""
    try:
        yield
    except PhmrunError as error:
        if error.code == ExitCode.DATA:
            raise
        hint = None if structure in STRUCTURES else "Import the plug-in that defines this structure first."
        raise PhmrunError(error.what, where=where, valid=error.valid, hint=hint, code=ExitCode.DATA) from error


def _check_memory(
    path: Path, layer: nn.Module, place: str, structure: str, options: Mapping[str, Any], stored: int
) -> None:
    """Check that a layer's structure would not have more numbers than the file.

    The layer's first parameter of two dimensions counts: of an LSTM, one gate of it. A layer without one passes, such
    as a convolution.

    Raises:
        PhmrunError: (exit 3) It would have more.
    """
    cls = STRUCTURES.get(structure)
    layer = layer.lstm if isinstance(layer, StartedLSTM) else layer
    options = {name: value for name, value in options.items() if name in cls.defaults()}
    matrices = [parameter.shape for parameter in layer.parameters(recurse=False) if parameter.dim() == 2]
    if matrices:
        rows, columns = matrices[0]
        kept = cls.count(rows // 4 if isinstance(layer, nn.LSTM) else rows, columns, **options)
        if kept > stored:
            raise fault(path, f"layer {place!r} would have {kept:,} parameters, the file has {stored:,} numbers")


def step_options(structure: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a recipe's step in their types.

    Arguments of ``Linear`` (``application``) and ``LSTM`` (``maps``, ``coupled``) are kept if valid; otherwise they
    count as unknown options.

    Raises:
        PhmrunError: The structure or an option is unknown, or a value is invalid.
    """
    chosen = {name: options[name] for name, valid in ARGUMENTS.items() if options.get(name) in valid}
    others = {name: options[name] for name in options if name not in chosen}
    return checked_options(f"layer {structure!r}", options_of(structure), others) | chosen


def _aliases(path: Path, recipe: Recipe, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of tied tensors, by their further names.

    Raises:
        PhmrunError: (exit 3) A tensor is tied to one that the file lacks, or is in the file itself.
    """
    for name, source in recipe.tied.items():
        if source not in shapes or name in shapes:
            raise fault(path, f"the recipe is damaged: {name!r} is tied to {source!r}, which the file does not hold")
    return {name: shapes[source] for name, source in recipe.tied.items()}


def _check_shapes(
    path: Path,
    state: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    aliases: Mapping[str, tuple[int, ...]],
    optional: set[str],
) -> None:
    """Check that names and shapes of model and file are equal.

    Two tensors of the file must not be one tensor in the model.

    Args:
        path: File, for messages.
        state: State of the model.
        shapes: Shapes of the file's tensors.
        aliases: Shapes of tied tensors.
        optional: Names that the file may lack.

    Raises:
        PhmrunError: (exit 3) They differ; the first five differences are listed.
    """
    tensors: dict[int, str] = {}
    problems = [
        f"{name} and {tensors[id(state[name])]} are one tensor in the model, two in the file"
        for name in shapes
        if name in state and tensors.setdefault(id(state[name]), name) != name
    ]
    shapes = {**shapes, **aliases}
    problems += [f"{name} is missing" for name in state if name not in shapes and name not in optional]
    problems += [f"{name} is not in the model" for name in shapes if name not in state]
    problems += [
        f"{name} is {list(shape)}, in the model {list(state[name].shape)}"
        for name, shape in shapes.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    if problems:
        more = f"\n  and {len(problems) - 5} more" if len(problems) > 5 else ""
        hint = "The factory must build the model as it was before the conversion."
        raise fault(path, "the file does not fit the model:\n  " + "\n  ".join(problems[:5]) + more, hint=hint)


def _base(model: nn.Module) -> dict[str, Tensor]:
    """Return the frozen parameters outside of updates (structure ``added``), by name.

    Frozen weights inside an update are left out. Empty if the model has no updates.
    """
    structures = [module for module in model.modules() if isinstance(module, Structure)]
    updates = [structure for structure in structures if structure.updates(**structure.options)]
    inside = {id(parameter) for update in updates for parameter in update.parameters()}
    return {
        name: parameter
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if updates and id(parameter) not in inside and not parameter.requires_grad
    }


def _digest(tensors: Mapping[str, Tensor | None]) -> str:
    """Return a SHA-256 of names, types, shapes and bits, in hexadecimal.

    The order of the mapping counts. None stands for a missing tensor.
    """
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {None if tensor is None else (tensor.dtype, tuple(tensor.shape))}\n".encode())
        if tensor is not None:
            digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _temporary(model: nn.Module) -> set[str]:
    """Return the state names of parameters that structures use in training only."""
    return {
        f"{prefix}.{name}".lstrip(".")
        for prefix, module in model.named_modules(remove_duplicate=False)
        if isinstance(module, Structure)
        for name, _ in module.named_parameters(remove_duplicate=False)
        if name in module.temporary
    }
