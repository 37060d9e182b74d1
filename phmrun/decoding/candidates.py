"""Best continuations of a beam, without sorting the whole vocabulary.

Shapes: ``batch`` sentences, ``beam`` live hypotheses per sentence, ``vocabulary`` target tokens, ``count`` candidates.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad as pad_tensor

# Tokens per block in the two-level search for the largest scores. Vectorized maxima over blocks are three to four times
# faster than torch.topk over the whole vocabulary; 64 was the fastest of 16, 64 and 125 at 8,000 tokens.
_BLOCK = 64
_FEW = 32_768  # largest number of scores for which torch.topk alone is faster

_NEVER = float("-inf")


def log_probabilities(logits: Tensor, forbidden: Tensor) -> Tensor:
    """Return log-probabilities of logits, with forbidden tokens at minus infinity.

    ``[..., vocabulary]``, a new tensor, at least in single precision. ``forbidden`` holds token numbers; the other
    tokens are not normalized again.
    """
    dtype = torch.promote_types(logits.dtype, torch.float32)
    return torch.log_softmax(logits, dim=-1, dtype=dtype).index_fill_(-1, forbidden, _NEVER)


def only_token(log_probs: Tensor, rows: Tensor, token: int) -> None:
    """Allow only one token in some rows, in place.

    The log-probabilities of all others become minus infinity.

    Args:
        log_probs: ``[batch, ..., vocabulary]``.
        rows: ``[batch]``, True for the rows to change.
        token: Token that keeps its log-probability.
    """
    kept = log_probs[..., token].clone()
    log_probs.masked_fill_(rows.view(-1, *[1] * (log_probs.ndim - 1)), _NEVER)
    log_probs[..., token] = kept


class Candidates:
    """Most probable continuations of each sentence, ``count`` of them, best first.

    Equal scores are ordered by beam, then by token number, whatever else is in the batch, once :meth:`break_ties` was
    called for the rows in :attr:`tied`. If fewer exist, the rest have score minus infinity.

    Args:
        log_probs: Log-probabilities of the next token, ``[batch, beam, vocabulary]``.
        totals: Log-probabilities of the live hypotheses, ``[batch, beam]``.
        count: Continuations per sentence.

    Attributes:
        tied: True for sentences with equal scores, ``[batch]``. Reading it waits for a GPU, so the caller does it.
    """

    def __init__(self, log_probs: Tensor, totals: Tensor, count: int) -> None:
        self._log_probs, self._totals, self._count = log_probs, totals, count
        _, beam, vocabulary = log_probs.shape
        # One additional candidate shows if there is a tie for the last place.
        size = min(count + 1, beam * vocabulary)
        search = _largest if log_probs.numel() <= _FEW or vocabulary < 4 * _BLOCK else _largest_by_blocks
        self._scores, self._indices = search(log_probs, totals, size)
        # torch.topk does not define the order or choice of equal scores. Equal scores are neighbors here; impossible
        # candidates need no order.
        pairs = (self._scores[:, 1:] == self._scores[:, :-1]) & (self._scores[:, 1:] > _NEVER)
        self.tied = pairs.any(dim=1)

    def break_ties(self, rows: list[int]) -> None:
        """Order equal scores of these sentences by beam, then token, in place.

        Impossible candidates stay in place behind the possible ones; nothing reads them.
        """
        scores, indices = self._scores, self._indices
        for row in rows:
            every = (self._log_probs[row] + self._totals[row].unsqueeze(-1)).flatten()
            chosen = ((every >= scores[row, -1]) & (every > _NEVER)).nonzero().squeeze(1)
            ordered, places = every[chosen].sort(descending=True, stable=True)
            possible = min(scores.shape[1], len(chosen))
            scores[row, :possible] = ordered[:possible]
            indices[row, :possible] = chosen[places[:possible]]

    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, parent beams and tokens, each ``[batch, count]``.

        A score is the log-probability of the continued hypothesis.
        """
        scores, indices = self._scores[:, : self._count], self._indices[:, : self._count]
        if (missing := self._count - scores.shape[1]) > 0:
            scores = pad_tensor(scores, (0, missing), value=_NEVER)
            indices = pad_tensor(indices, (0, missing))
        vocabulary = self._log_probs.shape[-1]
        parents = indices // vocabulary
        return scores, parents, indices - parents * vocabulary


def true_rows(flags: Sequence[object]) -> list[int]:
    """Return the numbers of the rows whose flag is true."""
    return [row for row, flag in enumerate(flags) if flag]


def _largest(log_probs: Tensor, totals: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores, descending, and their indices, both ``[batch, size]``.

    An index is beam · vocabulary + token.
    """
    scores, indices = (log_probs + totals.unsqueeze(-1)).flatten(1).topk(size)
    return scores, indices


def _largest_by_blocks(log_probs: Tensor, totals: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the same as ``_largest``, from the blocks of 64 tokens with the largest maxima.

    Rounding is monotonic, so a block's maximum plus the total equals the maximum of its scores exactly. ``size`` blocks
    are enough. Of equal scores, others may be returned, in another order.
    """
    _, beam, vocabulary = log_probs.shape
    whole = vocabulary // _BLOCK
    edge = whole * _BLOCK
    maxima = log_probs[..., :edge].unflatten(-1, (whole, _BLOCK)).amax(-1)
    if edge < vocabulary:
        maxima = torch.cat((maxima, log_probs[..., edge:].amax(-1, keepdim=True)), dim=-1)
    blocks = maxima.shape[-1]
    best = (maxima + totals.unsqueeze(-1)).flatten(1).topk(min(size, beam * blocks), sorted=False).indices
    parents = best // blocks
    # Block b starts at index b * _BLOCK minus the padding of earlier beams. In a partial last block, padding repeats
    # the last token with a score of minus infinity.
    missing = blocks * _BLOCK - vocabulary
    begins = best * _BLOCK - parents * missing if missing else best * _BLOCK
    indices = begins.unsqueeze(-1) + torch.arange(_BLOCK, device=best.device)
    if missing:
        last = (parents * vocabulary + (vocabulary - 1)).unsqueeze(-1)
        beyond = indices > last
        indices = torch.minimum(indices, last)
    scores = log_probs.flatten(1).gather(1, indices.flatten(1)).view_as(indices)
    scores += totals.gather(1, parents).unsqueeze(-1)
    if missing:
        scores.masked_fill_(beyond, _NEVER)
    top, places = scores.flatten(1).topk(size)
    return top, indices.flatten(1).gather(1, places)
