"""Structured layers of a third-party package, measured beside ours if it is installed.

``tensorly-torch`` has factorised linear maps and embeddings. A block tensor train of two cores and rank n has just the
matrices, and the parameters, of PHM with that n.

``pip install "tensorly>=0.8" "tensorly-torch>=0.5"`` installs it.

``python -m benchmarks.third_party --module linear --n 4,8 --threads 1``
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch
from torch import Tensor, nn

from benchmarks.arguments import parser, start
from phmrun.bench import layers
from phmrun.bench.modules import MODULE_KINDS, ORDERS, Batch, Case, Form, ModuleKind, Shape, cases, frozen
from phmrun.cli import console, measuring
from phmrun.cli.bench import print_module
from phmrun.errors import PhmrunError
from phmrun.layers import Embedding, Structure, folded
from phmrun.layers.linear import Application

PACKAGES = {"tensorly-torch": ("tensorly-torch", "tensorly")}
"""Packages, and what must be installed for them: it needs another without saying so."""


class EmbeddingKind(ModuleKind):
    """Table lookup without a padding token, of shape (num_embeddings, embedding_dim)."""

    name, reference, ours, theirs = "embedding", "nn.Embedding", Embedding, nn.Embedding
    shapes = ((8192, 512),)
    batches = training = ((640,),)

    def maps(self, shape: Shape) -> Sequence[Shape]:
        """Return (num_embeddings, embedding_dim) of the table."""
        return [shape]

    def draw(self, shape: Shape, batch: Batch, dtype: torch.dtype) -> Tensor:
        """Return uniformly random token ids in the shape of the batch."""
        return torch.randint(shape[0], batch)

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the dense table, and "factored" if rows need no table."""
        lookup = {"factored": frozen(module)} if self.in_training(module) == "factored" else {}
        return {"dense": folded(module), **lookup}

    def in_training(self, module: nn.Module) -> Application:
        """Return "factored" if rows are looked up without building the table, else "dense"."""
        by_rows = isinstance(module, Embedding) and type(module.structure).rows is not Structure.rows
        return "factored" if by_rows else "dense"

    def chosen(self, module: nn.Module, tokens: int) -> Form:
        """Return "dense"."""
        return "dense"


@dataclass(frozen=True)
class Other(Case):
    """Layer of another package, with its own constructor."""

    make: Callable[[], nn.Module]

    def build(self) -> nn.Module:
        """Build the module, newly initialized."""
        return self.make()

    def forms(self, module: nn.Module) -> dict[str, nn.Module]:
        """Return the module as trained."""
        return {"unfolded": frozen(module)}

    def auto(self, module: nn.Module, tokens: int | None = None) -> Form:
        """Return "unfolded"."""
        return "unfolded"


KINDS: dict[str, ModuleKind] = {"linear": MODULE_KINDS["linear"], "embedding": EmbeddingKind()}


def missing() -> list[str]:
    """Packages that are not installed."""
    return [package for package, names in PACKAGES.items() if not all(installed(name) for name in names)]


def installed(package: str) -> bool:
    """True if a package is installed; it is not imported."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def other_layers(kind: ModuleKind, orders: Sequence[int], shapes: Sequence[Shape] = ()) -> list[Other]:
    """Modules of installed packages of one kind, for each n, at the given or the kind's default sizes."""
    kinds: dict[str, dict[str, Callable[..., nn.Module]]] = {
        "nn.Linear": {"tensorly-torch": tensorly_linear},
        "nn.Embedding": {"tensorly-torch": tensorly_embedding},
    }
    absent = missing()
    return [
        Other(kind, package, {"n": n}, shape, functools.partial(make, *shape, n))
        for shape in shapes or kind.shapes
        for package, make in kinds.get(kind.reference, {}).items()
        for n in orders
        if package not in absent and not any(size % n for size in shape)
    ]


def tensorly_linear(in_features: int, out_features: int, n: int) -> nn.Module:
    """A linear map whose matrix is a block tensor train."""
    from tltorch import FactorizedLinear

    sizes = (n, in_features // n), (n, out_features // n)
    return FactorizedLinear(*sizes, factorization="blocktt", rank=(1, n, 1))


def tensorly_embedding(num_embeddings: int, embedding_dim: int, n: int) -> nn.Module:
    """An embedding whose table is a block tensor train."""
    from tltorch import FactorizedEmbedding

    layer: nn.Module = FactorizedEmbedding(
        num_embeddings,
        embedding_dim,
        auto_tensorize=False,
        tensorized_num_embeddings=(n, num_embeddings // n),
        tensorized_embedding_dim=(n, embedding_dim // n),
        factorization="blocktt",
        rank=(1, n, 1),
    )
    return layer


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure PHM and the third-party layers of one kind of module; print tables of training and inference."""
    options = parser(__doc__, repeats=15)
    options.add_argument("--module", default="linear", choices=("linear", "embedding"), help="part that is measured")
    options.add_argument("--n", action="append", metavar="N,…", help="values of n (default: 2,4,8,16)")
    options.add_argument("--shape", action="append", default=[], metavar="INxOUT,…", help="sizes (default: the kind's)")
    options.add_argument("--tokens", action="append", metavar="TOKENS,…", help="input vectors per call of inference")
    options.add_argument("--training-tokens", action="append", metavar="TOKENS,…", help="the same per training step")
    args = options.parse_args(arguments)
    kind, orders = KINDS[args.module], measuring.numbers(args.n, "--n") or list(ORDERS)
    shapes = [measuring.sides(text) for text in measuring.listed(args.shape)]
    ours, misfits = cases(kind, [("phm", {})], orders, shapes)
    if not ours:
        raise PhmrunError(f"no layer fits: {misfits[-1]}", where="--shape")
    for reason in [*misfits, *(f"layers of {name}: not installed" for name in missing())]:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    batches = [(number,) for number in measuring.numbers(args.tokens, "--tokens")]
    training = [(number,) for number in measuring.numbers(args.training_tokens, "--training-tokens")]
    facts = start(args)
    candidates = [*ours, *other_layers(kind, orders, shapes)]
    rows = list(
        layers.measure(candidates, batches=batches, training=training, rounds=args.repeats, device=facts["device"])
    )
    if args.json:
        console.print_json({"machine": facts, "rows": [vars(row) for row in rows]})
        return
    measuring.print_machine(facts)
    print_module(rows)


if __name__ == "__main__":
    main()
