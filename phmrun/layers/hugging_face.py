"""Converted models of transformers in Hugging Face folders.

Factors are in ``model.safetensors``, the recipe in ``config.json``.

:func:`phmrun.layers.convert` gives a converted model of transformers the recipe as its ``quantization_config``, and a
quantizer, transformers' hook for other weights. ``model.save_pretrained`` then writes the factors, tied ones once.
``from_pretrained`` of transformers builds the network, the quantizer converts it, and transformers loads the factors.

The quantizer is registered when a model is converted or :func:`from_pretrained` is called. Without it, transformers
would draw new weights after a warning. The file therefore holds one empty tensor with the name of a dense weight, whose
shape transformers refuses.
"""

import copy
import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import write_text
from phmrun.layers.conversion import attach_report, convert_layers
from phmrun.layers.factored_file import step_errors, step_options
from phmrun.layers.recipe import steps_of
from phmrun.layers.report import LISTENERS, ConvertedLayer, parameter_count
from phmrun.layers.structure import Structure, build_structure

METHOD = "phmrun"
"""Value of ``quant_method`` in ``config.json``."""
LOADER = "phmrun.layers.from_pretrained"
README = """# {name}

The layers of this model have structured weights (phmrun). Load it with phmrun, which returns a model of transformers:

```python
from transformers import {kind}
from phmrun.layers import from_pretrained

model = from_pretrained({kind}, "{name}")
```

`{kind}.from_pretrained` alone does not know the structures, and refuses the file.
"""


def save_pretrained(model: nn.Module, folder: str | Path, **options: Any) -> Path:
    """Write a converted model of transformers as a folder.

    Its ``save_pretrained`` writes the model; a README.md is added, or replaced. Return the folder.

    Args:
        model: Result of :func:`phmrun.layers.convert`.
        folder: Folder to write.
        **options: Arguments of transformers' method.

    Raises:
        PhmrunError: The model is not a converted one of transformers, or it updates frozen weights (``added``).
    """
    if getattr(model, "hf_quantizer", None) is None or not callable(getattr(model, "save_pretrained", None)):
        raise PhmrunError(
            f"this {type(model).__name__} is no converted model of transformers", hint="Use phmrun.layers.save."
        )
    cast(Any, model).save_pretrained(folder, **options)
    folder = Path(folder)
    write_text(folder / "README.md", README.format(name=folder.name, kind=type(model).__name__))
    return folder


def from_pretrained(kind: Any, folder: str | Path, **options: Any) -> Any:
    """Load a converted model of transformers, strictly.

    Return an instance of ``kind``, or for an Auto class of the class that it chooses.

    Args:
        kind: Class of transformers, such as ``AutoModelForCausalLM``.
        folder: Folder that ``save_pretrained`` wrote; it may come from an untrusted source.
        **options: Arguments of transformers' method.

    Raises:
        PhmrunError: (exit 3) The folder has no recipe, or its structure is unknown or does not fit. (exit 2) Weights
            are missing, unexpected or of another shape, or transformers is not installed.
    """
    register()
    from transformers import PretrainedConfig

    content, _ = PretrainedConfig.get_config_dict(str(folder))
    settings = content.get("quantization_config")
    if not isinstance(settings, dict) or settings.get("quant_method") != METHOD:
        hint = "Convert the model with phmrun.layers.convert before its save_pretrained."
        raise PhmrunError("config.json has no recipe of phmrun", where=str(folder), hint=hint, code=ExitCode.DATA)
    model, facts = kind.from_pretrained(folder, output_loading_info=True, **options)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if names := list(facts.get(key, ())):
            what = f"{len(names)} {key.replace('_', ' ')}, such as {names[0]}"
            raise PhmrunError(what, where=str(folder), hint=f"Load the class that was saved, not {kind.__name__}.")
    return model


def attach(model: Any, before: Sequence[ConvertedLayer] = ()) -> None:
    """Give a model of transformers the recipe and quantizer of its structures, in place.

    They are the attribute ``hf_quantizer`` and the ``quantization_config`` of its config. Its ``tie_weights`` then does
    nothing. A merged or folded model without structures loses them. Other models stay unchanged, and so do all if
    ``transformers`` was not imported.

    Args:
        model: Converted, merged or folded model.
        before: Layers that had a structure before it was merged or folded.
    """
    if not _is_pretrained(model):
        return
    _restore_conv1d(model, before)
    if any(isinstance(module, Structure) for module in model.modules()):
        quantizer, config = register()
        settings = config(steps=steps_of(model))
        model.config.quantization_config = settings
        model.hf_quantizer = quantizer(settings)
        _keep_ties(model)
    elif getattr(model, "hf_quantizer", None) is not None:
        del model.hf_quantizer, model.config.quantization_config
        del model.tie_weights, model.mark_tied_weights_as_initialized
        tables = [model.get_input_embeddings(), model.get_output_embeddings()]
        if None not in tables and tables[0].weight is not tables[1].weight:  # only the first has a padding row of zeros
            model.config.tie_word_embeddings = False
            for names in _tied_names(model):  # such as a bias: it would not be tied again when it is loaded
                for place, _, name in (name.rpartition(".") for name in names[1:]):
                    owner = model.get_submodule(place)
                    setattr(owner, name, copy.deepcopy(getattr(owner, name)))


def _restore_conv1d(model: nn.Module, layers: Sequence[ConvertedLayer]) -> None:
    """Replace plain linear maps that once were ``Conv1D`` of transformers by ``Conv1D``, in place."""
    from transformers.pytorch_utils import Conv1D

    weights: dict[int, nn.Parameter] = {}
    for layer in layers:
        linear = model.get_submodule(layer.name)
        if layer.kind != "Conv1D" or not isinstance(linear, nn.Linear):
            continue
        transposed = nn.Parameter(linear.weight.detach().t().contiguous(), linear.weight.requires_grad)
        with torch.device("meta"):  # draws no weights
            conv1d = Conv1D(linear.out_features, linear.in_features)
        conv1d.weight, conv1d.bias = weights.setdefault(id(linear.weight), transposed), linear.bias
        place, _, name = layer.name.rpartition(".")
        setattr(model.get_submodule(place), name, conv1d.train(linear.training))


def _is_pretrained(model: nn.Module) -> bool:
    """Return True for a model of transformers; the package is not imported."""
    if "transformers" not in sys.modules:
        return False
    from transformers import PreTrainedModel

    return isinstance(model, PreTrainedModel)


LISTENERS.append(attach)


@functools.cache
def register() -> tuple[type[Any], type[Any]]:
    """Register quantizer and configuration with transformers; return both classes, in this order.

    Only the first call registers.

    Raises:
        PhmrunError: transformers is not installed, or too old.
    """
    try:
        from transformers.quantizers import HfQuantizer
        from transformers.quantizers.auto import register_quantization_config, register_quantizer
        from transformers.utils.quantization_config import QuantizationConfigMixin
    except ImportError as error:
        hint = 'Run: pip install "phmrun[transformers]"'
        raise PhmrunError("the package 'transformers' is not installed, or too old", hint=hint) from error

    @register_quantization_config(METHOD)
    class Recipe(QuantizationConfigMixin):
        """Recipe of a conversion in ``config.json``."""

        def __init__(self, steps: list[dict[str, Any]], **_: Any) -> None:
            self.quant_method = METHOD
            self.load_with = LOADER
            self.steps = steps

    @register_quantizer(METHOD)
    class Quantizer(HfQuantizer):
        """transformers' hook: converts a network before its factors are loaded, and writes its factors."""

        is_trainable = True
        is_qat_trainable = True
        is_compileable = True

        def is_serializable(self, safe_serialization: Any = None) -> bool:
            """True: the factors are ordinary tensors."""
            return True

        def get_state_dict_and_metadata(self, model: Any, safe_serialization: bool = False) -> Any:
            """Return the factors, tied ones once, and the empty tensor that stops other loaders."""
            return _factors(model), {}

        def update_missing_keys(self, model: Any, missing_keys: list[str], prefix: str) -> list[str]:
            """Return the missing names without further names of tied tensors."""
            return _untied(model, missing_keys)

        def _process_model_before_weight_loading(self, model: Any, **_: Any) -> Any:
            steps = self.quantization_config.steps
            _convert(model, steps)
            guard = f"{steps[0]['places'][0]}.weight"
            ignored = model._keys_to_ignore_on_load_unexpected
            kind = set if isinstance(ignored, set) else list  # transformers 5, 4
            model._keys_to_ignore_on_load_unexpected = kind([*(ignored or ()), rf"(^|\.){re.escape(guard)}$"])
            self.tied = _tied_names(model)
            return model

        def _process_model_after_weight_loading(self, model: Any, **_: Any) -> Any:
            model.is_quantized = False  # the factors train like other parameters
            _tie(model, self.tied)
            for module in model.modules():
                if isinstance(module, Structure):
                    _fill_constants(module)
                    module.restore()
                    module.set_progress(1.0)
            return model

    return Quantizer, Recipe


def _factors(model: nn.Module) -> dict[str, Tensor]:
    """Return the state of a converted model by name.

    A tied tensor occurs once, under its first name. An additional empty one has the name of the first converted layer's
    dense weight.

    Raises:
        PhmrunError: A converted layer has no structure any more, or the model updates frozen weights.
    """
    structures = [module for module in model.modules() if isinstance(module, Structure)]
    if any(structure.updates(**structure.options) for structure in structures):
        hint = "Use phmrun.layers.save, which writes the updates, or phmrun.layers.merge before."
        raise PhmrunError("a folder of transformers cannot hold updates without the frozen weights", hint=hint)
    places = [place for step in steps_of(model) for place in step["places"]]
    names: dict[int, str] = {}
    state = {
        name: tensor.detach()
        for name, tensor in model.state_dict(keep_vars=True).items()
        if names.setdefault(id(tensor), name) == name
    }
    return {**state, f"{places[0]}.weight": torch.empty(0)}


def _tied_names(model: nn.Module) -> list[list[str]]:
    """Return the names of each parameter that has several, a list for each.

    Parameters with one name are left out.
    """
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [group for group in names.values() if len(group) > 1]


def _tie(model: nn.Module, groups: list[list[str]]) -> None:
    """Give all names of a group the same parameter, in place.

    It is the first that is not on the meta device, otherwise the first.
    """
    for group in groups:
        parameters = [model.get_parameter(name) for name in group]
        loaded = next((parameter for parameter in parameters if not parameter.is_meta), parameters[0])
        for name in group:
            place, _, attribute = name.rpartition(".")
            model.get_submodule(place)._parameters[attribute] = loaded


def _untied(model: nn.Module, missing: list[str]) -> list[str]:
    """Return those of the missing names that no loaded tensor has.

    A name is left out if its tensor has another name in the model that is not missing. Names that the model does not
    have stay.
    """
    tensors = model.state_dict(keep_vars=True)
    loaded = {id(tensor) for name, tensor in tensors.items() if name not in missing}
    return [name for name in missing if name not in tensors or id(tensors[name]) not in loaded]


def _convert(model: nn.Module, steps: list[dict[str, Any]]) -> None:
    """Convert a network on the meta device by the steps of a recipe, in place.

    Names of layers are those of the saved model. If the network lacks a name, it is looked up without the network's
    ``base_model_prefix``; if that fails, too, the layer is left out. The report is attached, and ``tie_weights`` then
    does nothing.

    Raises:
        PhmrunError: (exit 3) A structure or option is unknown, or does not fit a layer.
    """
    before = parameter_count(model)
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    cast(Any, model).tie_weights()  # transformers 5 does nothing here, and has the names instead
    _tie(model, [[first, other] for other, first in getattr(model, "all_tied_weights_keys", {}).items()])
    for step in steps:
        layers = dict(model.named_modules())
        with step_errors("config.json", step["structure"]):
            options = step_options(step["structure"], step["options"])
            places = [name if name in layers else name.removeprefix(prefix) for name in step["places"]]
            chosen = {layers[name]: name for name in places if name in layers}
            _, converted = convert_layers(model, chosen, step["structure"], options)
        attach_report(model, converted, before)
    _keep_ties(model)


def _keep_ties(model: Any) -> None:
    """Replace ``tie_weights``, because layers that are tied share their structure, in place."""
    state = model.state_dict(keep_vars=True)
    first = {id(tensor): name for name, tensor in reversed(state.items())}
    tied = frozenset(name for name, tensor in state.items() if first[id(tensor)] != name)
    model.tie_weights = _stay_tied
    model.mark_tied_weights_as_initialized = functools.partial(_forget, tied)  # called by transformers 5


def _stay_tied(*_: Any, **__: Any) -> None:
    """Do nothing."""


def _forget(tied: frozenset[str], loading: Any) -> None:
    """Remove the further names of tied tensors from the missing ones, which would be drawn, in place."""
    loading.missing_keys -= tied


def _fill_constants(structure: Structure) -> None:
    """Replace a structure's constants, which transformers has not loaded, by real ones, in place.

    They are the buffers that no state dict holds. A structure that is built anew from name, sizes and options gives
    them.
    """
    stored = structure.state_dict()
    constants = {name for name, _ in structure.named_buffers(recurse=False) if name not in stored}
    if constants:
        rebuilt = build_structure(structure.name, structure.out_features, structure.in_features, **structure.options)
        for name in constants:
            structure._buffers[name] = rebuilt._buffers[name]
