"""Folders of Hugging Face's transformers and peft, written from a network with structured maps.

A folder of transformers has dense matrices, and is loaded without phmrun. A folder of peft has the updates of frozen
matrices alone, each as the product of two factors: those of a low-rank update as they are, of any other structure by
truncated singular value decomposition.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from phmrun.errors import PhmrunError
from phmrun.files import read_text, write_json, write_text
from phmrun.layers import folded
from phmrun.layers.adapters import merge
from phmrun.layers.linear import Linear
from phmrun.layers.structures.added import Added
from phmrun.layers.structures.low_rank import LowRank
from phmrun.models.model_folder import class_order, is_classifier, read_settings, weight_file
from phmrun.text.tokenizer import TokenizerVocabulary

CLOSE = 1e-3
"""Relative error of an update that is written as a product of two factors."""
OF_USE = ("chat_template", "mask_token", "model_max_length", "padding_side", "truncation_side")
"""Settings of a tokenizer that concern its use, not its tokens."""
CARD = """---
library_name: {library}
tags: [phmrun]
---
# {name}

{what} It was trained by phmrun as the run `{run}` ({layer}).

```python
from transformers import {loader}, AutoTokenizer
{code}
tokenizer = AutoTokenizer.from_pretrained("{name}")
```
"""


@torch.inference_mode()
def write_transformers(network: Any, folder: Path, *, name: str, facts: Mapping[str, str]) -> float:
    """Write a network of transformers with dense matrices; return the largest difference of its logits when read again.

    It is relative to the largest logit. Updates are added to their matrices, other structures are multiplied out.

    Args:
        network: Network with structured maps; it is switched to evaluation.
        folder: New or empty folder.
        name: Name of the folder in the model card.
        facts: "run" and "layer" for the model card.
    """
    folded(merge(network)).eval().save_pretrained(folder)
    _add_former_names(folder / "config.json")
    for weights in folder.glob("*.safetensors"):  # safetensors 0.8 writes for the owner alone, whatever the umask
        weights.chmod((folder / "config.json").stat().st_mode)
    kind = type(network).__name__
    code = f'model = {kind}.from_pretrained("{name}")'
    what = "This model has dense matrices: transformers loads it as it is."
    page = CARD.format(library="transformers", name=name, what=what, loader=kind, code=code, **facts)
    write_text(folder / "README.md", page)
    read = type(network).from_pretrained(folder).eval()
    places = getattr(network.config, "max_position_embeddings", None) or 18
    length = max(1, min(16, places - 2))  # RoBERTa's positions begin at 2
    tokens = torch.randint(network.config.vocab_size, (2, length), generator=torch.Generator().manual_seed(1))
    expected, logits = (model(input_ids=tokens).logits for model in (network.eval(), read))
    return float((expected - logits).abs().max() / expected.abs().max())


def _add_former_names(path: Path) -> None:
    """Add the names that transformers 4 reads for settings of rotary positions to a ``config.json``.

    Transformers 5 writes ``rope_parameters`` alone, which transformers 4 ignores: it would take its defaults.
    """
    settings = json.loads(read_text(path))
    rotary = settings.get("rope_parameters") or {}
    usual = rotary.get("full_attention", rotary)
    settings |= {name: usual[name] for name in ("rope_theta", "partial_rotary_factor") if name in usual}
    if usual.get("rope_type", "default") != "default":
        settings["rope_scaling"] = {name: value for name, value in usual.items() if name != "rope_theta"}
    if usual is not rotary:  # other settings for windows, as in ModernBERT and Gemma 3
        local = rotary["sliding_attention"]["rope_theta"]
        settings |= {"global_rope_theta": usual["rope_theta"], "local_rope_theta": local, "rope_local_base_freq": local}
    write_json(path, settings)


def write_tokenizer(
    vocabulary: Any, folder: Path, base: Path | None, *, padding: int | None = None, has_kinds: bool = False
) -> None:
    """Write a tokenizer beside a model; a vocabulary of words has none.

    Args:
        vocabulary: Vocabulary of the run.
        folder: Folder of the model.
        base: Folder of the model that was trained further: its settings of use are kept, such as the template of chats.
        padding: Token that the model takes for padding, if the vocabulary names none.
        has_kinds: True if the model reads which sentence a token is of (``token_type_ids``).
    """
    if not isinstance(vocabulary, TokenizerVocabulary):
        return
    (folder / vocabulary.model_file).write_bytes(vocabulary.content())
    roles = dict(vocabulary.roles)
    if padding is not None and 0 <= padding < len(vocabulary.tokens):  # some models name -1
        roles.setdefault("pad", padding)
    marks = {f"{role}_token": vocabulary.tokens[index] for role, index in roles.items()}
    names = ["input_ids", *(["token_type_ids"] if has_kinds else []), "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names, **marks}
    if base and (base / "tokenizer_config.json").is_file():
        former = json.loads(read_text(base / "tokenizer_config.json"))
        settings |= {key: former[key] for key in OF_USE if key in former}
    if base and (base / "chat_template.jinja").is_file():
        shutil.copyfile(base / "chat_template.jinja", folder / "chat_template.jinja")
    write_json(folder / "tokenizer_config.json", settings)


@torch.no_grad()
def _factors(update: Added) -> tuple[Tensor, Tensor, float]:
    """Return an update s·Ŵ as ``up [k, r]`` and ``down [r, d]``, of the smallest rank with an error up to ``CLOSE``.

    The third is this error: the Frobenius norm of what the product lacks, relative to that of the update.
    """
    inside = update.inside
    if isinstance(inside, LowRank):
        return update.scale * inside.u.detach(), inside.v.detach(), 0.0
    left, values, right = torch.linalg.svd(update.scale * inside.materialize().double(), full_matrices=False)
    squares = values.square().cpu()
    whole = float(squares.sum())  # 0 for an update without a step
    lost = ((whole - squares.cumsum(0)).clamp(min=0) / max(whole, 1e-300)).sqrt()  # by rank, from 1 on
    kept = min(int((lost > CLOSE).sum()) + 1, len(values))
    root = values[:kept].sqrt()
    return (left[:, :kept] * root).float(), (root[:, None] * right[:kept]).float(), float(lost[kept - 1])


def write_peft(network: Any, folder: Path, *, base: Path, name: str, facts: Mapping[str, str]) -> float:
    """Write the updates of a network, and a classifier, as an adapter folder of peft.

    Return the largest relative error of an update.

    Args:
        network: Network of transformers with updates.
        folder: New or empty folder.
        base: Folder of the model without updates; the classes get its order, if it has the same ones.
        name: Name of the folder in the model card.
        facts: "run" and "layer" for the model card.

    Raises:
        PhmrunError: (exit 2) The network has no update, or other trained weights.
    """
    maps = [(place, part.structure) for place, part in network.named_modules() if isinstance(part, Linear)]
    updates = {place: _factors(structure) for place, structure in maps if isinstance(structure, Added)}
    if not updates:
        hint = "Train with --layer added, or write the whole model with --format transformers."
        raise PhmrunError("the model has no updates of frozen matrices", where="--format", hint=hint)
    kind = type(network).__name__
    tensors: dict[str, Tensor] = {}
    for place, (up, down, _) in updates.items():
        tensors[f"base_model.model.{place}.lora_A.weight"] = down.contiguous()
        tensors[f"base_model.model.{place}.lora_B.weight"] = up.contiguous()
    parts = {name.partition(".")[0] for name, _ in network.named_parameters()} - {network.base_model_prefix}
    head = sorted(parts) if is_classifier(network) else []
    trained = [place for place, weight in network.named_parameters() if weight.requires_grad]
    pooler = f"{network.base_model_prefix}.pooler"  # trained if the folder has none
    head += [pooler] if any(place.startswith(f"{pooler}.") for place in trained) else []
    kept = tuple(f"{part}." for part in (*updates, *head))
    if rest := [place for place in trained if not place.startswith(kept)]:
        what = f"{rest[0]} is trained, too; an adapter of peft holds updates of linear maps alone"
        raise PhmrunError(what, where="--format", hint="Write the whole model with --format transformers.")
    labels = list(network.config.id2label.values())
    order = class_order(read_settings(base), labels) if head else []
    rows = [order.index(number) for number in range(len(order))]
    classifier = [part for part in network.modules() if isinstance(part, nn.Linear | Linear)][-1]
    for place, weight in network.named_parameters():
        if place.startswith(tuple(f"{part}." for part in head)):
            in_order = weight[rows] if any(weight is row for row in classifier.parameters()) else weight
            tensors[f"base_model.model.{place}"] = in_order.detach().contiguous()
    ranks = {place: len(down) for place, (_, down, _) in updates.items()}
    usual = max(ranks.values())
    settings = {
        "peft_type": "LORA",
        "task_type": "SEQ_CLS" if head else "CAUSAL_LM",
        "modules_to_save": head or None,
        "base_model_name_or_path": str(base),
        "r": usual,
        "lora_alpha": usual,
        "bias": "none",
        "target_modules": sorted(ranks),
        "rank_pattern": {place: rank for place, rank in ranks.items() if rank != usual},
        "alpha_pattern": {place: rank for place, rank in ranks.items() if rank != usual},
    }
    write_json(folder / "adapter_config.json", settings)
    (folder / "adapter_model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    others = f", id2label={dict(enumerate(labels[row] for row in rows))}, ignore_mismatched_sizes=True" if head else ""
    others += f', gguf_file="{file.name}"' if (file := weight_file(base)).suffix == ".gguf" else ""
    model = f'{kind}.from_pretrained("{base}"{others})'
    code = f'from peft import PeftModel\nmodel = PeftModel.from_pretrained({model}, "{name}")'
    what = f"These are updates of `{base}` in peft's format."
    page = CARD.format(library="peft", name=name, what=what, loader=kind, code=code, **facts)
    write_text(folder / "README.md", page)
    return max(error for *_, error in updates.values())
