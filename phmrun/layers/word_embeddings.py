"""Embeddings with several matrices: adaptive, projective, and the deep ones of Mehta et al. 2020.

Words are numbered by decreasing frequency; clusters are ranges of word numbers.
"""

from typing import Annotated, Any

from phmrun.errors import PhmrunError
from phmrun.layers.adaptive import AdaptiveInput
from phmrun.layers.define import Activation, Connection, DeFINE, Schedule, Variant
from phmrun.layers.define_released import ReleasedDeFINE
from phmrun.layers.embedding import EmbeddingKind, Inside, register_embedding

MEHTA = "Mehta et al. 2020"
SHARES = (0.0747, 0.1494, 0.7470)
"""Default starts of clusters: 20,000, 40,000 and 200,000 of 267,735 words (Mehta et al. 2020)."""


@register_embedding(
    "adaptive",
    formula="P_c e_v; e_v of n/d^c numbers in cluster c",
    count_formula="Σ_c (V_c·n_c + n_c·m), without n_c·m where n_c = m",
    constraint="cut-offs rise below V",
    source="Baevski and Auli 2019",
    clusters=True,
)
def adaptive(
    num_embeddings: int,
    embedding_dim: int,
    *,
    cutoffs: Annotated[
        tuple[int, ...] | None, "First word of each cluster but the first (default: at 7, 15 and 75 % of the words)"
    ] = None,
    div_value: Annotated[float, "d, factor by which each further cluster's vectors are narrower"] = 4.0,
    width: Annotated[int | None, "n, numbers of a frequent word's vector (default: m)"] = None,
    inside: Inside = None,
) -> AdaptiveInput:
    """Clusters of words by frequency.

    Rarer words have narrower vectors, mapped to the full width.
    """
    if cutoffs is None:
        cutoffs = tuple(round(share * num_embeddings) for share in SHARES)
    return AdaptiveInput(num_embeddings, embedding_dim, cutoffs, div_value, width=width, **(inside or {}))


@register_embedding(
    "projective",
    formula="P_c e_v; e_v of n numbers, in cluster c",
    count_formula="V·n + n·m for each cluster",
    constraint="cut-offs rise below V",
    source="Dai et al. 2019",
    clusters=True,
)
def projective(
    num_embeddings: int,
    embedding_dim: int,
    *,
    width: Annotated[int, "n, numbers of a word's own vector"] = 64,
    cutoffs: Annotated[tuple[int, ...], "First word of each cluster but the first"] = (),
    inside: Inside = None,
) -> AdaptiveInput:
    """Narrow tables and linear maps to the full width, one of each per cluster of words."""
    return AdaptiveInput(num_embeddings, embedding_dim, cutoffs, 1.0, width=width, **(inside or {}))


@register_embedding(
    "define",
    formula="W [HGT(e_v), e_v]; e_v of n numbers, which each transform sees too",
    count_formula="V·n + Σ_l in_l·out_l/g_l² + (k + n)·m, norms and biases",
    constraint="the groups divide n and all widths from n to k",
    source=MEHTA,
)
def define(
    num_embeddings: int,
    embedding_dim: int,
    *,
    depth: Annotated[int, "N, group transforms one after the other"] = 3,
    expansion: Annotated[int, "k, numbers after the last transform"] = 1024,
    width: Annotated[int | None, "n, numbers of a word's own vector (default: m)"] = None,
    cutoffs: Annotated[tuple[int, ...], "First word of each cluster but the first"] = (),
    div_value: Annotated[float, "Factor by which each further cluster's vectors are narrower"] = 4.0,
    connection: Annotated[
        Connection,
        "What a transform sees beside the one before: 'mixer': e_v, group by group; 'concat': e_v behind it; "
        "'end': nothing, but the last map sees e_v; 'residual': its input, added; 'plain': nothing",
    ] = "mixer",
    reduce: Annotated[bool, "A last map to m; without it, the context model reads k numbers"] = True,
    max_groups: Annotated[int, "Groups of the first transform, a power of two"] = 16,
    schedule: Annotated[
        Schedule, "Groups of the others: 'halving': g, g/2, … 1, 1, …; 'cycle': … 1, g, g/2, …; 'fixed': g"
    ] = "halving",
    shared: Annotated[bool, "One matrix for all groups of a transform, or one for each"] = True,
    shuffle: Annotated[bool, "Features change groups between transforms"] = False,
    norm: Annotated[bool, "A layer norm after each transform and after the last map; ours, the paper has none"] = False,
    bias: Annotated[bool, "Biases in the transforms and in the last map"] = True,
    activation: Annotated[Activation, "The function after each transform"] = "gelu",
    multiple_of: Annotated[int, "Widths of the transforms are rounded up to multiples of this"] = 32,
    variant: Annotated[
        Variant, "The paper's text, or the unit that its authors released in DeLighT's code: groups in a reversed cycle"
    ] = "text",
    projected: Annotated[bool, "The unit reads m numbers, to which the n of a word are mapped first"] = False,
    inside: Inside = None,
) -> DeFINE:
    """Narrow word vectors, expanded by a hierarchical group transform with input connections, then reduced.

    The variant "released" decides connection, reduce, schedule, shared, shuffle, norm and multiple_of: values other
    than their defaults are an error.
    """
    for name, value in (("depth", depth), ("max_groups", max_groups), ("multiple_of", multiple_of)):
        if value < 1:
            raise PhmrunError(f"{name} is {value}", where=f"embedding.{name}", valid=["1 or more"])
    n, within = width or embedding_dim, inside or {}
    narrow, n = n, embedding_dim if projected else n
    mapping = AdaptiveInput(num_embeddings, n, cutoffs, div_value, width=narrow, **within)
    if variant == "released":
        fixed = (connection, reduce, schedule, shared, shuffle, norm, multiple_of)
        if fixed != ("mixer", True, "halving", True, False, False, 32):
            names = "connection, reduce, schedule, shared, shuffle, norm and multiple_of"
            raise PhmrunError("variant=released decides more than is left to choose", hint=f"Leave {names} out.")
        size: dict[str, Any] = {"widest": expansion, "depth": depth, "max_groups": max_groups}
        unit = ReleasedDeFINE(n, embedding_dim, bias=bias, activation=activation, **size, **within)
        return DeFINE(num_embeddings, embedding_dim, n, expansion, depth, mapping=mapping, unit=unit, **within)
    groups: dict[str, Any] = {"max_groups": max_groups, "schedule": schedule, "shared": shared, "shuffle": shuffle}
    maps: dict[str, Any] = {"norm": norm, "bias": bias, "activation": activation, "multiple_of": multiple_of}
    ends: dict[str, Any] = {"mapping": mapping, "connection": connection, "reduce": reduce}
    return DeFINE(num_embeddings, embedding_dim, n, expansion, depth, **ends, **groups, **maps, **within)


def _stack(name: str, formula: str, count: str, summary: str, **fixed: object) -> EmbeddingKind:
    """Return DeFINE without connections to e_v, some options fixed; its entry point registers it.

    ``formula``, ``count`` and ``summary`` are parts of its description.
    """
    return EmbeddingKind(
        name,
        define.build,
        formula=f"W {formula}; e_v of n numbers",
        count_formula=f"V·n + {count} + k·m, norms and biases",
        constraint="none" if name == "linear" else define.constraint,
        source=MEHTA,
        summary=f"Narrow word vectors, expanded by {summary}, then reduced.",
        fixed={"connection": "plain", "shuffle": False, "variant": "text", **fixed},
    )


BY_GROUPS, ALIKE = "group transforms with decreasing numbers of groups", "group transforms with equal numbers of groups"
SHUFFLED = "group transforms with shuffled features in between"

hgt = _stack("hgt", "HGT(e_v)", "Σ_l in_l·out_l/g_l²", BY_GROUPS)
glt = _stack("glt", "GLT(e_v)", "Σ_l in_l·out_l/g²", ALIKE, schedule="fixed")
glt_shuffle = _stack("glt-shuffle", "GLT(e_v), shuffled", "Σ_l in_l·out_l/g²", SHUFFLED, schedule="fixed", shuffle=True)
linear = _stack("linear", "f_N(… f_1(e_v))", "Σ_l in_l·out_l", "linear transforms", schedule="fixed", max_groups=1)
