"""Embedding tables over any structure, and the registry of embeddings with several matrices.

Registered embeddings are values of ``--embedding``, next to the structures. Each is a function from the sizes of a
table to a module. Its keyword-only parameters are its options; ``inside`` is the structure of all its matrices.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from phmrun.config.options import checked_options, section_of
from phmrun.errors import PhmrunError
from phmrun.layers.linear import on_device
from phmrun.layers.structure import Structure, build_structure, build_weight, full_precision
from phmrun.registry import EMBEDDINGS
from phmrun.section import Section


class Embedding(nn.Module):
    """Table lookup over any structure; a drop-in replacement of ``torch.nn.Embedding``.

    Structures look up rows without building W if that is cheaper.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector.
        padding_idx: Token whose vector is always zero.
        device: Device of the parameters.
        dtype: Type of the parameters.
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
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        with on_device(device):
            self.structure = build_structure(structure, num_embeddings, embedding_dim, **options)
        if not isinstance(structure, Structure):
            self.reset_parameters()
        if dtype is not None:
            self.to(dtype)

    def reset_parameters(self, std: float = 1.0) -> None:
        """Draw W with standard deviation ``std``, in place.

        The default is ``nn.Embedding``'s.
        """
        self.structure.reset_parameters(std)

    @property
    def weight(self) -> Tensor:
        """Dense table W ``[num_embeddings, embedding_dim]``.

        The padding row is not zeroed.
        """
        return build_weight(self.structure)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the vectors of token numbers, ``[…] -> […, embedding_dim]``.

        Those of ``padding_idx`` are zero.
        """
        with full_precision(self.structure):
            vectors = self.structure.rows(tokens.reshape(-1)).view(*tokens.shape, self.embedding_dim)
        if self.padding_idx is None:
            return vectors
        return vectors.masked_fill((tokens == self.padding_idx).unsqueeze(-1), 0.0)

    def extra_repr(self) -> str:
        """Return the sizes, like ``nn.Embedding``."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


Build = Callable[..., nn.Module]
"""``build(num_embeddings, embedding_dim, *, option=default, …)`` returns a module with these sizes as attributes.

Its attribute ``weight`` is the table of all vectors.
"""

Inside = Annotated[Mapping[str, Any] | None, "Structure of all its matrices, and its options (default: dense)"]


@dataclass(eq=False)
class EmbeddingKind:
    """Registered embedding with its description.

    In its formulas V is the size of the vocabulary, m the size of an embedding vector, n that of a word's vector.

    Args:
        name: Name on the command line.
        build: Function that builds the module.
        formula: Vector of word v.
        count_formula: Number of parameters.
        constraint: Valid combinations of sizes and options.
        source: Paper.
        summary: Description in one line; default: the docstring of ``build``.
        fixed: Options of ``build`` with a fixed value, which users cannot set.
        clusters: True if it only has a table and a linear map for each cluster of words, and no deep map.
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
    def options(self) -> type[Section]:
        """Options that users can set: the keyword-only parameters of ``build`` without ``fixed``."""
        return section_of(self.build, fixed=frozenset(self.fixed))

    def __call__(self, num_embeddings: int, embedding_dim: int, **options: Any) -> nn.Module:
        """Build the module with the fixed and these options; missing ones have their defaults.

        Raises:
            PhmrunError: Unknown or fixed options, invalid choices, or sizes that do not fit.
        """
        options = checked_options(f"embedding {self.name!r}", self.options, options)
        return self.build(num_embeddings, embedding_dim, **self.fixed, **options)


def register_embedding(
    name: str, *, formula: str, count_formula: str, source: str, constraint: str = "none", clusters: bool = False
) -> Callable[[Build], EmbeddingKind]:
    """Return a function decorator that registers an embedding; see :class:`EmbeddingKind`.

    The decorated name is then the :class:`EmbeddingKind`, not the function.

    Raises:
        PhmrunError: (exit 2) The decorator is used with a malformed, taken or reserved name.
    """

    def add(build: Build) -> EmbeddingKind:
        """Register the function, and return its :class:`EmbeddingKind` in its place."""
        texts: Any = {"formula": formula, "count_formula": count_formula, "source": source, "constraint": constraint}
        kind = EmbeddingKind(name, build, clusters=clusters, **texts)
        EMBEDDINGS.add(name, kind)
        return kind

    return add


def build_embedding(
    num_embeddings: int, embedding_dim: int, *, structure: str = "dense", any_width: bool = False, **options: Any
) -> nn.Module:
    """Build a table of word vectors by name.

    A structure's name gives :class:`Embedding`, another one the registered embedding.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector.
        structure: Name of a structure or an embedding.
        any_width: True to accept an embedding of another size; the module's ``embedding_dim`` is the actual size.
        **options: Options of the structure or embedding.

    Raises:
        PhmrunError: Unknown name or option, sizes that do not fit, or an embedding of another size without
            ``any_width``.
    """
    if structure not in EMBEDDINGS:
        return Embedding(num_embeddings, embedding_dim, structure=structure, **options)
    built: nn.Module = EMBEDDINGS.get(structure)(num_embeddings, embedding_dim, **options)
    if (width := built.embedding_dim) != embedding_dim and not any_width:
        what = f"the embedding {structure!r} makes vectors of {width} numbers, but the network reads {embedding_dim}"
        raise PhmrunError(what, where="embedding")
    return built
