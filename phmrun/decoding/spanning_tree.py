"""Maximum spanning trees: heads of a sentence's words with the largest sum of arc scores.

Source: Chu and Liu 1965; Edmonds, "Optimum branchings", 1967; for dense graphs, with n² steps: Tarjan, "Finding optimum
branchings", 1977. Dependency treebanks require a single child of the root (Zmigrod, Vieira and Cotterell, "Please mind
the root: decoding arborescences for dependency parsing", EMNLP 2020).

Most sentences of a trained parser need no search: if the best heads of all words form a tree, it is the best tree.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NEVER = complex(-math.inf, 0)
"""Weight of a non-arc: from a word to itself, or within a contracted cycle."""


def spanning_trees(scores: Tensor, lengths: Tensor) -> Tensor:
    """Return the heads of the maximum spanning tree of each sentence, exactly.

    Position 0 is the root. Arcs with a score of minus infinity or NaN are impossible. If there is no tree without them,
    the result contains as few as possible; that the root has exactly one child comes first. Ties are broken
    independently of the batch.

    Args:
        scores: ``[batch, dependents, heads]``, both of the same length; entries beyond a sentence are ignored.
        lengths: ``[batch]``, words of each sentence plus 1 for the root.

    Returns:
        Heads ``[batch, length]``; 0 for the root and beyond a sentence's end.
    """
    # Best head of each word, the first of equal ones; 0 for the root and beyond the end.
    positions = torch.arange(scores.shape[1], device=scores.device)
    outside = positions >= lengths.to(scores.device).unsqueeze(1)
    impossible = outside.unsqueeze(1) | (positions == positions.unsqueeze(1)) | scores.isnan()
    heads = scores.masked_fill(impossible, -math.inf).argmax(dim=-1)
    heads = heads.masked_fill_(outside | (positions == 0), 0)
    for number in (~_are_trees(heads, lengths)).nonzero().squeeze(1).tolist():
        length = int(lengths[number])
        sentence = scores[number, :length, :length].detach().double().cpu().numpy()
        heads[number, :length] = torch.tensor(_best_tree(sentence), device=heads.device)
    return heads


def _are_trees(heads: Tensor, lengths: Tensor) -> Tensor:
    """Return ``[batch]``, True if the heads ``[batch, length]`` form a tree rooted at 0.

    The root must have at most one child. Heads beyond ``lengths`` are 0 and ignored.
    """
    ancestors = heads
    for _ in range((heads.shape[1] - 2).bit_length()):  # each round doubles the steps toward the root
        ancestors = ancestors.gather(1, ancestors)
    trees = (ancestors == 0).all(dim=1)
    beyond = heads.shape[1] - lengths.to(heads.device)
    return trees & ((heads == 0).sum(dim=1) - beyond <= 2)  # the root and one word


def _best_tree(scores: NDArray[np.float64]) -> list[int]:
    """Return the heads of the best tree of a sentence.

    ``scores[i, j]`` is that of head j for word i, ``[length, length] -> [length]``. The root has one child. Arcs that
    are not finite are avoided (minus infinity, NaN) or preferred (infinity) before all scores.
    """
    # Scores become complex numbers, which NumPy orders by real part, then by imaginary part. The real part has priority
    # over scores: -1 for an impossible arc. A large number in place of infinity would cost precision.
    weights = np.zeros(scores.shape, dtype=np.complex128)
    finite = np.isfinite(scores)
    weights.real[~finite] = np.where(scores[~finite] > 0, 1.0, -1.0)
    weights.imag[finite] = scores[finite]
    heads = _edmonds(weights)
    if heads.count(0) > 2:
        # An additional arc from the root is worse than any other change.
        weights.real[:, 0] -= 2 * len(weights)
        heads = _edmonds(weights)
    return heads


def _edmonds(weights: NDArray[np.complex128]) -> list[int]:
    """Return the heads of the best tree by Edmonds' algorithm.

    Shapes: ``[length, length] -> [length]``.

    A walk from every word follows best heads until it reaches a visited component. A cycle is contracted to a
    component, whose arcs are weighted by their gain over the arcs of the cycle. Only sums and the order of weights
    matter.
    """
    size = len(weights)
    arcs = np.full((2 * size - 1, size), NEVER)  # into each component, from each word
    arcs[:size] = weights
    np.fill_diagonal(arcs[:size], NEVER)
    words = np.eye(2 * size - 1, size, dtype=np.bool_)  # of each component
    entered = np.zeros(arcs.shape, dtype=np.intp)  # the member of a component that each arc enters
    component_of = np.arange(size)
    heads: list[int] = arcs[:size].argmax(axis=1).tolist()
    heads[0] = 0
    walk_of = {0: 0}
    for start in range(1, size):
        component = component_of.item(start)
        while component not in walk_of:
            walk_of[component] = start
            component = component_of.item(heads[component])
            if walk_of.get(component) == start:
                circle = [component]
                while (following := component_of.item(heads[circle[-1]])) != component:
                    circle.append(following)
                component = len(heads)
                current = arcs[circle, [heads[member] for member in circle]]
                gains = arcs[circle] - current[:, None]
                gains.max(axis=0, out=arcs[component])
                words[circle].any(axis=0, out=words[component])
                arcs[component, words[component]] = NEVER
                entered[component] = np.array(circle)[gains.argmax(axis=0)]
                component_of[words[component]] = component
                heads.append(int(arcs[component].argmax()))
    for component in range(len(heads) - 1, size - 1, -1):
        heads[entered.item(component, heads[component])] = heads[component]
    return heads[:size]
