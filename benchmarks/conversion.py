"""Conversion of networks of transformers: share of block parameters converted, training, size, file, equality.

The networks have random weights and two small blocks. Run from a checkout::

    python -m benchmarks.conversion
    python -m benchmarks.conversion --structure low-rank --option rank=8
"""

import argparse
import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from phmrun.layers import conversion_report, convert, load, save

BUT = ("*.token_type_embeddings",)
"""Layer that 4 does not divide: BERT's two token types."""
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 256}
DTYPES = (torch.float32, torch.bfloat16)


class Architecture(NamedTuple):
    """Network of transformers.

    Args:
        build: Builds it with random weights.
        blocks: Part of the names of the modules inside its blocks.
        inputs: Arguments of ``forward``.
    """

    build: Callable[[], nn.Module]
    blocks: str
    inputs: dict[str, Tensor]


def architectures() -> dict[str, Architecture]:
    """Return GPT-2, BERT, Llama, T5, Qwen3 and ModernBERT with two small blocks each."""
    import transformers as hf

    tokens = {"input_ids": torch.arange(20).view(2, 10) + 3}
    gpt2 = hf.GPT2Config(vocab_size=256, n_positions=32, n_embd=64, n_layer=2, n_head=4)
    bert = hf.BertConfig(vocab_size=256, max_position_embeddings=32, **SIZES)
    llama = hf.LlamaConfig(vocab_size=256, max_position_embeddings=32, **SIZES)
    qwen3 = hf.Qwen3Config(vocab_size=256, head_dim=16, num_key_value_heads=2, tie_word_embeddings=True, **SIZES)
    special = {f"{name}_token_id": number for number, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}
    modernbert = hf.ModernBertConfig(vocab_size=256, **special, **SIZES)
    t5 = hf.T5Config(vocab_size=256, d_model=64, d_kv=16, d_ff=256, num_layers=2, num_heads=4)
    return {
        "GPT-2": Architecture(lambda: hf.GPT2LMHeadModel(gpt2), ".h.", tokens),
        "BERT": Architecture(lambda: hf.BertForMaskedLM(bert), ".layer.", tokens),
        "Llama": Architecture(lambda: hf.LlamaForCausalLM(llama), ".layers.", tokens),
        "T5": Architecture(
            lambda: hf.T5ForConditionalGeneration(t5), ".block.", {**tokens, "decoder_input_ids": tokens["input_ids"]}
        ),
        "Qwen3": Architecture(lambda: hf.Qwen3ForCausalLM(qwen3), ".layers.", tokens),
        "ModernBERT": Architecture(lambda: hf.ModernBertForMaskedLM(modernbert), ".layers.", tokens),
    }


def block_share(model: nn.Module, blocks: str) -> float:
    """Share of the parameters in the blocks of the plain model that belonged to layers with a structure now."""
    report = conversion_report(model)
    inside = sum(layer.before for layer in report.converted if blocks in layer.name)
    return inside / (inside + sum(layer.parameters for layer in report.left if blocks in layer.name))


def trains(model: nn.Module, architecture: Architecture, dtype: torch.dtype) -> bool:
    """True if a copy in ``dtype`` has finite logits and a finite gradient for every parameter in the blocks."""
    duplicate = copy.deepcopy(model).to(dtype)
    logits = duplicate(**architecture.inputs).logits
    logits.float().square().mean().backward()
    blocks = [value for name, value in duplicate.named_parameters() if architecture.blocks in name]
    gradients = [value.grad for value in blocks]
    return bool(logits.isfinite().all()) and all(grad is not None and bool(grad.isfinite().all()) for grad in gradients)


def measure(architecture: Architecture, structure: str, options: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the figures of one architecture."""
    torch.manual_seed(0)
    model = convert(architecture.build(), structure, but=BUT, **options).eval()
    path = save(model, folder / "model.safetensors")
    loaded = load(architecture.build, path).eval()
    with torch.no_grad():
        logits = [network(**architecture.inputs).logits for network in (model, loaded)]
    report = conversion_report(model)
    return {
        "converted": len(report.converted),
        "share": block_share(model, architecture.blocks),
        "left": sorted({layer.kind for layer in report.left}),
        "before": report.before,
        "after": report.after,
        "bytes": path.stat().st_size,
        "equal": torch.equal(*logits),
        "trains": [str(dtype).removeprefix("torch.") for dtype in DTYPES if trains(model, architecture, dtype)],
    }


def main() -> None:
    """Print the table of the documentation."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--structure", default="phm", help="name of the structure")
    options.add_argument("--option", action="append", default=[], metavar="NAME=NUMBER", help="option of the structure")
    args = options.parse_args()
    numbers = {name: int(value) for name, _, value in (option.partition("=") for option in args.option or ["n=4"])}
    print(
        "| network | layers converted | of the blocks' parameters | left | trains in | parameters | file, bytes "
        "| equal logits |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, architecture in architectures().items():
            row = measure(architecture, args.structure, numbers, Path(folder))
            size = f"{row['bytes']:,} ({row['bytes'] / row['after']:.2f} × parameters)"
            counts = f"{row['before']:,} → {row['after']:,}"
            equal = "yes" if row["equal"] else "no"
            left = ", ".join(row["left"])
            cells = (name, row["converted"], f"{row['share']:.1%}", left, ", ".join(row["trains"]), counts, size, equal)
            print(f"| {' | '.join(map(str, cells))} |")


if __name__ == "__main__":
    main()
