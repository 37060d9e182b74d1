"""Structured layers of other people's packages, measured beside ours where these are installed (extra ``bench``).

``adapters`` (Poth et al., EMNLP 2023) has the PHM layer of Compacter, and ``tensorly-torch`` factorised linear maps and
embeddings. Of the latter, a block tensor train of two cores and rank n has just the matrices, and the parameters, of
PHM with that n.
"""

import functools
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from torch import nn

from phmrun.bench.modules import Case, ModuleKind, Shape

PACKAGES = {"adapters": ("adapters",), "tensorly-torch": ("tensorly-torch", "tensorly")}
"""Packages, and what must be installed for them: the second needs another without saying so."""


def missing() -> list[str]:
    """Packages that are not installed."""
    return [package for package, names in PACKAGES.items() if not all(installed(name) for name in names)]


def installed(package: str) -> bool:
    """Whether a package is installed; it is not imported."""
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def other_layers(kind: ModuleKind, orders: Sequence[int], shapes: Sequence[Shape] = ()) -> list[Case]:
    """What the installed packages have for a kind of module, for each n, at some sizes or at the kind's own."""
    kinds: dict[str, dict[str, Callable[..., nn.Module]]] = {
        "nn.Linear": {"adapters": adapters_linear, "tensorly-torch": tensorly_linear},
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


def adapters_linear(in_features: int, out_features: int, n: int) -> nn.Module:
    """The PHM layer with nothing shared or factorised further, as Zhang et al. define it."""
    from adapters import CompacterConfig
    from adapters.methods.modeling import PHMLayer

    whole: dict[str, Any] = {"factorized_phm_W": False, "factorized_phm_rule": False}
    alone: dict[str, Any] = {"shared_phm_rule": False, "shared_W_phm": False, "learn_phm": True}
    config = CompacterConfig(phm_dim=n, phm_bias=True, **whole, **alone)
    return PHMLayer("bench", in_features, out_features, "down", config)


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
