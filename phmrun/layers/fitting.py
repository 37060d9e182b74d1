"""The nearest matrix of a structure to a given one, where nearness is that of matrices or of their outputs.

What is minimised over the structure's matrices Ŵ is ‖W - Ŵ‖², or with a covariance C = E[x xᵀ] of the inputs the
error of the outputs, E‖(W - Ŵ) x‖² = tr((W - Ŵ) C (W - Ŵ)ᵀ). Everything is computed in double precision.

Sources: Van Loan and Pitsianis 1993 (sums of Kronecker products by rearrangement); Eckart and Young 1936 (low rank, and
each block of a Monarch matrix); for C, whitening by its Cholesky factor where a closed form remains. Where none does,
the factors are improved in turn, each to its best for the others (alternating least squares), so that the error falls.
W is ``weight [k, d]``, C ``covariance [d, d]`` throughout.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RIDGE = 1e-6
"""Added to a covariance's diagonal, in parts of its mean: directions that no input has would be undetermined."""
ROUNDS = 40
"""Most rounds of alternating least squares."""
SETTLED = 1e-4
"""Relative gain of a round below which there is no further one."""


def error(weight: Tensor, fitted: Tensor, covariance: Tensor | None = None) -> float:
    """tr((W - Ŵ) C (W - Ŵ)ᵀ); the squared norm of W - Ŵ without a covariance."""
    gap = (weight - fitted).detach().double()
    return float((gap * (gap if covariance is None else gap @ covariance.double())).sum())


def energy_kept(weight: Tensor, fitted: Tensor, covariance: Tensor | None = None) -> float:
    """1 - error / the error of a zero matrix: the share of W, or of its outputs, that Ŵ keeps."""
    return 1.0 - error(weight, fitted, covariance) / error(weight, torch.zeros_like(weight), covariance)


def steadied(covariance: Tensor) -> Tensor:
    """The covariance in double precision with a small ridge."""
    covariance = covariance.double()
    ridge = RIDGE * float(covariance.diagonal().mean()) or 1.0
    return covariance + ridge * torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)


def best_low_rank(weight: Tensor, rank: int, covariance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """U ``[k, r]`` and V ``[r, d]`` of equal norm, whose product is the best matrix of that rank."""
    matrix = weight.double()
    if covariance is None:
        u, s, v = torch.linalg.svd(matrix, full_matrices=False)
        right = v[:rank]
    else:
        root = torch.linalg.cholesky(steadied(covariance))
        u, s, v = torch.linalg.svd(matrix @ root, full_matrices=False)
        right = torch.linalg.solve_triangular(root, v[:rank], upper=False, left=False)
    scale = s[:rank].sqrt()
    return u[:, :rank] * scale, scale.unsqueeze(1) * right


def best_low_rank_blocks(
    weight: Tensor, blocks: int, rank: int, covariance: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """U ``[b, b, k/b, r]`` and V ``[b, b, r, d/b]`` by block, whose products are the best blocks of that rank.

    Each block is by itself without a covariance. With one, a column of blocks is the best for the others: they are
    gone through in turn.
    """
    rows, columns = (-(-size // blocks) for size in weight.shape)
    target, steady = padded(weight, covariance, blocks * rows, blocks * columns)
    parts = [slice(number * columns, (number + 1) * columns) for number in range(blocks)]
    fitted = torch.zeros_like(target)
    u, v = [target] * blocks, [target] * blocks

    def improve() -> float:
        for number, own in enumerate(parts):
            root = torch.linalg.cholesky(steady[own, own])
            wanted = fitted[:, own] + _of_others(target - fitted, steady, own)
            # The blocks of a column read the same inputs: whitened by one root, each is fitted by an SVD of its own.
            left, values, right = torch.linalg.svd((wanted @ root).view(blocks, -1, columns), full_matrices=False)
            scale = values[:, :rank].sqrt()
            u[number] = left[..., :rank] * scale.unsqueeze(1)
            whitened = scale.unsqueeze(2) * right[:, :rank]
            v[number] = torch.linalg.solve_triangular(root, whitened, upper=False, left=False)
            fitted[:, own] = (u[number] @ v[number]).flatten(0, 1)
        return error(target, fitted, steady)

    _until_settled(improve, rounds=1 if covariance is None else ROUNDS)
    return torch.stack(u, 1), torch.stack(v, 1)


def best_coupled_blocks(
    weight: Tensor, b: Tensor, d: Tensor, c: Tensor, covariance: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """B ``[b, k/b, r]``, D ``[r, b, b]``, C ``[b, r, d/b]`` with block (i, j) of W ≈ B_i diag(D_ij) C_j.

    Begins with the best matrix of rank r, whose D is 1, and improves B, and for each column of blocks D and C, in turn.
    What a rank above W's leaves over keeps the values given.
    """
    blocks, rank, columns = c.shape
    target, steady = padded(weight, covariance, blocks * b.shape[1], blocks * columns)
    b, d, c = b.double().clone(), d.double().clone(), c.double().clone()
    left, right = best_low_rank(weight, rank, covariance)
    found = left.shape[1]
    b.flatten(0, 1)[: len(weight), :found] = left
    c[:, :found] = F.pad(right, (0, blocks * columns - right.shape[1])).view(found, blocks, columns).transpose(0, 1)
    d[:found] = 1.0
    parts = [slice(number * columns, (number + 1) * columns) for number in range(blocks)]
    rows = target.view(blocks, -1, target.shape[1])

    def built() -> Tensor:
        return torch.einsum("ikr,rij,jrc->ikjc", b, d, c).reshape(target.shape)

    def improve() -> float:
        coupled = torch.einsum("rij,jrc->irjc", d, c).flatten(2)  # [i, r, in]
        read = coupled @ steady
        for number in range(blocks):
            b[number] = _solved(read[number] @ coupled[number].t(), read[number] @ rows[number].t()).t()
        for number, own in enumerate(parts):
            wanted = _of_others(target - built(), steady, own).view(blocks, -1, columns)
            wanted = wanted + torch.einsum("ikr,ri,rc->ikc", b, d[:, :, number], c[number])
            seen = c[number] @ steady[own, own]
            inner = seen @ c[number].t()
            for row in range(blocks):
                gram = (b[row].t() @ b[row]) * inner
                right = torch.einsum("kr,kc,rc->r", b[row], wanted[row], seen)
                d[:, row, number] = _solved(gram, right.unsqueeze(1)).squeeze(1)
            mixed = (b * d[:, :, number].t().unsqueeze(1)).flatten(0, 1)
            c[number] = _solved(mixed.t() @ mixed, mixed.t() @ wanted.flatten(0, 1))
        return error(target, built(), steady)

    _until_settled(improve)
    return b, d, c


def best_circulant_blocks(weight: Tensor, size: int, covariance: Tensor | None = None) -> Tensor:
    """First columns ``[k/b, d/b, b]`` of the best circulant blocks: means along the diagonals of each.

    With a covariance the numbers of a row of blocks solve one linear least-squares problem.
    """
    down, across = (-(-each // size) for each in weight.shape)
    target, steady = padded(weight, covariance, down * size, across * size, 0.0)
    places = torch.arange(size)
    turned = (places.unsqueeze(1) - places) % size  # [p, m]: where a row reads number m
    order = (torch.arange(across).unsqueeze(1) * size + turned.unsqueeze(1)).flatten(1)  # [p, (J, m)]
    products = (target @ steady).view(-1, size, target.shape[1])
    columns = []
    for row, product in enumerate(products):
        there = range(min(size, len(weight) - row * size))  # rows that are not padding
        if row == 0 or len(there) < size:
            gram = sum((steady[order[p]][:, order[p]] for p in there), torch.zeros_like(steady))
        wanted = sum((product[p, order[p]] for p in there), torch.zeros_like(product[0]))
        columns.append(_solved(gram, wanted.unsqueeze(1)).view(across, size))
    return torch.stack(columns)


def best_sparse_low_rank(
    weight: Tensor, places: Tensor, rank: int, covariance: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U ``[k, r]``, V ``[r, d]`` and S ``[k, m]`` in the columns ``places [k, m]``, W ≈ U V + S.

    Each is the best for the rest, in turn.
    """
    target, steady = padded(weight, covariance, *weight.shape)
    grams = steady[places.unsqueeze(2), places.unsqueeze(1)]  # [k, m, m]
    factors = torch.linalg.cholesky(grams)
    u, v, s = target, target, target.new_zeros(places.shape)

    def improve() -> float:
        nonlocal u, v, s
        u, v = best_low_rank(target - torch.zeros_like(target).scatter_add(1, places, s), rank, covariance)
        wanted = ((target - u @ v) @ steady).gather(1, places)
        s = torch.cholesky_solve(wanted.unsqueeze(2), factors).squeeze(2)
        return error(target, u @ v + torch.zeros_like(target).scatter_add(1, places, s), steady)

    _until_settled(improve)
    return u, v, s


def padded(
    weight: Tensor, covariance: Tensor | None, rows: int, columns: int, ridge: float = RIDGE
) -> tuple[Tensor, Tensor]:
    """W, filled up with zeros, and C, or the identity, with a small variance of the inputs that fill up."""
    more_rows, more_columns = rows - weight.shape[0], columns - weight.shape[1]
    eye = torch.eye(columns, dtype=torch.float64, device=weight.device)
    steady = eye[more_columns:, more_columns:] if covariance is None else steadied(covariance)
    if more_columns:
        beyond = ridge * float(steady.diagonal().mean()) * eye[:more_columns, :more_columns]
        steady = torch.block_diag(steady, beyond)
    return F.pad(weight.double(), (0, more_columns, 0, more_rows)), steady


def _of_others(gap: Tensor, covariance: Tensor, own: slice) -> Tensor:
    """What some columns would have to add, to make up for the gap in all as far as their inputs tell of the others."""
    return _solved(covariance[own, own], covariance[own] @ gap.t()).t()


def _until_settled(improve: Callable[[], float], rounds: int = ROUNDS) -> None:
    """Repeats what improves, and tells the error, until it gains no more than a part of that."""
    best = float("inf")
    for _ in range(rounds):
        reached = improve()
        if reached >= (1 - SETTLED) * best:
            return
        best = reached


def best_kronecker_sum(
    weight: Tensor, p: int, q: int, rank: int, covariance: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A ``[rank, p, q]`` and S ``[rank, k/p, d/q]`` with W ≈ Σ_i A_i ⊗ S_i.

    W rearranged so that each of its p·q blocks is a row has one singular vector for each term. With a covariance this
    is where alternating least squares begins: in A for a given S, and in S for a given A, the error is quadratic. The
    rank numbers of a block are of unit norm on average, as in a new layer.
    """
    k, d = weight.shape
    s, t = k // p, d // q
    rearranged = weight.double().view(p, s, q, t).transpose(1, 2).reshape(p * q, s * t)
    u, values, v = torch.linalg.svd(rearranged, full_matrices=False)
    # Terms beyond the singular values stay zero; the systems below are then singular, which `_solved` allows for.
    found = min(rank, len(values))
    a = u.new_zeros(rank, p * q)
    b = u.new_zeros(rank, s * t)
    a[:found], b[:found] = u[:, :found].t(), values[:found, None] * v[:found]
    a, b = a.view(rank, p, q), b.view(rank, s, t)
    if covariance is not None:
        target, steady = weight.double(), steadied(covariance)

        def improve() -> float:
            nonlocal a, b
            b = second_factors(target, a, steady)
            a = _first_factors(target, steady, b, p, q)
            return error(target, torch.einsum("iab,ist->asbt", a, b).reshape(k, d), steady)

        _until_settled(improve)
    scale = (p * q / (float(a.square().sum()) or 1.0)) ** 0.5
    return a * scale, b / scale


def second_factors(weight: Tensor, a: Tensor, covariance: Tensor | None = None) -> Tensor:
    """The best S ``[r, k/p, d/q]`` for a given A ``[r, p, q]``: a linear least-squares problem."""
    rank, p, q = a.shape
    k, d = weight.shape
    s, t = k // p, d // q
    target, steady = padded(weight, covariance, k, d)
    mixers = a.double()
    gram = torch.einsum("iab,jac,bxcy->ixjy", mixers, mixers, steady.view(q, t, q, t)).reshape(rank * t, rank * t)
    right = torch.einsum("iab,asbx->ixs", mixers, (target @ steady).view(p, s, q, t)).reshape(rank * t, s)
    return _solved(gram, right).view(rank, t, s).transpose(1, 2)


def _first_factors(weight: Tensor, covariance: Tensor, b: Tensor, p: int, q: int) -> Tensor:
    """The best A ``[r, p, q]`` for a given S ``[r, k/p, d/q]``."""
    rank, s, t = b.shape
    blocks = covariance.view(q, t, q, t)
    gram = torch.einsum("isx,bxcy,jsy->ibjc", b, blocks, b).reshape(rank * q, rank * q)
    right = torch.einsum("asbx,isx->iba", (weight @ covariance).view(p, s, q, t), b).reshape(rank * q, p)
    return _solved(gram, right).view(rank, q, p).transpose(1, 2)


def _solved(gram: Tensor, right: Tensor) -> Tensor:
    """gram⁻¹ · right of a symmetric system that may be singular: then the solution of least norm."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    if not int(failed):
        found: Tensor = torch.cholesky_solve(right, factor)
        if bool(found.isfinite().all()):
            return found
    values, vectors = torch.linalg.eigh(gram)
    usable = values > values[-1].clamp(min=0) * 1e-13
    inverse = torch.where(usable, 1.0 / torch.where(usable, values, 1.0), 0.0)
    return vectors @ (inverse.unsqueeze(1) * (vectors.t() @ right))


def fit_by_gradient(module: nn.Module, weight: Tensor, covariance: Tensor | None = None, steps: int = 200) -> None:
    """Any structure, from the parameters that it has: L-BFGS on the error, so many iterations at most."""
    target = weight.detach()
    steady = None if covariance is None else steadied(covariance).to(target.dtype)
    # In parts of the whole error: L-BFGS's tolerances are absolute and should mean the same for all weights.
    total = max(error(target, torch.zeros_like(target), covariance), torch.finfo(target.dtype).tiny)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.LBFGS(parameters, max_iter=steps, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure() -> Tensor:
        optimizer.zero_grad()
        gap = target - module.materialize()  # type: ignore[operator]
        loss: Tensor = (gap * (gap if steady is None else gap @ steady)).sum() / total
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    for parameter in parameters:
        parameter.grad = None
