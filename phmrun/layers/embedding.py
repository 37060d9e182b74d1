"""Table lookup over any structure, a drop-in for ``torch.nn.Embedding``, and embeddings of several matrices by name.

The latter are what ``--embedding`` takes beside the structures. Each is a function from the sizes of a table to a
module that looks words up in it. Its keyword-only parameters are the options, as those of a structure's constructor
are; ``inside`` is the structure, with options of its own, of every matrix within.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from phmrun.errors import PhmrunError
from phmrun.layers.linear import on_device
from phmrun.layers.structure import (
    Option,
    Structure,
    build_structure,
    build_weight,
    check_options,
    full_precision,
    options_of_function,
)
from phmrun.registry import EMBEDDINGS


class Embedding(nn.Module):
    """Row v of W ``[num_embeddings, embedding_dim]`` for token v, looked up without building W where that is cheaper.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector.
        padding_idx: A token whose vector is always zero.
        device: Where the parameters live.
        dtype: Their type.
        structure: A registered name, or a structure object to share (tied embeddings).
        **options: Options of the structure, such as ``n=8``.

    Raises:
        PhmrunError: Unknown structure or option, or sizes that do not fit.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        structure: str | Structure = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        with on_device(device):
            self.structure = build_structure(structure, num_embeddings, embedding_dim, **options)
        if not isinstance(structure, Structure):
            self.reset_parameters()
        if dtype is not None:
            self.to(dtype)

    def reset_parameters(self, std: float = 1.0) -> None:
        """Entries of W with standard deviation ``std``; 1 as ``nn.Embedding``."""
        self.structure.reset_parameters(std)

    @property
    def weight(self) -> Tensor:
        """The dense table W ``[num_embeddings, embedding_dim]``."""
        return build_weight(self.structure)

    def forward(self, tokens: Tensor) -> Tensor:
        """``[…]`` of token numbers ``-> […, embedding_dim]``."""
        with full_precision(self.structure):
            vectors = self.structure.rows(tokens)
        if self.padding_idx is None:
            return vectors
        return vectors.masked_fill((tokens == self.padding_idx).unsqueeze(-1), 0.0)

    def extra_repr(self) -> str:
        """As ``nn.Embedding``."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


Build = Callable[..., nn.Module]
"""``build(num_embeddings, embedding_dim, *, option=default, …)``: a module with these two sizes as attributes, and the
table of all vectors as the attribute ``weight``."""

Inside = Annotated[Mapping[str, Any] | None, "Structure of every matrix within, and its options (default: dense)"]


@dataclass(eq=False)
class EmbeddingKind:
    """What a name stands for, and what a listing says of it.

    In its formulas V is the size of the vocabulary, m the size of an embedding vector, n that of a word's own vector.

    Args:
        name: The name on the command line.
        build: Makes the module.
        formula: The vector of word v.
        count_formula: How many numbers that takes.
        constraint: Which sizes and options go together.
        source: The paper.
        summary: What it is, in one line; the docstring of ``build`` unless given.
        fixed: Options of ``build`` that the name decides, which are then no options any more.
        clusters: Whether it has nothing but a table, and a linear map, for each cluster of words: no deep map of its
            own, so that it is as dense as what is inside.
    """

    name: str
    build: Build
    _: KW_ONLY
    formula: str
    count_formula: str
    constraint: str
    source: str
    summary: str | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)
    clusters: bool = False

    def __post_init__(self) -> None:
        self.__doc__ = self.summary or self.build.__doc__
        self.__qualname__ = self.build.__qualname__

    @property
    def options(self) -> tuple[Option, ...]:
        """What can be chosen."""
        return tuple(option for option in options_of_function(self.build) if option.name not in self.fixed)

    def __call__(self, num_embeddings: int, embedding_dim: int, **options: Any) -> nn.Module:
        """The module.

        Raises:
            PhmrunError: Unknown options, or sizes that do not fit.
        """
        check_options(f"embedding {self.name!r}", self.options, options)
        return self.build(num_embeddings, embedding_dim, **self.fixed, **options)


def register_embedding(
    name: str, *, formula: str, count_formula: str, source: str, constraint: str = "none", clusters: bool = False
) -> Callable[[Build], EmbeddingKind]:
    """Function decorator that makes an embedding known under ``name``; see :class:`EmbeddingKind`."""

    def add(build: Build) -> EmbeddingKind:
        said: Any = {"formula": formula, "count_formula": count_formula, "source": source, "constraint": constraint}
        kind = EmbeddingKind(name, build, clusters=clusters, **said)
        EMBEDDINGS.add(name, kind)
        return kind

    return add


def build_embedding(
    num_embeddings: int, embedding_dim: int, *, structure: str = "dense", any_width: bool = False, **options: Any
) -> nn.Module:
    """A table of word vectors by name.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector.
        structure: A structure, or an embedding.
        any_width: Whether what reads the vectors takes any size, which then is the module's ``embedding_dim``.
        **options: Options of the structure or embedding.

    Raises:
        PhmrunError: Unknown name or option, or sizes that do not fit.
    """
    if structure not in EMBEDDINGS:
        return Embedding(num_embeddings, embedding_dim, structure=structure, **options)
    built: nn.Module = EMBEDDINGS.get(structure)(num_embeddings, embedding_dim, **options)
    if built.embedding_dim != embedding_dim and not any_width:
        raise PhmrunError(
            f"the embedding {structure!r} makes vectors of {built.embedding_dim} numbers, but the network reads "
            f"{embedding_dim}",
            where="embedding",
        )
    return built
