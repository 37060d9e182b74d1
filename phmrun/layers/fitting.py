"""The nearest matrix of a structure to a given one, where nearness is that of matrices or of their outputs.

What is minimised over the structure's matrices Ŵ is ‖W - Ŵ‖², or with a covariance C = E[x xᵀ] of the inputs the
error of the outputs, E‖(W - Ŵ) x‖² = tr((W - Ŵ) C (W - Ŵ)ᵀ). Everything is computed in double precision.

Sources: Van Loan and Pitsianis 1993 (sums of Kronecker products by rearrangement); Eckart and Young 1936 (low rank);
for C, whitening by its Cholesky factor where the first of these applies, alternating least squares for Kronecker sums.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

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
    found = min(rank, len(values))
    a = u.new_zeros(rank, p * q)
    b = u.new_zeros(rank, s * t)
    a[:found], b[:found] = u[:, :found].t(), values[:found, None] * v[:found]
    a, b = a.view(rank, p, q), b.view(rank, s, t)
    if covariance is not None:
        a, b = _alternated(weight.double(), steadied(covariance), a, b)
    scale = (p * q / float(a.square().sum()) or 1.0) ** 0.5
    return a * scale, b / scale


def second_factors(weight: Tensor, a: Tensor, covariance: Tensor | None = None) -> Tensor:
    """The best S ``[r, k/p, d/q]`` for a given A ``[r, p, q]``: a linear least-squares problem."""
    rank, p, q = a.shape
    k, d = weight.shape
    s, t = k // p, d // q
    eye = torch.eye(d, dtype=torch.float64, device=weight.device)
    blocks = (eye if covariance is None else steadied(covariance)).view(q, t, q, t)
    product = weight.double() @ blocks.reshape(d, d)
    mixers = a.double()
    gram = torch.einsum("iab,jac,bxcy->ixjy", mixers, mixers, blocks).reshape(rank * t, rank * t)
    right = torch.einsum("iab,asbx->ixs", mixers, product.view(p, s, q, t)).reshape(rank * t, s)
    return _solved(gram, right).view(rank, t, s).transpose(1, 2)


def _first_factors(weight: Tensor, covariance: Tensor, b: Tensor, p: int, q: int) -> Tensor:
    """The best A ``[r, p, q]`` for a given S ``[r, k/p, d/q]``."""
    rank, s, t = b.shape
    blocks = covariance.view(q, t, q, t)
    gram = torch.einsum("isx,bxcy,jsy->ibjc", b, blocks, b).reshape(rank * q, rank * q)
    right = torch.einsum("asbx,isx->iba", (weight @ covariance).view(p, s, q, t), b).reshape(rank * q, p)
    return _solved(gram, right).view(rank, q, p).transpose(1, 2)


def _alternated(weight: Tensor, covariance: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A and S improved in turn until a round gains nothing."""
    p, q = a.shape[1:]
    best = error(weight, torch.zeros_like(weight), covariance)
    for _ in range(ROUNDS):
        b = second_factors(weight, a, covariance)
        a = _first_factors(weight, covariance, b, p, q)
        now = error(weight, torch.einsum("iab,ist->asbt", a, b).reshape(weight.shape), covariance)
        if best - now <= SETTLED * best:
            break
        best = now
    return a, b


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


def best_blocks(
    weight: Tensor, row_groups: Sequence[Tensor], groups: int, covariance: Tensor | None = None
) -> list[Tensor]:
    """Σ W_g C_g and Σ C_g of the least-squares problem of each block on the diagonal, as ``[wanted, gram]``.

    Args:
        weight: ``[k, d]``.
        row_groups: The numbers of the rows of each group.
        groups: Groups of columns, each a run of d/groups.
        covariance: ``[d, d]``.
    """
    width = weight.shape[1] // groups
    eye = torch.eye(weight.shape[1], dtype=torch.float64, device=weight.device)
    steady = eye if covariance is None else steadied(covariance)
    product = weight.double() @ steady
    columns = [slice(group * width, (group + 1) * width) for group in range(groups)]
    wanted = torch.stack([product[rows, own] for rows, own in zip(row_groups, columns, strict=True)])
    return [wanted, torch.stack([steady[own, own] for own in columns])]


def fit_by_gradient(module: nn.Module, weight: Tensor, covariance: Tensor | None = None, steps: int = 200) -> None:
    """Any structure, from the parameters that it has: L-BFGS on the error.

    Args:
        module: A structure.
        weight: ``[k, d]``.
        covariance: ``[d, d]``.
        steps: Most iterations.
    """
    target = weight.detach()
    steady = None if covariance is None else steadied(covariance).to(target.dtype)
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
