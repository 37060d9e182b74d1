"""Record a small Transformer-XL of kimiyoung/transformer-xl.

python tests/reference/make_transformer_xl.py GIT_DIRECTORY
"""

import itertools
import sys
from pathlib import Path

import torch
from recording import Source, checked_out, record
from torch import Tensor

MODEL, SOFTMAX = "pytorch/mem_transformer.py", "pytorch/utils/proj_adaptive_softmax.py"
SOURCE = Source(
    repository="https://github.com/kimiyoung/transformer-xl",
    commit="44781ed21dbaec88b280f74d9ae2877f52b492a5",
    license="Apache-2.0",
    files=("LICENSE", MODEL, SOFTMAX, "pytorch/utils/log_uniform_sampler.py"),
    changes="masks are bool instead of byte; scores stay float64; torch.version.cuda is set",
)
SIZES = {"n_layer": 2, "n_head": 2, "d_model": 8, "d_head": 5, "d_inner": 10, "dropout": 0.0, "dropatt": 0.0}
CUTOFFS, WORDS, LENGTH, MEMORY, BATCH = [10, 20], 30, 4, 6, 2


def renamed(values: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their parameters under our names; the first tail cluster is their last cluster vector."""
    numbers = {}
    for key, value in values.items():
        if key.startswith("layers."):
            _, layer, rest = key.split(".", 2)
            for theirs, ours in {
                "dec_attn.qkv_net.weight": "attention.project.structure.matrix",
                "dec_attn.r_net.weight": "attention.distance.structure.matrix",
                "dec_attn.o_net.weight": "attention.output.structure.matrix",
                "dec_attn.layer_norm": "attention_norm",
                "pos_ff.layer_norm": "feedforward_norm",
                "pos_ff.CoreNet.0.weight": "feedforward.expand.structure.matrix",
                "pos_ff.CoreNet.0.bias": "feedforward.expand.bias",
                "pos_ff.CoreNet.3.weight": "feedforward.contract.structure.matrix",
                "pos_ff.CoreNet.3.bias": "feedforward.contract.bias",
            }.items():
                rest = rest.replace(theirs, ours)
            if "r_w_bias" not in rest and "r_r_bias" not in rest:  # shared by all layers
                numbers[f"context.{layer}.{rest}"] = value
    numbers["context_bias.u"], numbers["context_bias.v"] = values["r_w_bias"], values["r_r_bias"]
    bounds = [0, *CUTOFFS, WORDS]
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        numbers[f"embedding.tables.{number}.structure.matrix"] = values["word_emb.emb_layers.0.weight"][start:end]
        numbers[f"output.tables.{number}.bias"] = values["crit.out_layers.0.bias"][start:end]
    numbers["output.cluster_weight"] = values["crit.cluster_weight"].flip(0)
    numbers["output.cluster_bias"] = values["crit.cluster_bias"].flip(0)
    return {name: value.detach().clone() for name, value in numbers.items()}


def main(git_directory: str) -> None:
    """Losses of three segments under four ways to read, gradients and one step of Adam."""
    with checked_out(SOURCE, git_directory) as folder:
        sys.path.insert(0, str(Path(folder) / "pytorch"))
        sys.path.insert(0, str(Path(folder) / "pytorch" / "utils"))
        path = folder / MODEL
        path.write_text(path.read_text().replace(".byte()", ".bool()").replace("attn_score.float()", "attn_score"))
        torch.version.cuda = "11.8"  # type: ignore[assignment]
        torch.set_default_dtype(torch.float64)
        from mem_transformer import MemTransformerLM  # type: ignore[import-not-found]

        torch.manual_seed(1)
        options = {
            "tgt_len": LENGTH,
            "ext_len": 0,
            "mem_len": MEMORY,
            "cutoffs": CUTOFFS,
            "tie_projs": [False, True, True],
        }
        model = MemTransformerLM(WORDS, **SIZES, **options)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        tokens = torch.randint(WORDS, (3 * LENGTH + 1, BATCH))
        numbers: dict[str, Tensor] = {"tokens": tokens.t().contiguous()}
        numbers |= {f"before/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
        for clamp in (-1, 3):
            for same in (False, True):
                model.clamp_len, model.same_length, memory, losses = clamp, same, (), []
                for start in range(0, 3 * LENGTH, LENGTH):
                    end = start + LENGTH
                    loss, *memory = model(tokens[start:end], tokens[start + 1 : end + 1], *memory)
                    losses.append(loss.sum())
                numbers[f"losses/clamp={clamp},same={same}"] = torch.stack(losses)
        model.clamp_len, model.same_length = -1, False
        optimizer = torch.optim.Adam(model.parameters(), lr=0.00025)  # train.py:296
        memory = ()
        for start in range(0, 3 * LENGTH, LENGTH):
            end = start + LENGTH
            loss, *memory = model(tokens[start:end], tokens[start + 1 : end + 1], *memory)
        loss.mean().backward()
        gradients = {name: value.grad for name, value in model.named_parameters()}
        numbers |= {f"gradient/{name}": value for name, value in renamed(gradients).items()}
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        numbers |= {f"after/{name}": value for name, value in renamed(dict(model.named_parameters())).items()}
        record("transformer-xl", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
