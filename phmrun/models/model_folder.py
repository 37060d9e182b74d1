"""Folder of a Hugging Face model: its files, configuration, weights and tokenizer.

A folder holds ``config.json`` and ``model.safetensors``, or one ``.gguf`` file. Nothing of it is executed: pickled
weights and code of the folder's own are refused.
"""

import contextlib
import hashlib
import importlib
import io
import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import torch
from torch import nn

from phmrun.checksums import checksum_once, stamp_of
from phmrun.errors import PhmrunError, data_error
from phmrun.files import intact, is_name, read_text
from phmrun.registry import extra_package
from phmrun.text.tokenizer import TokenizerVocabulary, parse_tokenizer

LOG = logging.getLogger("phmrun.models")
DROPOUTS = ("dropout", "dropout_prob", "dropout_rate", "pdrop")
"""Ends of the names of dropouts in a configuration."""
ROLES = ("pad", "unk", "bos", "eos", "cls", "sep")
"""Roles of special tokens."""
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


def network_class(head: Head) -> Any:
    """Return transformers' class that builds or reads networks with a head.

    SciPy is hidden while the package's losses are imported: those of object detection take it, which costs every
    network 36 MB and half a second.
    """
    package = transformers()
    with mock.patch("transformers.utils.is_scipy_available", return_value=False):
        importlib.import_module("transformers.modeling_utils")
    return getattr(package, f"AutoModelFor{head}")


def weight_file(folder: Path) -> Path:
    """Return the file of a folder that says which weights are read: safetensors, its index, or GGUF.

    Raises:
        PhmrunError: (exit 3) The folder has no such file, or several of GGUF; or the index names other files than
            safetensors of the folder.
    """
    if (folder / "model.safetensors").is_file():
        return folder / "model.safetensors"
    if (index := folder / "model.safetensors.index.json").is_file():
        with intact("the index of the weights is", index):
            parts = {str(part) for part in json.loads(read_text(index))["weight_map"].values()}
        if odd := [part for part in parts if not (is_name(part) and part.endswith(".safetensors"))]:
            raise data_error(f"the part {odd[0]!r} is no safetensors file of this folder; others are not read", index)
        return index
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    what = "there is no model.safetensors and no single .gguf file; pickles, which can run code, are not read"
    hint = "Download the whole folder, or write it anew with model.save_pretrained(folder)."
    if not folder.is_dir():
        what, hint = "there is no such folder", "Models are not downloaded: name the folder of one, not a file of it."
    raise data_error(what, folder, hint)


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
            if "auto_map" in content and content.get("model_type") not in package.CONFIG_MAPPING:
                raise data_error("the model needs code of its own folder, which is never run", folder)
        settings = package.AutoConfig.from_pretrained(folder, trust_remote_code=False, **kind)
    if dropout is not None:
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
        raise data_error(f"transformers cannot read the folder: {message or type(error).__name__}", folder) from error


def read_model(folder: Path, settings: Any = None, head: Head = "CausalLM") -> nn.Module:
    """Read a network of transformers with its weights, in float32.

    A classifier or pooler that the folder lacks, or has for another number of classes, is drawn from torch's generator;
    the network's attribute ``drawn`` names its weights. A classifier of the same classes gets their order in
    ``settings``.

    Args:
        folder: Folder of the model; it may come from an untrusted source.
        settings: Its configuration, if the caller has changed it.
        head: What the network predicts.

    Raises:
        PhmrunError: (exit 3) The folder is damaged, or weights are missing, not finite, or have other sizes than it
            says.
    """
    weights = weight_file(folder)
    settings = read_settings(folder) if settings is None else settings
    extra: dict[str, Any] = {"gguf_file": weights.name} if weights.suffix == ".gguf" else {"use_safetensors": True}
    if head != "CausalLM":
        extra["ignore_mismatched_sizes"] = True
    with _readable(folder):
        model, facts = network_class(head).from_pretrained(
            folder, config=settings, output_loading_info=True, trust_remote_code=False, dtype=torch.float32, **extra
        )
    other = [key if isinstance(key, str) else key[0] for key in facts["mismatched_keys"]]  # 4.57 gives names alone
    absent = [*facts["missing_keys"], *other]
    if lost := [key for key in absent if not (is_classifier(model) and _is_new(model, key))]:
        raise data_error(f"{len(lost)} weights are missing or have other sizes, such as {lost[0]}", folder)
    if broken := next((name for name, weight in model.named_parameters() if not weight.isfinite().all()), None):
        raise data_error(f"the weight {broken} has values that are not finite", folder)
    if head == "CausalLM" and _reads_ahead(model.eval()):
        hint = 'Use the task nli or sva, or "is_decoder": true in its config.json.'
        raise data_error("the network reads the tokens that it should predict", folder, hint)
    labels = list(settings.id2label.values())
    former = settings if head == "CausalLM" else read_settings(folder)
    order = [] if head == "CausalLM" else class_order(former, labels)
    names = [str(name) for name in former.id2label.values()]
    if order and not absent and {*map(str.casefold, names)} != {*map(str.casefold, labels)}:
        LOG.warning("the classes of %s are %s; they are taken as %s", folder, ", ".join(names), ", ".join(labels))
    if order != sorted(order):
        for rows in [part for part in model.modules() if isinstance(part, nn.Linear)][-1].parameters():
            rows.data = rows.data[order]
    if weights.suffix == ".gguf":  # read as float32: the network trains and is written like any other
        model.is_quantized, model.hf_quantizer = False, None
        for name in ("quantization_config", "_pre_quantization_dtype"):
            vars(model.config).pop(name, None)
    model.drawn = absent
    return model.train()


def _is_new(model: Any, name: str) -> bool:
    """Return True for a weight of a classifier: outside the network that was trained before, or of its pooler."""
    inside, _, rest = name.partition(".")
    return inside != model.base_model_prefix or rest.startswith("pooler.")


@torch.no_grad()
def _reads_ahead(model: Any) -> bool:
    """Return True if the logits of a token depend on the next one, as in a BERT that is no decoder."""
    first, second = model(input_ids=torch.tensor([[0, 0], [0, 1]]), use_cache=False).logits[:, 0]
    return not torch.allclose(first, second, rtol=1e-4, atol=1e-4)


def is_classifier(model: Any) -> bool:
    """Return True for a network of transformers that predicts classes."""
    return str(type(model).__name__).endswith("ForSequenceClassification")


def class_order(settings: Any, labels: Iterable[str]) -> list[int]:
    """Return the number of each class in the configuration of a folder; 0, 1, 2 … if it names others."""
    names = [str(name).casefold() for _, name in sorted(settings.id2label.items())]
    wanted = [label.casefold() for label in labels]
    return [*map(names.index, wanted)] if sorted(names) == sorted(wanted) else [*range(len(wanted))]


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
            tokenizer = parse_tokenizer(read_text(path))
        roles = _roles_of(folder, tokenizer)
    elif (weights := weight_file(folder)).suffix != ".gguf":
        hint = "With the model's name: transformers.AutoTokenizer.from_pretrained(name).save_pretrained(folder)."
        raise data_error("there is no tokenizer.json", folder, hint)
    else:
        with _readable(folder):
            read = transformers().AutoTokenizer.from_pretrained(folder, gguf_file=weights.name, trust_remote_code=False)
        ids = {role: getattr(read, f"{role}_token_id", None) for role in ROLES}
        tokenizer, roles = read.backend_tokenizer, {role: index for role, index in ids.items() if index is not None}
    entries = tokenizer.get_vocab_size(with_added_tokens=True)
    if entries > size:
        what = f"the tokenizer has {entries:,} tokens, the model's embedding {size:,} rows"
        raise data_error(what, folder, "Take both from one model.")
    return TokenizerVocabulary(tokenizer, size=size, roles=roles)


def folder_checksum(folder: Path) -> str:
    """Return a SHA-256 of the files of a model's folder that decide its network, weights and tokens.

    Raises:
        PhmrunError: (exit 3) The folder has no weights that can be read.
    """
    weight_file(folder)
    names = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt", "*.safetensors*", "*.gguf")
    files = sorted({path for name in names for path in folder.glob(name) if path.is_file()})
    sums = [f"{path.name} {checksum_once(stamp_of(path))}" for path in files]
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
