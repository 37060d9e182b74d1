"""Structured layers of third-party packages, measured beside ours if they are installed (extra ``bench``).

``tensorly-torch`` has factorised linear maps and embeddings. A block tensor train of two cores and rank n has just the
matrices, and the parameters, of PHM with that n.

``python -m benchmarks.third_party --module linear --n 4,8 --threads 1``
"""

import functools
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version

from torch import nn

from benchmarks.arguments import parser, start
from phmrun.bench import layers
from phmrun.bench.modules import MODULE_KINDS, ORDERS, Case, ModuleKind, Shape
from phmrun.cli import console, measuring
from phmrun.cli.bench_layers import print_module

PACKAGES = {"tensorly-torch": ("tensorly-torch", "tensorly")}
"""Packages, and what must be installed for them: it needs another without saying so."""


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


def other_layers(kind: ModuleKind, orders: Sequence[int], shapes: Sequence[Shape] = ()) -> list[Case]:
    """Modules of installed packages of one kind, for each n, at the given or the kind's default sizes."""
    kinds: dict[str, dict[str, Callable[..., nn.Module]]] = {
        "nn.Linear": {"tensorly-torch": tensorly_linear},
        "nn.Embedding": {"tensorly-torch": tensorly_embedding},
    }
    absent = missing()
    return [
        Case(kind, package, {"n": n}, shape, functools.partial(make, *shape, n))
        for shape in shapes or kind.sizes.shapes
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
    kind, orders = MODULE_KINDS[args.module], measuring.numbers(args.n, "--n") or list(ORDERS)
    shapes = [measuring.sides(text) for text in measuring.listed(args.shape)]
    plan = layers.survey([kind.name], [("phm", {})], orders=orders, shapes=shapes)
    left_out = [f"layers of {name}: not installed; pip install 'phmrun[bench]'" for name in missing()]
    for reason in [*plan.left_out, *left_out]:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    batches = [(number,) for number in measuring.numbers(args.tokens, "--tokens")]
    training = [(number,) for number in measuring.numbers(args.training_tokens, "--training-tokens")]
    facts = start(args)
    cases = [*plan.candidates, *other_layers(kind, orders, shapes)]
    rows = list(layers.measure(cases, batches=batches, training=training, rounds=args.repeats, device=facts["device"]))
    if args.json:
        console.print_json({"machine": facts, "rows": [row.to_json() for row in rows]})
        return
    measuring.print_machine(facts)
    print_module(kind.name, rows)


if __name__ == "__main__":
    main()
