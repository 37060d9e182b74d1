"""A small vision transformer on scikit-learn's handwritten digits (1,797 images of 8 x 8 pixels), with any structure.

`python train_vit.py --layer '{"structure": "phm", "n": 4}' --out out` trains it and writes out/scores.json. The same
command again goes on from out/checkpoint.pt. `phmrun sweep sweep.yaml` runs several structures and seeds. Needs
scikit-learn.
"""

import argparse
import json
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import convert

WIDTH, HEADS, DEPTH, PATCH, CLASSES = 32, 4, 2, 2, 10
TRAINING, VALIDATION = 1000, 300  # images; the other 497 are the test set


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Map [batch, patches, width] to the same shape."""
        batch, patches, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, patches, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, patches, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class VisionTransformer(nn.Module):
    """Classes from the mean of the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(PATCH * PATCH, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(64 // PATCH**2, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(DEPTH)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [batch, 8, 8] to logits [batch, classes]."""
        patches = F.unfold(images.unsqueeze(1), PATCH, stride=PATCH).transpose(1, 2)
        return self.head(self.norm(self.blocks(self.patches(patches) + self.positions)).mean(1))


def digits() -> dict[str, tuple[Tensor, Tensor]]:
    """Images and labels by split; the split is the same for all seeds."""
    data = load_digits()
    images, labels = torch.tensor(data.images, dtype=torch.float32), torch.tensor(data.target)
    images = (images - images.mean()) / images.std()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    parts = order.tensor_split([TRAINING, TRAINING + VALIDATION])
    return {name: (images[part], labels[part]) for name, part in zip(("train", "val", "test"), parts, strict=True)}


def main() -> None:
    """Train, or go on from the checkpoint, and write the scores."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--layer", default="dense", help="structure of the blocks' maps, or JSON with options")
    parser.add_argument("--lr", type=float, default=0.004)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(options.seed)
    data, model = digits(), VisionTransformer()
    layer = json.loads(options.layer) if options.layer.startswith("{") else {"structure": options.layer}
    if layer["structure"] != "dense":
        model = convert(model, layer.pop("structure"), names="blocks.*", **layer)
    optimizer = torch.optim.AdamW(model.parameters(), options.lr, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    step, checkpoint = 0, options.out / "checkpoint.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        step = state["step"]
        print(f"going on at step {step}")
    images, labels = data["train"]
    while step < options.steps:
        chosen = torch.randint(TRAINING, (64,), generator=torch.Generator().manual_seed(options.seed * 10**6 + step))
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "schedule": schedule.state_dict(),
            }
            torch.save({**state, "step": step}, options.out / "new.pt")
            (options.out / "new.pt").replace(checkpoint)  # whole or not at all
    model.eval()
    scores: dict[str, object] = {"parameters": sum(parameter.numel() for parameter in model.parameters())}
    for split in ("val", "test"):
        with torch.no_grad():
            right = model(data[split][0]).argmax(1) == data[split][1]
        scores[f"{split}/accuracy"] = {"items": right.int().tolist()}
    (options.out / "scores.json").write_text(json.dumps(scores))


if __name__ == "__main__":
    main()
