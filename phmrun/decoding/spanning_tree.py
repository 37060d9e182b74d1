"""Maximum spanning trees: the heads of a sentence's words, such that the sum of their arcs' scores is largest.

Source: Chu and Liu 1965; Edmonds, "Optimum branchings", 1967; for dense graphs, with n² steps: Tarjan, "Finding optimum
branchings", 1977. That one word alone hangs on the root is a condition of dependency treebanks (Zmigrod, Vieira and
Cotterell, "Please mind the root: decoding arborescences for dependency parsing", EMNLP 2020).

Most sentences of a trained parser need no search: where every word's best head makes a tree, it is the best tree.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NEVER = complex(-math.inf, 0)
"""The weight of what is no arc: from a word to itself, or within a circle that counts as one word."""


def spanning_trees(scores: Tensor, lengths: Tensor, *, single_root: bool = True) -> Tensor:
    """The best tree of each sentence, exactly; position 0 is the root.

    Impossible arcs score minus infinity, as do scores that are no number: they are taken where there is no tree
    without one, and then as few as can be. Of several best trees it is one that depends on the sentence alone.

    Args:
        scores: ``[batch, dependents, heads]``, the two sides of one length; what exceeds a sentence does not matter.
        lengths: ``[batch]``, words of each sentence and the root.
        single_root: Whether exactly one word hangs on the root.

    Returns:
        Heads ``[batch, length]``; 0 for the root itself and beyond a sentence's end.
    """
    # Each word's best head, of equals the first; 0 for the root and beyond the end.
    positions = torch.arange(scores.shape[1], device=scores.device)
    outside = positions >= lengths.to(scores.device).unsqueeze(1)
    impossible = outside.unsqueeze(1) | (positions == positions.unsqueeze(1)) | scores.isnan()
    heads = scores.masked_fill(impossible, -math.inf).argmax(dim=-1)
    heads = heads.masked_fill_(outside | (positions == 0), 0)
    for number in (~_are_trees(heads, lengths, single_root)).nonzero().squeeze(1).tolist():
        length = int(lengths[number])
        sentence = scores[number, :length, :length].detach().double().cpu().numpy()
        heads[number, :length] = torch.tensor(_best_tree(sentence, single_root), device=heads.device)
    return heads


def _are_trees(heads: Tensor, lengths: Tensor, single_root: bool) -> Tensor:
    """Whether all words come to the root by their heads, and, if asked, by one word, ``[batch]``."""
    ancestors = heads
    for _ in range((heads.shape[1] - 2).bit_length()):  # each round makes twice as many steps towards the root
        ancestors = ancestors.gather(1, ancestors)
    trees = (ancestors == 0).all(dim=1)
    if not single_root:
        return trees
    beyond = heads.shape[1] - lengths.to(heads.device)
    return trees & ((heads == 0).sum(dim=1) - beyond <= 2)  # the root's own, and one word's


def _best_tree(scores: NDArray[np.float64], single_root: bool) -> list[int]:
    """The heads of the best tree of one sentence, ``[length, length] -> [length]``."""
    # Scores become complex numbers, which NumPy orders by their real parts and, of equals, by their imaginary parts.
    # The real part counts what goes before any score: -1 for an impossible arc. So no large number stands for infinity,
    # beside which scores would lose their digits.
    weights = np.zeros(scores.shape, dtype=np.complex128)
    finite = np.isfinite(scores)
    weights.real[~finite] = np.where(scores[~finite] > 0, 1.0, -1.0)
    weights.imag[finite] = scores[finite]
    heads = _edmonds(weights)
    if single_root and heads.count(0) > 2:
        # One arc from the root more is worse than whatever other arcs come with it.
        weights.real[:, 0] -= 2 * len(weights)
        heads = _edmonds(weights)
    return heads


def _edmonds(weights: NDArray[np.complex128]) -> list[int]:
    """The heads of the best tree, ``[length, length] -> [length]``; only sums and the order of weights count.

    From every word a walk goes to its best head, and on, until it meets what an earlier walk has met. Where it meets
    itself, the circle becomes one component, whose arcs weigh what they would gain over the circle's own.
    """
    size = len(weights)
    arcs = np.full((2 * size - 1, size), NEVER)  # into each component, from each word
    arcs[:size] = weights
    np.fill_diagonal(arcs[:size], NEVER)
    words = np.eye(2 * size - 1, size, dtype=np.bool_)  # of each component
    entered = np.zeros(arcs.shape, dtype=np.intp)  # the member of a component that such an arc leads to
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
                own = arcs[circle, [heads[member] for member in circle]]
                gains = arcs[circle] - own[:, None]
                best = gains.argmax(axis=0)
                gains.max(axis=0, out=arcs[component])
                words[circle].any(axis=0, out=words[component])
                arcs[component, words[component]] = NEVER
                entered[component] = np.array(circle)[best]
                component_of[words[component]] = component
                heads.append(int(arcs[component].argmax()))
    for component in range(len(heads) - 1, size - 1, -1):
        heads[entered.item(component, heads[component])] = heads[component]
    return heads[:size]
