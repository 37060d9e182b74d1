"""Record a small Transformer of PHM+ and its search, from the cells of the released notebook.

python tests/reference/make_phm_plus.py GIT_DIRECTORY
"""

import copy
import json
import sys
import typing
import warnings

import torch
from recording import Source, checked_out, record
from torch import Tensor, nn

from phmrun.text.vocabulary import BOS, EOS, PAD

NOTEBOOK = "PHM_Transformer_Style_Transfer.ipynb"
SOURCE = Source(
    repository="https://github.com/demegire/Parameterization-of-Hypercomplex-Multiplications",
    commit="5f5fa45666f689160477ab3f31e7103b2f944a7b",
    license="MIT",
    files=("LICENSE", NOTEBOOK),
    changes="torch's TransformerEncoder and TransformerDecoder are replaced by the loops that they were in torch 1.8; "
    "token numbers of padding, start and end are ours",
)
CELLS = (34, 36, 38, 40, 42, 44, 47, 49, 51, 64)
N, HEADS, LAYERS, WIDTH, WORDS, INNER = 2, 2, 2, 8, 12, 16


class Stack(nn.Module):
    """Copies of a layer, one after the other."""

    def __init__(self, layer: nn.Module, num_layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(num_layers))


class Encoder(Stack):
    """``nn.TransformerEncoder`` of torch 1.8."""

    def forward(self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None) -> Tensor:
        """All layers."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask)
        return src


class Decoder(Stack):
    """``nn.TransformerDecoder`` of torch 1.8."""

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor, *masks: Tensor | None) -> Tensor:
        """All layers."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, *masks)
        return tgt


def namespace(notebook: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Names that the cells of the notebook define."""
    names: dict[str, typing.Any] = {**vars(torch.nn.functional), **vars(typing), **vars(nn)}
    names |= {"torch": torch, "nn": nn, "F": torch.nn.functional, "Tensor": Tensor, "math": __import__("math")}
    names |= {"copy": copy, "warnings": warnings, "init": nn.init, "constant_": nn.init.constant_}
    names |= {"Parameter": nn.Parameter, "xavier_uniform_": nn.init.xavier_uniform_, "device": torch.device("cpu")}
    names |= {"has_torch_function": lambda _: False, "TransformerEncoder": Encoder, "TransformerDecoder": Decoder}
    names |= {"PAD_IDX": PAD, "BOS_IDX": BOS, "EOS_IDX": EOS}
    for number in CELLS:
        exec("".join(notebook["cells"][number]["source"]), names)
    return names


def renamed(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their parameters under our names."""
    parts = {
        "transformer_encoder.layers": "encoder",
        "transformer_decoder.layers": "decoder",
        "multihead_attn.out_proj.bias": "cross.block.output.bias",
        "multihead_attn.out_proj": "cross.block.output.structure",
        "multihead_attn.in_proj_bias": "cross.block.project.0.bias",
        "multihead_attn": "cross.block.project.0.structure",
        "self_attn.out_proj.bias": "attention.block.output.bias",
        "self_attn.out_proj": "attention.block.output.structure",
        "self_attn.in_proj_bias": "attention.block.project.0.bias",
        "self_attn": "attention.block.project.0.structure",
        "linear1.bias": "feedforward.block.expand.bias",
        "linear1": "feedforward.block.expand.structure",
        "linear2.bias": "feedforward.block.contract.bias",
        "linear2": "feedforward.block.contract.structure",
        "generator.bias": "output.bias",
        "generator": "output.structure",
        "src_tok_emb.embedding": "source_embedding.structure",
        "tgt_tok_emb.embedding": "target_embedding.structure",
    }
    norms = {"encoder": ("attention", "feedforward"), "decoder": ("attention", "cross", "feedforward")}
    named = {}
    for name, value in values.items():
        for theirs, our in parts.items():
            name = name.replace(f"{theirs}.", f"{our}.") if not theirs.endswith("bias") else name.replace(theirs, our)
        for side, places in norms.items():
            for number, place in enumerate(places, start=1):
                if name.startswith(side):
                    name = name.replace(f".norm{number}.", f".{place}.norm.")
        named[name] = value.detach().clone()
    return named


def main(git_directory: str) -> None:
    """Logits, gradient, a step of AdamW, and the outputs of the search."""
    with checked_out(SOURCE, git_directory) as folder:
        names = namespace(json.loads((folder / NOTEBOOK).read_text()))
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(4)
    model = names["PHMTransformer"](N, HEADS, LAYERS, LAYERS, WIDTH, WORDS, WORDS, INNER)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    model.eval()
    source = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD]]).t()
    target = torch.tensor([[BOS, 6, 5, 9, EOS], [BOS, 10, EOS, PAD, PAD]]).t()
    masks = names["create_mask"](source, target[:-1])
    logits = model(source, target[:-1], masks[0], masks[1].double(), masks[2], masks[3], masks[2])
    numbers = {"source": source.t(), "target": target.t(), "logits": logits.transpose(0, 1)}
    numbers |= {f"before/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
    loss = nn.CrossEntropyLoss(ignore_index=PAD)(logits.flatten(0, 1), target[1:].flatten())
    loss.backward()
    numbers["loss"] = loss
    numbers |= {f"gradient/{k}": v for k, v in renamed({k: v.grad for k, v in model.named_parameters()}).items()}
    for number, line in enumerate(([5, 6, 7, EOS], [8, 9, EOS], [11, 4, 4, 6, 10, EOS])):
        tokens = torch.tensor([line]).t()
        mask = torch.zeros(len(line), len(line), dtype=torch.bool)
        actual = names["beam_search"](model, tokens, mask, len(line) + 6, BOS, beam_size=3, alpha=0.6)
        numbers |= {f"search/{number}/source": tokens.flatten(), f"search/{number}/output": actual.flatten()}
    torch.optim.AdamW(model.parameters(), lr=0.0001, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.05).step()
    numbers |= {f"after/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
    record("phm-plus", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
