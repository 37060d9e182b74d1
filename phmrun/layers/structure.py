"""Base class of weight structures, and the factory by name.

A structure computes a dense matrix ``W [out_features, in_features]`` from fewer parameters. The modules (``Linear``,
``Embedding``, ``MultiheadAttention`` …) work with any structure.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.config.options import checked_options, options_of, section_of
from phmrun.errors import PhmrunError, unknown
from phmrun.layers import conformance
from phmrun.layers.fitting import fit_by_gradient, fit_linear
from phmrun.registry import FREEZE, STRUCTURES

Product = tuple[Callable[..., Tensor], tuple[Tensor, ...], dict[str, Any]]
"""Function of inputs ``[tokens, in_features]``, its factors of W, and its settings by name; it returns W x."""
TOKENS = 4096
"""Number of vectors over which counts of multiplications average the cost of building W."""
Application = Literal["dense", "factored"]
"""Application of a map: "dense" builds W, then one product; "factored" applies the factors without W."""


class BilinearForm(Protocol):
    """Bilinear form xᵀ W_l y of a structure, without building W."""

    def sides(self, maps: Sequence[Any], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return two sides whose inner products are the scores of all pairs.

        The score of x_i and y_j for label l is x_iᵀ W_l y_j + u_l·x_i.

        Args:
            maps: Structures W_l, one for each label.
            x: ``[…, n, in_features]``.
            y: ``[…, m, in_features]``.
            shift: u of the terms u_l·x, ``[labels, in_features]``; None: no such terms.

        Returns:
            ``[…, n, size]`` and ``[…, m, labels, size]``.
        """

    def pairs(self, maps: Sequence[Any], x: Tensor, y: Tensor) -> Tensor:
        """Return xᵀ W_l y of vectors at equal positions.

        ``[…, in_features]`` twice ``-> […, labels]``; ``maps`` are the W_l.
        """


class Structure(nn.Module):
    """Base class of weight structures: a parametrization of ``W [out_features, in_features]``.

    A subclass takes ``(out_features, in_features, *, option=default, …)`` and passes all of them to
    ``super().__init__``. It owns its parameters and defines :meth:`reset_parameters` and :meth:`materialize`. If not
    all sizes or options fit together, it overrides :meth:`check`. Each option is annotated
    ``Annotated[type, "what it means, with its unit"]``. All other methods have defaults that hold for any matrix.

    The constructor does not initialize the parameters; ``Linear``, ``Embedding`` and the like do.

    Args:
        out_features: Rows of ``W``.
        in_features: Columns of ``W``.
        **options: Options of the structure, checked by :meth:`check`.

    Raises:
        PhmrunError: The options do not fit these sizes, or are not those of the constructor.
    """

    name: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    count_formula: ClassVar[str] = ""
    constraint: ClassVar[str] = "none"
    source: ClassVar[str] = ""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Options of the generic tests.

    They fit sizes that are multiples of 16.
    """
    application: Application = "dense"
    """Default application in ``Linear``; "factored" if that is cheaper in training too."""
    pays_from: float = 640 * 2**10
    """Saved bytes of weights from which packed factors are faster than W for few tokens."""
    temporary: ClassVar[tuple[str, ...]] = ()
    """Parameters used in training only; they are not counted by :meth:`kept`."""
    adapter: ClassVar[bool] = False
    """True if W is a matrix without gradient plus an update that is trained (:mod:`phmrun.layers.adapters`)."""
    square: ClassVar[bool] = False
    """True if W must be square. Parsers' classifiers then have the linear terms of Matsuno et al. (2018)."""
    linear: ClassVar[bool] = False
    """True if W is linear in the parameters, so that :meth:`fit` is exact."""
    half_precision: ClassVar[bool] = True
    """True if the structure can compute in 16 bits.

    A Fourier transform cannot.
    """
    bilinear: ClassVar[BilinearForm | None] = None
    """Bilinear form for biaffine layers without W; None: build W."""
    as_released: bool = False
    """True for parameters as their authors' code has them; some of them may have no effect on W."""

    def __init__(self, out_features: int, in_features: int, **options: Any) -> None:
        super().__init__()
        lacking = sorted(self.defaults().keys() ^ options.keys())
        if lacking:
            passed = ", ".join(f"{name}={name}" for name in self.defaults())
            hint = f"Call super().__init__(out_features, in_features{', ' if passed else ''}{passed})."
            raise conformance.class_error(type(self), f"does not hand its options on: {', '.join(lacking)}", hint)
        # Check before creating parameters: torch's own error would not mention the option.
        reason = self.misfit(out_features, in_features, **options)
        if reason:
            size = f"{out_features}×{in_features}"
            raise PhmrunError(f"layer {self.name!r} cannot build a {size} matrix: {reason}")
        self.out_features = out_features
        self.in_features = in_features
        self.options = options

    @classmethod
    def check(cls, out_features: int, in_features: int, **options: Any) -> str | None:
        """Return why the options do not fit the sizes, or None.

        Here always None; a subclass overrides it.

        Args:
            out_features: Rows of ``W``.
            in_features: Columns of ``W``.
            **options: All options of the constructor.

        Returns:
            None if they fit, otherwise the reason with the valid values.
        """
        return None

    @classmethod
    def misfit(cls, out_features: int, in_features: int, **options: Any) -> str | None:
        """Return why no ``W`` of these sizes can be built, or None if it can.

        A ``square`` structure first needs equal sizes. Then :meth:`check` is called, with defaults for missing options.
        ``freeze`` is left out unless it is an option of the class.
        """
        options = {name: value for name, value in options.items() if name != FREEZE or name in cls.defaults()}
        if cls.square and out_features != in_features:
            return f"a {cls.name} matrix is square; valid: equal sizes"
        return cls.check(out_features, in_features, **{**cls.defaults(), **options})

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return all options with their defaults, in the order of the constructor.

        They are its keyword-only parameters; ``freeze``, which every structure accepts, is missing unless it is one.
        """
        return section_of(cls.__init__).defaults()

    def kept(self) -> int:
        """Return the number of parameters without the ``temporary`` ones; frozen ones count."""
        return sum(parameter.numel() for name, parameter in self.named_parameters() if name not in self.temporary)

    def frozen_count(self) -> int:
        """Return the number of entries of a frozen matrix that W is an update of.

        It is the map's matrix before the conversion, neither a parameter nor stored in files. Default: 0.
        """
        return 0

    def reset_parameters(self, std: float) -> None:
        """Draw the parameters in place, so that W has standard deviation ``std``.

        The mean of its entries is 0. Every subclass defines this.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def start_as_released(self) -> None:
        """Initialize as the authors' code does, in place, if ``as_released``.

        The default keeps the values of :meth:`reset_parameters`.
        """

    def materialize(self) -> Tensor:
        """Return ``W [out_features, in_features]``, differentiable in the parameters.

        Every subclass defines this.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of ``W`` by number, ``[tokens] -> [tokens, in_features]``.

        Here W is built first. Override if it need not be.
        """
        return F.embedding(index, build_weight(self))

    def product(self) -> Product | None:
        """Return the function, factors and settings that compute W x without W, differentiable in the parameters.

        None, as here, if W is built. Override if the factors alone are cheaper.
        """
        return None

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """Return W x for ``inputs [tokens, in_features]``, by :meth:`product`; without one, W is built first.

        Returns:
            ``[tokens, out_features]``.
        """
        if (product := self.product()) is None:
            return F.linear(inputs, build_weight(self))
        function, factors, settings = product
        return function(inputs, *factors, **settings)

    def reduced(self, inputs: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the operands of the last product, for fusion with a loss.

        Returns:
            Narrower inputs ``[tokens, r]`` and a matrix ``[out_features, r]``; None, as here, if the matrix would not
            be smaller than W.
        """
        return None

    def packed(self) -> nn.Module | None:
        """Return a module for inference on few tokens.

        Shapes: ``[tokens, in] -> [tokens, out]``.

        None without a :meth:`product`, or if W is as fast. The module holds copies of the factors. It is faster when
        memory bandwidth, not arithmetic, limits the speed, such as in decoding.
        """
        return None if (product := self.product()) is None else PackedFactors(*product)

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit the parameters to a matrix by least squares, in place.

        The default is exact if W is ``linear`` in the parameters. Otherwise it minimizes by gradients from the present
        parameters; override it if there is a closed form.

        Args:
            weight: Matrix to approximate, ``[out_features, in_features]``.
            covariance: E[x xᵀ] of the inputs, ``[in_features, in_features]``, to minimize the mean squared error of the
                outputs instead of the matrix.
        """
        fit = fit_linear if self.linear else fit_by_gradient
        fit(self, weight, covariance)

    def multiplications(self, tokens: int, application: Application | None = None) -> int:
        """Return the multiplications that apply W to a batch of vectors in training.

        Dense: build W, plus tokens · out · in. Factored: tokens · :meth:`token_multiplications`.

        Args:
            tokens: Number of vectors.
            application: "dense": build W once, then apply it; "factored": apply the factors. Default: the structure's
                ``application``.
        """
        if (application or self.application) == "factored":
            return tokens * self.token_multiplications()
        return self.build_multiplications() + tokens * self.out_features * self.in_features

    def token_multiplications(self) -> int:
        """Return the multiplications of the factored application to one vector.

        Here they are those of W.
        """
        return self.out_features * self.in_features

    def build_multiplications(self) -> int:
        """Return the multiplications that build W; here 0."""
        return 0

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return fan-out and fan-in of the factors of W, by parameter name.

        Here there are none. They determine the learning rates if ``training.optimizer.rates`` is "structure"; see
        :mod:`phmrun.engine.optimizers`. Parameters that are not listed have the rate of a dense matrix.
        """
        return {}

    def freeze(self, names: str) -> None:
        """Exclude parameters from training, in place: they keep their values.

        The names also replace the entry ``freeze`` of ``options``. Parameters that are frozen already stay so.

        Args:
            names: Names of parameters, separated by commas. "none" and empty names are ignored; without other names,
                nothing changes.

        Raises:
            PhmrunError: A name is not a parameter of the structure, or is a temporary one; those before it are frozen.
        """
        parameters = {name: value for name, value in self.named_parameters() if name not in self.temporary}
        chosen = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
        for name in chosen:
            if name not in parameters:
                raise unknown(f"parameter of layer {self.name!r} to freeze", name, [*parameters, "none"])
            parameters[name].requires_grad_(False)
        if chosen:
            self.options = {**self.options, FREEZE: ",".join(chosen)}

    @classmethod
    def updates(cls, **options: Any) -> bool:
        """Return True if W starts as the map's earlier matrix, with updates trained alone.

        All weights of the model but the updates are then frozen. Default: False.

        Args:
            **options: Options of the constructor; missing ones have their defaults.
        """
        return False

    def restore(self) -> None:
        """Rebuild tensors that state dicts leave out, in place.

        It is called after other code than ``load_state_dict`` has set the rest. Default: no effect.
        """

    def set_progress(self, done: float) -> None:
        """Receive the completed share of training, before each optimizer step.

        It is ignored here. ``done`` is 0 to 1, counted after the step.
        """

    def extra_repr(self) -> str:
        """Return the sizes and options, in the format of ``torch.nn`` modules."""
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"out_features={self.out_features}, in_features={self.in_features}{options}"


class PackedFactors(nn.Module):
    """Product y = W x by copies of W's factors.

    Args:
        function: Called with inputs ``[tokens, in_features]``, the factors and, by name, the settings.
        factors: Factors of W; they are copied and get no gradient.
        settings: Keyword arguments of the function.
    """

    def __init__(self, function: Callable[..., Tensor], factors: Sequence[Tensor], settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.function = functools.partial(function, **settings)
        self.factors = nn.ParameterList(
            nn.Parameter(factor.detach().clone().contiguous(), requires_grad=False) for factor in factors
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return W x, ``[tokens, in_features] -> [tokens, out_features]``."""
        return self.function(inputs, *self.factors).contiguous()


def register(name: str) -> Callable[[type[Structure]], type[Structure]]:
    """Return a class decorator that registers a structure under ``name``.

    It sets the class's attribute ``name`` and returns the class.

    Raises:
        PhmrunError: The decorator is used with a malformed or taken name, or on a third-party class that lacks a part
            of a structure.
    """

    def add(structure: type[Structure]) -> type[Structure]:
        """Set the class's name, check a third-party class, register it and return it."""
        structure.name = name
        if not _ships(structure):
            conformance.check_class(structure, Structure)
        STRUCTURES.add(name, structure)
        return structure

    return add


def build_structure(structure: "str | Structure", out_features: int, in_features: int, **options: Any) -> Structure:
    """Build a structure by name, or return a shared structure object.

    A structure object is returned as it is. The parameters of a new structure are not initialized. Those in the option
    ``freeze`` get no gradient. A third-party class is validated, see :func:`phmrun.layers.conformance.built`.

    Args:
        structure: A registered name, or a structure object to share.
        out_features: Rows of ``W``.
        in_features: Columns of ``W``.
        **options: Options of the named structure, and ``freeze``; a structure object ignores them.

    Raises:
        PhmrunError: Unknown name, option, choice or parameter to freeze, sizes that do not fit, or a shared structure
            of another shape.
    """
    if isinstance(structure, Structure):
        if (structure.out_features, structure.in_features) != (out_features, in_features):
            raise PhmrunError(
                f"a shared {structure.out_features}×{structure.in_features} matrix cannot serve as "
                f"{out_features}×{in_features}"
            )
        return structure
    options = checked_options(f"layer {structure!r}", options_of(structure), options)
    cls = STRUCTURES.get(structure)
    frozen = "none" if FREEZE in cls.defaults() else options.pop(FREEZE, "none")
    build = cls if _ships(cls) else functools.partial(conformance.built, cls)  # a trial on meta imports a compiler
    built: Structure = build(out_features, in_features, **options)
    if frozen != "none":
        built.freeze(frozen)
    return built


def _ships(structure: type) -> bool:
    """Return True if a class is defined in the package ``phmrun``, whose tests cover it."""
    return structure.__module__.startswith("phmrun.")


def draw_uniform(tensor: Tensor, std: float) -> None:
    """Draw a tensor uniformly with mean 0 and standard deviation ``std``, in place."""
    nn.init.uniform_(tensor, -(3**0.5) * std, 3**0.5 * std)


def build_weight(structure: Structure) -> Tensor:
    """Return W in the precision of the parameters, also under autocast.

    It is differentiable in the parameters, and computed at each call; of a dense structure it is the parameter itself.
    """
    with full_precision(structure):
        return structure.materialize()


def full_precision(structure: Structure) -> AbstractContextManager[Any]:
    """Return a context without autocast on the device of a structure's parameters.

    It has no effect if autocast is off there. Under autocast, sums of n terms would lose precision.
    """
    device = next(structure.parameters()).device.type
    # Of the devices only "meta" has no autocast; torch.compile cannot trace is_autocast_available before torch 2.13.
    if device != "meta" and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
