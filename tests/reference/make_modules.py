"""Record single modules: the biaffine form of yzhangcs/parser, and the position vectors of OpenNMT/OpenNMT-py.

python tests/reference/make_modules.py PARSER_GIT_DIRECTORY OPENNMT_GIT_DIRECTORY
"""

import sys
import types

import torch
from recording import Source, checked_out, record

SUPAR = Source(
    repository="https://github.com/yzhangcs/parser",
    commit="bebdd350e034c517cd5b71185e056503290164fa",
    license="MIT",
    files=("LICENSE", "supar/modules/affine.py", "supar/modules/mlp.py", "supar/modules/dropout.py"),
    how="run",
    changes="supar's own package files are not imported",
)
OPENNMT = Source(
    repository="https://github.com/OpenNMT/OpenNMT-py",
    commit="97111d97551c24857076a4102eabdb468b35cff4",
    license="MIT",
    files=("LICENSE.md", "onmt/modules/embeddings.py"),
    how="run",
    changes="onmt's own package files are not imported",
)


def packages(*names: str, folder: str) -> None:
    """Packages without their own files."""
    for name in names:
        package = types.ModuleType(name)
        package.__path__ = [f"{folder}/{name.replace('.', '/')}"]
        sys.modules[name] = package


def main(parser: str, opennmt: str) -> None:
    """Scores and gradients of biaffine forms with one label and with three; 20 position vectors of width 8."""
    with checked_out(SUPAR, parser) as folder:
        packages("supar", "supar.modules", folder=str(folder))
        from supar.modules.affine import Biaffine  # type: ignore[import-not-found]
    with checked_out(OPENNMT, opennmt) as folder:
        packages("onmt", "onmt.modules", "onmt.utils", folder=str(folder))
        stubs = {"onmt.modules.util_class": "Elementwise", "onmt.utils.logging": "logger"}
        for name, attribute in stubs.items():
            sys.modules[name] = types.ModuleType(name)
            setattr(sys.modules[name], attribute, None)
        from onmt.modules.embeddings import PositionalEncoding  # type: ignore[import-not-found]

        vectors = PositionalEncoding(8, "SinusoidalInterleaved").pe[:20, 0]
    record("opennmt-py", OPENNMT, {"vectors": vectors})
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(1)
    x, y = torch.randn(2, 2, 4, 5)
    numbers = {"x": x, "y": y}
    for name, labels, bias_y in (("arc", 1, False), ("rel", 3, True)):
        form = Biaffine(n_in=5, n_out=labels, bias_x=True, bias_y=bias_y)
        torch.nn.init.normal_(form.weight)
        scores = form(x, y)
        scores.square().sum().backward()
        numbers |= {f"{name}/weight": form.weight, f"{name}/scores": scores, f"{name}/gradient": form.weight.grad}
    record("supar", SUPAR, numbers)


if __name__ == "__main__":
    main(*sys.argv[1:])
