"""Networks of Hugging Face's transformers, with structured maps: read from a folder, or a preset with fresh weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers.conversion import attach_report, convert_layers, is_supported
from phmrun.layers.inference import folded
from phmrun.layers.network import Structures, set_structure, structures_of
from phmrun.layers.report import ATTRIBUTE, parameter_count
from phmrun.layers.structure import build_weight
from phmrun.models.model_folder import Head, is_classifier, network_class, read_model, set_dropout, transformers
from phmrun.registry import STRUCTURES
from phmrun.text.vocabulary import BOS, EOS, PAD

_USUAL = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
FAMILIES: dict[str, tuple[str, ...]] = {
    "llama": _USUAL,
    "qwen3": _USUAL,
    "gpt2": ("n_embd", "n_inner", "n_layer", "n_head", "n_positions"),
    "bert": _USUAL,
}
"""Names that a kind of network has for its width, inner width, number of blocks, heads and positions."""
POSITIONS = 2048
OWN_FORMATS = "a network of transformers is read by others as --format transformers, or peft"


def fresh_settings(
    family: str, vocabulary: int, sizes: Sequence[int], *, dropout: float = 0.0, tie: bool = False
) -> Any:
    """Return the configuration of transformers of a network with fresh weights.

    Args:
        family: A name in :data:`FAMILIES`.
        vocabulary: Rows of the embedding.
        sizes: Width, inner width, number of blocks, and heads.
        dropout: Share of units and attention weights dropped, if the network has such dropout.
        tie: True to share the embedding with the output.

    Raises:
        PhmrunError: (exit 2) The heads do not divide the width.
    """
    width, _, _, heads = sizes
    even = 2 if family in ("llama", "qwen3") else 1  # rotary positions take the numbers of a head in pairs
    if width % (even * heads):
        fitting = ", ".join(str(number) for number in range(1, heads + 1) if width % (even * number) == 0)
        what = f"{heads} heads do not divide the width {width}{' evenly' if even == 2 else ''}"
        raise PhmrunError(what, where="model.heads", hint=f"Numbers up to it that do: {fitting}.")
    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    values = {**dict(zip(FAMILIES[family], (*sizes, POSITIONS), strict=True)), **ids, "tie_word_embeddings": tie}
    if family == "qwen3":
        values |= {"num_key_value_heads": heads, "head_dim": width // heads}
    settings = transformers().CONFIG_MAPPING[family](vocab_size=vocabulary, **values)
    set_dropout(settings, dropout)
    return settings


def build_model(settings: Any, head: Head = "CausalLM") -> nn.Module:
    """Build a network of transformers with fresh weights from torch's generator, in float32."""
    return network_class(head).from_config(settings, dtype=torch.float32).train()


def structured(model: Any, structures: Structures, only: str = "", *, near: bool) -> Any:
    """Give the maps of a network of transformers their structures, in place.

    ``layer`` are the maps of the blocks, ``embedding`` is the table of input tokens, ``output`` the map to tokens or
    classes. A tied output has the embedding's structure. With a structure that updates frozen matrices, everything else
    is frozen, except a classifier and weights that were drawn.

    Args:
        model: Network of transformers.
        structures: Structure and options by scope; dense matrices keep their values. A dense map in a block can get
            another structure later, as by `phmrun compress`.
        only: Ends of names of the blocks' maps that get the structure, with commas between; empty: all maps.
        near: True to start at the nearest structured matrices to the present ones, False to draw new ones
            with their standard deviation.

    Raises:
        PhmrunError: No map is called so, a scope has no map, or a structure does not fit maps, which are listed.
    """
    before, converted, new = parameter_count(model), [], getattr(model, "drawn", ())
    scopes = maps_by_scope(model)
    blocks = scopes["layer"]
    ends = [end.strip() for end in only.split(",") if end.strip()]
    for end in ends:
        if not any(f".{name}".endswith(f".{end}") for name in blocks.values()):
            kinds = sorted({name.rpartition(".")[2] for name in blocks.values()})
            raise PhmrunError(f"no map of the blocks is called {end!r}", where="model.only", valid=kinds)
    if ends:
        scopes["layer"] = {m: name for m, name in blocks.items() if any(f".{name}".endswith(f".{end}") for end in ends)}
    for scope in scopes:
        options = dict(structures.get(scope, {}))
        updates, chosen = _updates(options), scopes[scope]
        structure = options.pop("structure", "dense")
        if structure == "dense" and (scope != "layer" or not chosen):
            continue
        if not chosen:
            what = f"a network of {model.config.model_type} has no plain, untied matrix here for {structure!r}"
            raise PhmrunError(what, where=f"{scope}.structure", valid=("dense",))
        if updates and {f"{name}.weight" for name in chosen.values()} & set(new):
            raise PhmrunError("a new classifier is trained whole: leave output out", where=f"{scope}.structure")
        drawn = not (near or structure == "dense" or updates or next(model.parameters()).is_meta)
        deviations = {name: float(m.get_parameter("weight").detach().std()) for m, name in chosen.items() if drawn}
        _, records = convert_layers(model, chosen, structure, options, near=near or structure == "dense")
        converted += records
        for name, deviation in deviations.items():  # as the matrices that transformers has drawn
            model.get_submodule(f"{name}.structure").reset_parameters(deviation)
    if is_classifier(model):
        drawn_parts = [name.rpartition(".")[0] for name in new]
        for name in [*drawn_parts, *(name for name, scope in ends_of(model).items() if scope == "output")]:
            model.get_submodule(name).requires_grad_(True)
    if converted:
        attach_report(model, converted, before)
    return model


def ends_of(model: Any) -> dict[str, str]:
    """Return "embedding" or "output" by the name of a module: the table of input tokens, and the map to tokens.

    In a classifier, everything behind its network is "output".
    """
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    behind = {name for name, _ in model.named_children() if name != model.base_model_prefix}
    return {
        name: "embedding" if module is table else "output"
        for name, module in model.named_modules()
        if module in (table, head) or (is_classifier(model) and name in behind)
    }


def maps_by_scope(model: Any) -> dict[str, dict[nn.Module, str]]:
    """Return the maps of a network of transformers that can get a structure, with their names, by scope.

    "embedding" and "output" are those of :func:`ends_of`, but an output that shares the embedding's matrix is of
    "embedding"; other maps within its blocks are those of "layer", tables of positions belong to none.
    """
    ends = ends_of(model)
    scopes: dict[str, dict[nn.Module, str]] = {"layer": {}, "embedding": {}, "output": {}}
    for name, module in model.named_modules():
        if not is_supported(module):
            continue
        end = next((scope for outer, scope in ends.items() if f"{name}.".startswith(f"{outer}.")), "")
        if end:
            scopes[end][module] = name
        elif not isinstance(module, nn.Embedding) and any(part.isdigit() for part in name.split(".")):
            scopes["layer"][module] = name
    tables = {id(module.weight) for module in scopes["embedding"]}
    for module in [module for module in scopes["output"] if id(module.weight) in tables]:
        scopes["embedding"][module] = scopes["output"].pop(module)
    return scopes


class HuggingFaceNetwork(nn.Module):
    """Network of transformers with structured maps, within a network of a task.

    Its weights are fresh or those of a folder; structured matrices start at the nearest ones to the folder's.

    Args:
        settings: Configuration of transformers.
        structures: Structure and options by scope; see :func:`structured`.
        only: Ends of names of the blocks' maps that get the structure, with commas between; empty: all maps.
        folder: Folder whose weights are read; None: fresh weights.
        head: What the network predicts.

    Raises:
        PhmrunError: The folder cannot be read, or a structure does not fit.
    """

    def __init__(
        self, settings: Any, structures: Structures, only: str, folder: Path | None, head: Head = "CausalLM"
    ) -> None:
        super().__init__()
        self.settings, self.head, self.folder = settings, head, folder
        self.width = int(settings.hidden_size)
        self.structures, self.only = structures, only
        # Frozen matrices are in no checkpoint, so they are read whenever the network is built.
        self.has_frozen = folder is not None and any(map(_updates, structures.values()))
        meta = torch.get_default_device().type == "meta"
        self.model = self._built(folder if self.has_frozen and not meta else None)
        self.scopes = {f"model.{name}": scope for name, scope in ends_of(self.model).items()}
        self.recipes = {name: (part.name, part.options) for name, part in structures_of(self.model).items()}
        longest = [getattr(settings, name, None) for name in ("max_position_embeddings", "n_positions")]
        if not any(longest):
            what = f"a network of {settings.model_type} names no longest sequence"
            raise PhmrunError(what, where="model.path", hint='Add "max_position_embeddings" to its config.json.')
        # RoBERTa and its kin number positions from behind the padding row.
        tables = (part for name, part in self.model.named_modules() if name.endswith("position_embeddings"))
        paddings = [part.padding_idx for part in tables if getattr(part, "padding_idx", None) is not None]
        self.positions = int(next(filter(None, longest))) - max(paddings, default=-1) - 1

    def read_start(self) -> None:
        """Read the weights of the folder in place, before a run's first step; without a folder, nothing is done.

        Maps that have got another structure since (a run's ``maps``) are fitted to the folder's matrices.
        """
        if self.folder is None or self.has_frozen:
            return
        others = {
            name: part
            for name, part in structures_of(self.model).items()
            if (part.name, part.options) != self.recipes.get(name) and ".structure." not in name
        }
        read = self._built(self.folder)
        if others:
            plain = structures_of(structured(read_model(self.folder, self.settings, self.head), {}, near=True))
        for name, structure in others.items():
            structure.fit(build_weight(plain[name]).detach())
            set_structure(read, name, structure)
        self.model.load_state_dict(read.state_dict())

    def expose(self, scope: str) -> None:
        """Turn the plain matrices of "embedding" or "output" into dense structures, in place, for others to replace."""
        self.model.get_input_embeddings().padding_idx = None
        convert_layers(self.model, maps_by_scope(self.model)[scope], "dense", {}, near=True)

    def unstructured(self) -> Self:
        """Return a folded copy that does not remember what was converted, so that its weights are saved as they are."""
        copy = folded(self)
        copy.model.__dict__.pop(ATTRIBUTE, None)
        return copy

    def _built(self, folder: Path | None) -> Any:
        """Return a network with structured maps; ``folder``: with its weights, None: with fresh ones."""
        model: Any = read_model(folder, self.settings, self.head) if folder else build_model(self.settings, self.head)
        if self.folder and self.structures.get("embedding", {}).get("structure", "dense") != "dense":
            model.get_input_embeddings().padding_idx = None  # its row has values, and may be of a mark that is read
        return structured(model, self.structures, self.only, near=folder is not None)


def _updates(layer: Mapping[str, Any]) -> bool:
    """Return True if a layer trains updates of frozen matrices."""
    options = dict(layer)
    return STRUCTURES.get(options.pop("structure", "dense")).updates(**options)
