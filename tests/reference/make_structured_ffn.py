"""Record self-guided low-rank maps of CLAIRE-Labo/StructuredFFN.

python tests/reference/make_structured_ffn.py GIT_DIRECTORY
"""

import sys
import types

import torch
from recording import Source, checked_out, empty_packages, record

LAYER = "src/modules/layer"
SOURCE = Source(
    repository="https://github.com/CLAIRE-Labo/StructuredFFN",
    commit="2442a14c57be177b50bd900f1fba6fcec4c96d93",
    license="none stated",
    files=(f"{LAYER}/basiclinear.py", f"{LAYER}/lowrank.py", f"{LAYER}/util.py", "src/modules/op/low_rank.py"),
    changes="no GPU; the ratio is float64; packages without their other layers, which need triton",
)
STEPS = 10


def main(git_directory: str) -> None:
    """Guide at the start, outputs and gradients at three points of the training, a step at the last."""
    with checked_out(SOURCE, git_directory) as folder:
        for path in folder.rglob("*.py"):
            text = path.read_text().replace(".cuda()", "")
            path.write_text(text.replace("torch.tensor(1.0)", "torch.tensor(1.0, dtype=torch.float64)"))
        empty_packages(folder / "src", "modules", "modules.layer", "modules.op")
        from modules.op.low_rank import low_rank_custom  # type: ignore[import-not-found]

        sys.modules["modules.op"].low_rank_custom = low_rank_custom  # type: ignore[attr-defined]
        from modules.layer.lowrank import LowRank  # type: ignore[import-not-found]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)

    class Config(types.SimpleNamespace):
        def __getitem__(self, key: str) -> object:
            return getattr(self, key)

    training = Config(enabled=True, scheduler="cosine", max_step=STEPS, reduce_flop=False)
    config = Config(rank=2, training=training, init=Config(post_init="none"))
    layer = LowRank(6, 4, True, True, config, Config(weight_init="xavier", initializer_range=0.02), device="cpu")
    inputs = torch.randn(5, 6)
    numbers = {
        "inputs": inputs,
        "u": layer.lr2.detach().clone(),
        "v": layer.lr1.detach().clone(),
        "guide": layer.guide_linear.detach().clone(),
    }
    torch.nn.init.normal_(layer.guide_linear)  # as if it had learnt
    torch.nn.init.normal_(layer.bias)
    numbers |= {"learnt": layer.guide_linear.detach().clone(), "bias": layer.bias.detach().clone()}
    for step in (1, 5, 9):
        layer.count.fill_(step - 1)
        layer._update_ratio()
        layer.zero_grad()
        outputs, bias = layer(inputs)
        outputs = outputs + bias
        outputs.square().sum().backward()
        numbers |= {f"{step}/outputs": outputs, f"{step}/dense": layer.guide_linear.grad.clone()}
        numbers |= {f"{step}/u": layer.lr2.grad.clone(), f"{step}/v": layer.lr1.grad.clone()}
    torch.optim.AdamW(layer.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1).step()
    numbers |= {"after/dense": layer.guide_linear, "after/u": layer.lr2, "after/v": layer.lr1, "after/bias": layer.bias}
    record("structured-ffn", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
