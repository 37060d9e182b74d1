"""Record the biaffine form, one step of Adam and the spanning trees of yzhangcs/parser.

python tests/reference/make_supar.py GIT_DIRECTORY
"""

import sys
import types

import torch
from recording import Source, checked_out, empty_packages, record

SOURCE = Source(
    repository="https://github.com/yzhangcs/parser",
    commit="bebdd350e034c517cd5b71185e056503290164fa",
    license="MIT",
    files=("LICENSE", "supar/modules", "supar/structs/fn.py", "supar/utils"),
    changes="supar's own package files and omegaconf are not imported",
)
SENTENCES, WORDS = 8, 6


def main(git_directory: str) -> None:
    """Scores, gradients and a step of biaffine forms with one label and three; trees of random scores."""
    with checked_out(SOURCE, git_directory) as folder:
        empty_packages(folder, "supar", "supar.modules", "supar.structs", "supar.utils")
        sys.modules["omegaconf"] = types.ModuleType("omegaconf")
        sys.modules["omegaconf"].DictConfig = sys.modules["omegaconf"].OmegaConf = None  # type: ignore[attr-defined]
        from supar.modules.affine import Biaffine  # type: ignore[import-not-found]
        from supar.structs.fn import mst  # type: ignore[import-not-found]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    x, y = torch.randn(2, 2, 4, 5)
    numbers = {"x": x, "y": y}
    for name, labels, bias_y in (("arc", 1, False), ("rel", 3, True)):
        form = Biaffine(n_in=5, n_out=labels, bias_x=True, bias_y=bias_y)
        torch.nn.init.normal_(form.weight)
        scores = form(x, y)
        numbers |= {f"{name}/weight": form.weight.detach().clone(), f"{name}/scores": scores}
        scores.square().sum().backward()
        torch.optim.Adam(form.parameters(), lr=2e-3, betas=(0.9, 0.9), eps=1e-12).step()
        numbers |= {f"{name}/gradient": form.weight.grad, f"{name}/after": form.weight}
    scores = torch.randn(SENTENCES, WORDS + 1, WORDS + 1)
    lengths = torch.arange(SENTENCES) % WORDS + 1
    words = (torch.arange(WORDS + 1) <= lengths.unsqueeze(1)) & (torch.arange(WORDS + 1) > 0)
    numbers |= {"trees/scores": scores, "trees/words": lengths}
    numbers |= {"trees/single_root": mst(scores.clone(), words), "trees/any_roots": mst(scores.clone(), words, True)}
    record("supar", SOURCE, numbers)


if __name__ == "__main__":
    main(sys.argv[1])
