"""Networks of Hugging Face's transformers, with structured maps: read from a folder, or a preset with fresh weights.

A folder holds ``config.json`` and ``model.safetensors``, or one ``.gguf`` file. Nothing of it is executed: pickled
weights and code of the folder's own are refused.
"""

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import nn

from phmrun.checksums import checksum_once, stamp_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import intact, read_text
from phmrun.layers.conversion import attach_report, convert_layers, is_supported
from phmrun.layers.inference import folded
from phmrun.layers.network import Structures, set_structure, structures_of
from phmrun.layers.report import ATTRIBUTE, parameter_count
from phmrun.layers.structure import build_weight
from phmrun.registry import STRUCTURES, extra_package
from phmrun.text.tokenizer import TokenizerVocabulary, tokenizers
from phmrun.text.vocabulary import BOS, EOS, PAD

_USUAL = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
FAMILIES: dict[str, tuple[str, ...]] = {
    "llama": _USUAL,
    "qwen3": _USUAL,
    "gpt2": ("n_embd", "n_inner", "n_layer", "n_head", "n_positions"),
    "bert": _USUAL,
}
"""Names that a kind of network has for its width, inner width, number of blocks, heads and positions."""
DROPOUTS = ("dropout", "dropout_prob", "dropout_rate", "pdrop")
"""Ends of the names of dropouts in a configuration."""
POSITIONS = 2048
ROLES = ("pad", "unk", "bos", "eos", "cls", "sep")
"""Roles of special tokens."""
OWN_FORMATS = "a network of transformers is read by others as --format transformers, or peft"
Head = Literal["CausalLM", "SequenceClassification"]
"""What a network predicts, as transformers calls it: the next token, or a class of the whole input."""


def transformers() -> Any:
    """Return the package transformers, with its progress bars and advice switched off.

    Raises:
        PhmrunError: (exit 2) It is not installed.
    """
    package = extra_package("transformers", "transformers")
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return package


def weight_file(folder: Path) -> Path:
    """Return the file of a folder that says which weights are read: safetensors, its index, or GGUF.

    Raises:
        PhmrunError: (exit 3) The folder has no such file, or several of GGUF.
    """
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if (folder / name).is_file():
            return folder / name
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    what = "there is no model.safetensors and no single .gguf file; pickles, which can run code, are not read"
    hint = "Download the whole folder, or write it anew with model.save_pretrained(folder)."
    raise PhmrunError(what, where=str(folder), hint=hint, code=ExitCode.DATA)


def folder_files(folder: Path) -> list[Path]:
    """Return the files of a folder that decide the network, its weights and its tokens, sorted by name.

    Raises:
        PhmrunError: (exit 3) The folder has no weights that can be read.
    """
    weight_file(folder)
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "*.safetensors*", "*.gguf")
    return sorted({path for name in names for path in folder.glob(name) if path.is_file()})


def set_dropout(settings: Any, share: float) -> None:
    """Set all dropouts of a configuration of transformers, that of attention weights included, in place."""
    for name, value in settings.to_dict().items():
        if name.endswith(DROPOUTS) and type(value) in (int, float):
            setattr(settings, name, share)


def read_settings(folder: Path, dropout: float | None = None) -> Any:
    """Return the configuration of transformers that a folder holds.

    Args:
        folder: Folder of the model.
        dropout: Share of units and attention weights dropped; None: the folder's.

    Raises:
        PhmrunError: (exit 3) It is missing, damaged, or needs code of the folder's own.
    """
    weights, package = weight_file(folder), transformers()
    kind = {"gguf_file": weights.name} if weights.suffix == ".gguf" else {}
    with _readable(folder):
        if not kind:
            with intact("the model's settings are", folder / "config.json"):
                content = json.loads(read_text(folder / "config.json"))
                if not isinstance(content, dict):
                    raise ValueError("no object")
            if "auto_map" in content and content.get("model_type") not in package.CONFIG_MAPPING:
                what = "the model needs code of its own folder, which is never run"
                raise PhmrunError(what, where=str(folder), code=ExitCode.DATA)
        settings = package.AutoConfig.from_pretrained(folder, trust_remote_code=False, **kind)
    if dropout is not None:
        set_dropout(settings, dropout)
    return settings


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
    if width % heads:
        fitting = ", ".join(str(number) for number in range(1, heads + 1) if width % number == 0)
        what = f"{heads} heads do not divide the width {width}"
        raise PhmrunError(what, where="model.heads", hint=f"Numbers up to it that do: {fitting}.")
    ids = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS}
    kind = transformers().CONFIG_MAPPING[family]
    values = {**dict(zip(FAMILIES[family], (*sizes, POSITIONS), strict=True)), **ids, "tie_word_embeddings": tie}
    if family == "qwen3":
        values |= {"num_key_value_heads": heads, "head_dim": width // heads}
    settings = kind(vocab_size=vocabulary, **values)
    set_dropout(settings, dropout)
    return settings


@contextlib.contextmanager
def _readable(folder: Path) -> Iterator[None]:
    """Turn the errors of a folder's reader into one of phmrun, and keep its progress bars from standard error.

    Raises:
        PhmrunError: (exit 3) transformers or safetensors cannot read the folder.
    """
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    except PhmrunError:
        raise
    except Exception as error:
        message = str(error).strip().split("\n")[0]
        what = f"transformers cannot read the folder: {message or type(error).__name__}"
        raise PhmrunError(what, where=str(folder), code=ExitCode.DATA) from error


def read_model(folder: Path, settings: Any = None, head: Head = "CausalLM") -> nn.Module:
    """Read a network of transformers with its weights, in float32.

    A classifier or pooler that the folder lacks, or has for another number of classes, is drawn from torch's generator;
    the network's attribute ``drawn`` names its weights.

    Args:
        folder: Folder of the model; it may come from an untrusted source.
        settings: Its configuration, if the caller has changed it.
        head: What the network predicts.

    Raises:
        PhmrunError: (exit 3) The folder is damaged, or weights are missing or have other sizes than it says.
    """
    weights, package = weight_file(folder), transformers()
    settings = read_settings(folder) if settings is None else settings
    extra: dict[str, Any] = {"gguf_file": weights.name} if weights.suffix == ".gguf" else {"use_safetensors": True}
    if head != "CausalLM":
        extra["ignore_mismatched_sizes"] = True
    with _readable(folder):
        model, facts = getattr(package, f"AutoModelFor{head}").from_pretrained(
            folder, config=settings, output_loading_info=True, trust_remote_code=False, dtype=torch.float32, **extra
        )
    absent = [*facts["missing_keys"], *(key for key, *_ in facts["mismatched_keys"])]
    if lost := [key for key in absent if not (is_classifier(model) and _is_new(model, key))]:
        what = f"{len(lost)} weights are missing or have other sizes, such as {lost[0]}"
        raise PhmrunError(what, where=str(folder), code=ExitCode.DATA)
    if weights.suffix == ".gguf":  # read as float32: the network trains and is written like any other
        model.is_quantized, model.hf_quantizer = False, None
        for name in ("quantization_config", "_pre_quantization_dtype"):
            if hasattr(model.config, name):
                delattr(model.config, name)
    model.drawn = absent
    built: nn.Module = model.train()
    return built


def _is_new(model: Any, name: str) -> bool:
    """Return True for a weight of a classifier: outside the network that was trained before, or of its pooler."""
    inside, _, rest = name.partition(".")
    return inside != model.base_model_prefix or rest.startswith("pooler.")


def build_model(settings: Any, head: Head = "CausalLM") -> nn.Module:
    """Build a network of transformers with fresh weights from torch's generator, in float32."""
    built: nn.Module = getattr(transformers(), f"AutoModelFor{head}").from_config(settings, dtype=torch.float32)
    return built.train()


def structured(model: nn.Module, structures: Structures, only: str = "", *, near: bool) -> nn.Module:
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
        PhmrunError: No map is called so, or a structure does not fit maps, which are listed.
    """
    before, converted = parameter_count(model), []
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
        structure = options.pop("structure", "dense")
        chosen = _with_tied(scope, scopes)
        if not chosen or (structure == "dense" and scope != "layer"):
            continue
        drawn = not (near or structure == "dense" or _updates(structures[scope]) or next(model.parameters()).is_meta)
        deviations = {name: float(m.get_parameter("weight").detach().std()) for m, name in chosen.items() if drawn}
        _, records = convert_layers(model, chosen, structure, options, near=near or structure == "dense")
        converted += records
        for name, deviation in deviations.items():  # as the matrices that transformers has drawn
            model.get_submodule(f"{name}.structure").reset_parameters(deviation)  # type: ignore[operator]
    if is_classifier(model):
        absent = [name.rpartition(".")[0] for name in getattr(model, "drawn", ())]
        for name in [*absent, *(name for name, scope in ends_of(model).items() if scope == "output")]:
            model.get_submodule(name).requires_grad_(True)
    if converted:
        attach_report(model, converted, before)
    return model


def _with_tied(scope: str, scopes: Mapping[str, dict[nn.Module, str]]) -> dict[nn.Module, str]:
    """Return the maps of a scope; with an embedding, an output that shares its matrix."""
    weights = {id(module.weight) for module in scopes[scope]} if scope == "embedding" else set()
    return {**scopes[scope], **{m: name for m, name in scopes["output"].items() if id(m.weight) in weights}}


def is_classifier(model: Any) -> bool:
    """Return True for a network of transformers that predicts classes."""
    return str(type(model).__name__).endswith("ForSequenceClassification")


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

    "embedding" and "output" are those of :func:`ends_of`; other maps within its blocks are those of "layer", tables of
    positions belong to none.
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
        self.model: Any = self._built(folder if self.has_frozen and not meta else None)
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
        convert_layers(self.model, _with_tied(scope, maps_by_scope(self.model)), "dense", {}, near=True)

    def unstructured(self) -> Self:
        """Return a folded copy that does not remember what was converted, so that its weights are saved as they are."""
        copy = folded(self)
        copy.model.__dict__.pop(ATTRIBUTE, None)
        return copy

    def _built(self, folder: Path | None) -> nn.Module:
        """Return a network with structured maps; ``folder``: with its weights, None: with fresh ones."""
        model = read_model(folder, self.settings, self.head) if folder else build_model(self.settings, self.head)
        return structured(model, self.structures, self.only, near=folder is not None)


def _updates(layer: Mapping[str, Any]) -> bool:
    """Return True if a layer trains updates of frozen matrices."""
    options = dict(layer)
    updates: bool = STRUCTURES.get(options.pop("structure", "dense")).updates(**options)
    return updates


def read_tokenizer(folder: Path) -> tuple[Any, dict[str, int]]:
    """Return the tokenizer of a folder's GGUF file, and the ids of its special tokens by role.

    Raises:
        PhmrunError: (exit 3) The file has no tokenizer that transformers reads.
    """
    weights, package = weight_file(folder), transformers()
    if weights.suffix != ".gguf":
        raise PhmrunError("there is no tokenizer.json", where=str(folder), code=ExitCode.DATA)
    with _readable(folder):
        read = package.AutoTokenizer.from_pretrained(folder, gguf_file=weights.name, trust_remote_code=False)
    ids = {role: getattr(read, f"{role}_token_id", None) for role in ROLES}
    return read.backend_tokenizer, {role: index for role, index in ids.items() if index is not None}


def folder_tokenizer(folder: Path, size: int) -> TokenizerVocabulary:
    """Read the tokenizer of a model's folder: ``tokenizer.json``, else that of its GGUF file.

    Args:
        folder: Folder of the model; it may come from an untrusted source.
        size: Rows of the model's embedding.

    Raises:
        PhmrunError: (exit 3) There is no tokenizer, it is damaged, or has more tokens than the embedding has rows.
    """
    path = folder / "tokenizer.json"
    if path.is_file():
        with intact("the tokenizer is", path):
            try:
                tokenizer = tokenizers().Tokenizer.from_str(read_text(path))
            except Exception as error:  # the library raises Exception itself
                raise ValueError(str(error)) from error
        roles = _roles_of(folder, tokenizer)
    else:
        tokenizer, roles = read_tokenizer(folder)
    entries = tokenizer.get_vocab_size(with_added_tokens=True)
    if entries > size:
        what = f"the tokenizer has {entries:,} tokens, the model's embedding {size:,} rows"
        raise PhmrunError(what, where=str(folder), hint="Take both from one model.", code=ExitCode.DATA)
    return TokenizerVocabulary(tokenizer, size=size, roles=roles)


def folder_checksum(folder: Path) -> str:
    """Return a SHA-256 of the files of a model's folder that decide its weights and tokens.

    Raises:
        PhmrunError: (exit 3) The folder has no weights that can be read.
    """
    sums = [f"{path.name} {checksum_once(stamp_of(path))}" for path in folder_files(folder)]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _roles_of(folder: Path, tokenizer: Any) -> dict[str, int]:
    """Return the ids of special tokens by role, from ``tokenizer_config.json``; empty without the file."""
    path = folder / "tokenizer_config.json"
    if not path.is_file():
        return {}
    with intact("the tokenizer's settings are", path):
        content = json.loads(read_text(path))
        names = {role: content.get(f"{role}_token") for role in ROLES}
    texts = {role: name.get("content") if isinstance(name, dict) else name for role, name in names.items()}
    ids = {role: tokenizer.token_to_id(text) for role, text in texts.items() if isinstance(text, str)}
    return {role: index for role, index in ids.items() if index is not None}
