"""Least-squares fits of structures to a matrix, in the norm of matrices or of their outputs.

The fits minimize ‖W - Ŵ‖² over the structure's matrices Ŵ. With a covariance C = E[x xᵀ] of the inputs they minimize
the error of the outputs, E‖(W - Ŵ) x‖² = tr((W - Ŵ) C (W - Ŵ)ᵀ). Closed forms and alternating least squares compute in
double precision, fits by gradients in the precision of W.

Sources: Van Loan and Pitsianis 1993 (sums of Kronecker products by rearrangement); Eckart and Young 1936 (low rank, and
each block of a Monarch matrix). With C, a closed form is applied to matrices whitened by the Cholesky factor of C. If
there is no closed form, the factors are optimized in turn (alternating least squares) or by gradients, so that the
error falls.
W is ``weight [k, d]`` and C ``covariance [d, d]`` throughout.
"""

import copy
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

RIDGE = 1e-6
"""Ridge on a covariance's diagonal relative to its mean, for directions without inputs."""
ROUNDS = 40
"""Largest number of rounds of alternating least squares."""
SETTLED = 1e-4
"""Relative gain of a round below which the iteration stops."""


def error(weight: Tensor, fitted: Tensor, covariance: Tensor | None = None) -> float:
    """Return the squared error of Ŵ, or of its outputs.

    ‖W - Ŵ‖² without a covariance, otherwise tr((W - Ŵ) C (W - Ŵ)ᵀ).
    """
    gap = (weight - fitted).detach().double()
    return float((gap * (gap if covariance is None else gap @ covariance.double())).sum())


def energy_kept(weight: Tensor, fitted: Tensor, covariance: Tensor | None = None) -> float:
    """Return the share of W, or of its outputs, that Ŵ explains.

    1 - error / (error of a zero matrix); negative if Ŵ is worse than zero. Outputs count if there is a covariance. Of
    a matrix of zeros, only zeros explain anything.
    """
    total = error(weight, torch.zeros_like(weight), covariance)
    return 1.0 - error(weight, fitted, covariance) / max(total, sys.float_info.min)


def steadied(covariance: Tensor) -> Tensor:
    """Return the covariance in double precision, with a ridge on its diagonal.

    The ridge is 1e-6 (``RIDGE``) times the mean of the diagonal, or 1 if that is zero. It is raised tenfold until the
    sum is positive definite, which few inputs in single precision may not be.
    """
    covariance = covariance.double()
    ridge = RIDGE * float(covariance.diagonal().mean()) or 1.0
    eye = torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    while bool(covariance.isfinite().all()) and int(torch.linalg.cholesky_ex(covariance + ridge * eye).info):
        ridge *= 10
    return covariance + ridge * eye


def best_low_rank(weight: Tensor, rank: int, covariance: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the factors of the best matrix of rank r, U ``[k, r]`` and V ``[r, d]``.

    In double precision; r is ``rank``, at most min(k, d). Each column of U and row of V have equal norms; with a
    covariance, U and the whitened V do.
    """
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
    """Return the factors of the best blocks of rank r.

    U ``[b, b, k/b, r]`` and V ``[b, b, r, d/b]``, by row and column of blocks, in double precision; b is ``blocks``. If
    b does not divide the sizes of W, k/b and d/b are rounded up, and W is padded with zeros. Without a covariance,
    blocks are fitted independently. With one, columns of blocks are fitted in turn until the error settles
    (:func:`_until_settled`). r is ``rank``, at most the smaller side of a block.
    """
    rows, columns = (-(-size // blocks) for size in weight.shape)
    target, steady = padded(weight, covariance, blocks * rows, blocks * columns)
    parts = [slice(number * columns, (number + 1) * columns) for number in range(blocks)]
    fitted = torch.zeros_like(target)
    u, v = [target] * blocks, [target] * blocks

    def improve() -> float:
        """Fit all columns of blocks in turn; return the error."""
        for number, part in enumerate(parts):
            root = torch.linalg.cholesky(steady[part, part])
            wanted = fitted[:, part] + _correction(target - fitted, steady, part)
            # The blocks of a column read the same inputs: one root whitens all, then one SVD per block.
            left, values, right = torch.linalg.svd((wanted @ root).view(blocks, -1, columns), full_matrices=False)
            scale = values[:, :rank].sqrt()
            u[number] = left[..., :rank] * scale.unsqueeze(1)
            whitened = scale.unsqueeze(2) * right[:, :rank]
            v[number] = torch.linalg.solve_triangular(root, whitened, upper=False, left=False)
            fitted[:, part] = (u[number] @ v[number]).flatten(0, 1)
        return error(target, fitted, steady)

    _until_settled(improve, rounds=1 if covariance is None else ROUNDS)
    return torch.stack(u, 1), torch.stack(v, 1)


def best_coupled_blocks(
    weight: Tensor, b: Tensor, d: Tensor, c: Tensor, covariance: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return B, D and C of the best coupled blocks.

    Block (i, j) of W ≈ B_i diag(D_ij) C_j. The fit starts from the best matrix of rank r (D = 1); ranks beyond
    min(k, d) start from the given values. It optimizes B, then D and C for each column of blocks, and repeats this
    until the error settles (:func:`_until_settled`).

    Args:
        weight: W ``[k, d]``.
        b: Initial B ``[b, k/b, r]``; not changed.
        d: Initial D ``[r, b, b]``; not changed.
        c: Initial C ``[b, r, d/b]``; not changed.
        covariance: Covariance of the inputs ``[d, d]``.

    Returns:
        B, D and C in double precision.
    """
    blocks, rank, columns = c.shape
    target, steady = padded(weight, covariance, blocks * b.shape[1], blocks * columns)
    b, d, c = b.double().clone(), d.double().clone(), c.double().clone()
    left, right = best_low_rank(weight, rank, covariance)
    full = left.shape[1]
    b.flatten(0, 1)[: len(weight), :full] = left
    c[:, :full] = F.pad(right, (0, blocks * columns - right.shape[1])).view(full, blocks, columns).transpose(0, 1)
    d[:full] = 1.0
    parts = [slice(number * columns, (number + 1) * columns) for number in range(blocks)]
    rows = target.view(blocks, -1, target.shape[1])

    def built() -> Tensor:
        """Return the matrix of the present B, D and C."""
        return torch.einsum("ikr,rij,jrc->ikjc", b, d, c).reshape(target.shape)

    def improve() -> float:
        """Optimize B, then D and C by columns of blocks, in place; return the error."""
        coupled = torch.einsum("rij,jrc->irjc", d, c).flatten(2)  # [i, r, in]
        read = coupled @ steady
        for number in range(blocks):
            b[number] = _solve(read[number] @ coupled[number].t(), read[number] @ rows[number].t()).t()
        for number, part in enumerate(parts):
            wanted = _correction(target - built(), steady, part).view(blocks, -1, columns)
            wanted = wanted + torch.einsum("ikr,ri,rc->ikc", b, d[:, :, number], c[number])
            seen = c[number] @ steady[part, part]
            inner = seen @ c[number].t()
            for row in range(blocks):
                gram = (b[row].t() @ b[row]) * inner
                right = torch.einsum("kr,kc,rc->r", b[row], wanted[row], seen)
                d[:, row, number] = _solve(gram, right.unsqueeze(1)).squeeze(1)
            mixed = (b * d[:, :, number].t().unsqueeze(1)).flatten(0, 1)
            c[number] = _solve(mixed.t() @ mixed, mixed.t() @ wanted.flatten(0, 1))
        return error(target, built(), steady)

    _until_settled(improve)
    return b, d, c


def padded(weight: Tensor, covariance: Tensor | None, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return W padded with zeros, and C padded, in double precision.

    W becomes ``[rows, columns]``, C ``[columns, columns]``. C of None is the identity; otherwise it gets a ridge, see
    :func:`steadied`. Padded inputs have the variance :data:`RIDGE` times the mean of C's diagonal.
    """
    more_rows, more_columns = rows - weight.shape[0], columns - weight.shape[1]
    eye = torch.eye(columns, dtype=torch.float64, device=weight.device)
    steady = eye[more_columns:, more_columns:] if covariance is None else steadied(covariance)
    if more_columns:
        beyond = RIDGE * float(steady.diagonal().mean()) * eye[:more_columns, :more_columns]
        steady = torch.block_diag(steady, beyond)
    return F.pad(weight.double(), (0, more_columns, 0, more_rows)), steady


def _correction(gap: Tensor, covariance: Tensor, part: slice) -> Tensor:
    """Return the change of the columns ``part`` of Ŵ that best compensates the gap.

    The gap ``[k, d]`` is W - Ŵ in all columns; errors are weighted by the covariance.
    """
    return _solve(covariance[part, part], covariance[part] @ gap.t()).t()


def _until_settled(improve: Callable[[], float], rounds: int = ROUNDS) -> None:
    """Call ``improve``, which returns the error, until it settles.

    That is when a call lowers the least error by at most 1e-4 (``SETTLED``) of it, or after ``rounds`` calls, 40 by
    default. A call that raises the error ends the iteration, too; its result stays.
    """
    best = float("inf")
    for _ in range(rounds):
        current = improve()
        if current >= (1 - SETTLED) * best:
            return
        best = current


def best_kronecker_sum(weight: Tensor, p: int, q: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return the factors A, B of the sum of Kronecker products nearest to a matrix (Van Loan and Pitsianis 1993).

    The mean square of A is 1.

    Args:
        weight: Matrix ``[k, d]``; p divides k, q divides d.
        p: Rows of each A.
        q: Columns of each A.
        rank: Number r of products.

    Returns:
        A ``[r, p, q]`` and B ``[r, k/p, d/q]``, in float64.
    """
    k, d = weight.shape
    s, t = k // p, d // q
    rearranged = weight.double().view(p, s, q, t).transpose(1, 2).reshape(p * q, s * t)
    u, values, v = torch.linalg.svd(rearranged, full_matrices=False)
    full = min(rank, len(values))
    a = u.new_zeros(rank, p * q)
    b = u.new_zeros(rank, s * t)
    a[:full], b[:full] = u[:, :full].t(), values[:full, None] * v[:full]
    scale = (p * q / (float(a.square().sum()) or 1.0)) ** 0.5
    return a.view(rank, p, q) * scale, b.view(rank, s, t) / scale


def _solve(gram: Tensor, right: Tensor) -> Tensor:
    """Return gram⁻¹ · right of a symmetric system.

    If it is singular, return the solution of least norm; eigenvalues up to 1e-13 of the largest then count as 0.
    """
    factor, failed = torch.linalg.cholesky_ex(gram)
    if not int(failed):
        solution: Tensor = torch.cholesky_solve(right, factor)
        if bool(solution.isfinite().all()):
            return solution
    values, vectors = torch.linalg.eigh(gram)
    usable = values > values[-1].clamp(min=0) * 1e-13
    inverse = torch.where(usable, 1.0 / torch.where(usable, values, 1.0), 0.0)
    return vectors @ (inverse.unsqueeze(1) * (vectors.t() @ right))


def fit_by_gradient(module: nn.Module, weight: Tensor, covariance: Tensor | None = None, steps: int = 200) -> None:
    """Fit any structure from its present parameters by L-BFGS, in place.

    Only parameters that require a gradient change; their ``grad`` is None afterwards.

    Args:
        module: Structure to fit, in its present mode (training or evaluation).
        weight: Matrix to approximate.
        covariance: Covariance of the inputs, to minimize the error of the outputs; None: that of the matrix.
        steps: Largest number of iterations; L-BFGS may settle earlier.

    Raises:
        ValueError: No parameter requires a gradient.
    """
    target = weight.detach()
    steady = None if covariance is None else steadied(covariance).to(target.dtype)
    # Relative to the error of a zero matrix, since L-BFGS's tolerances are absolute.
    total = max(error(target, torch.zeros_like(target), covariance), torch.finfo(target.dtype).tiny)
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimizer = torch.optim.LBFGS(parameters, max_iter=steps, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def closure() -> Tensor:
        """Return the error relative to that of a zero matrix, with new gradients."""
        optimizer.zero_grad()
        gap = target - module.materialize()  # type: ignore[operator]
        loss: Tensor = (gap * (gap if steady is None else gap @ steady)).sum() / total
        loss.backward()
        return loss

    with torch.enable_grad():
        optimizer.step(closure)
    for parameter in parameters:
        parameter.grad = None


def fit_linear(module: nn.Module, weight: Tensor, covariance: Tensor | None = None, steps: int = 1000) -> None:
    """Fit a structure whose W is linear in its parameters, in place, by conjugate gradients in double precision.

    The result is the best in its class, up to rounding. Of several best ones, that with the smallest parameters.

    Args:
        module: Structure with ``materialize``.
        weight: Matrix to approximate, ``[out_features, in_features]``.
        covariance: E[x xᵀ] of the inputs, to minimize the error of the outputs; None: that of the matrix.
        steps: Largest number of steps.
    """
    exact = copy.deepcopy(module).double().requires_grad_()
    parameters, weight = list(exact.parameters()), weight.double()
    steady = None if covariance is None else steadied(covariance)

    def descent(values: Tensor, target: Tensor | float) -> Tensor:
        """Return minus the gradient of half the squared error of W(values) to a target."""
        nn.utils.vector_to_parameters(values, parameters)
        gap = target - exact.materialize()  # type: ignore[operator]
        loss = (gap * (gap if steady is None else gap @ steady)).sum() / 2
        return -torch.cat([gradient.flatten() for gradient in torch.autograd.grad(loss, parameters)])

    with torch.enable_grad():
        values = torch.zeros_like(nn.utils.parameters_to_vector(parameters).detach())
        residual = direction = descent(values, weight)
        first = size = float(residual @ residual)
        for _ in range(steps):
            if size <= 1e-24 * first:
                break
            curved = -descent(direction, 0.0)
            length = size / float(direction @ curved)
            values, residual = values + length * direction, residual - length * curved
            size, before = float(residual @ residual), size
            direction = residual + size / before * direction
    with torch.no_grad():
        nn.utils.vector_to_parameters(values, parameters)
        for parameter, value in zip(module.parameters(), parameters, strict=True):
            parameter.copy_(value)
