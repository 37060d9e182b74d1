"""The interface of every weight structure, its options, and the factory that builds one by name.

A structure is a recipe for a dense matrix ``W [out_features, in_features]`` from fewer numbers. The modules
(``Linear``, ``Embedding``, ``MultiheadAttention`` …) are written once, over any structure.
"""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, ClassVar, Literal, Protocol, get_args, get_origin, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError, unknown
from phmrun.layers import conformance
from phmrun.layers.fitting import fit_by_gradient
from phmrun.registry import EMBEDDINGS, FREEZE, STRUCTURES, Option

Application = Literal["dense", "factored"]
"""How a map is applied: W built, then one product with it; or the factors, without W."""


class BilinearForm(Protocol):
    """How the matrices of a structure compare vectors, xᵀ W_l y for labels l, without being built."""

    def sides(self, maps: Sequence[Any], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """Two sides whose inner products are the scores of all pairs.

        Args:
            maps: The structures W_l, one for each label.
            x: ``[…, n, in_features]``.
            y: ``[…, m, in_features]``.
            shift: u of the terms u_l·x, ``[labels, in_features]``; ``None`` where there are none.

        Returns:
            ``[…, n, size]`` and ``[…, m, labels, size]``.
        """

    def pairs(self, maps: Sequence[Any], x: Tensor, y: Tensor) -> Tensor:
        """xᵀ W_l y of vectors in the same position only, ``[…, in_features]`` twice ``-> […, labels]``."""


class Structure(nn.Module):
    """A recipe for a dense matrix ``W [out_features, in_features]``.

    A subclass takes ``(out_features, in_features, *, option=default, …)``, calls ``super().__init__`` with all of
    them, owns its parameters, and says how they are initialised (:meth:`reset_parameters`) and how ``W`` is built from
    them (:meth:`materialize`); where not all sizes or options go together, :meth:`check` says which. Each option is
    annotated ``Annotated[type, "what it means, with its unit"]``. All else has a default that is right for any matrix.

    Args:
        out_features: Rows of ``W``.
        in_features: Columns of ``W``.
        **options: The structure's own options, checked by :meth:`check`.

    Raises:
        PhmrunError: The options do not fit these sizes, or are not those of the constructor.
    """

    name: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    count_formula: ClassVar[str] = ""
    constraint: ClassVar[str] = "none"
    source: ClassVar[str] = ""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({},)
    """Options worth testing, which fit sizes that are multiples of 16; the generic tests run over each."""
    application: Application = "dense"
    """How ``Linear`` applies it unless told otherwise; "factored" where that is cheaper in training too."""
    pays_from: float = 640 * 2**10
    """So many bytes of weights less to read are worth the further calls of the packed factors, for a few tokens."""
    shareable: ClassVar[tuple[str, ...]] = ()
    """Parameters that maps may have in common, by the option ``share``; see :mod:`phmrun.layers.network`."""
    temporary: ClassVar[tuple[str, ...]] = ()
    """Parameters of training alone: neither W in evaluation nor the count of what is kept has them."""
    square: ClassVar[bool] = False
    """Whether only square matrices have the structure. A parser's classifiers over such a matrix have the linear terms
    that Matsuno et al. (2018) gave theirs in its place."""
    half_precision: ClassVar[bool] = True
    """Whether it computes in less than single precision; a Fourier transform does not."""
    bilinear: ClassVar[BilinearForm | None] = None
    """How it compares pairs of vectors in a biaffine form without W; ``None``: W is built."""

    def __init__(self, out_features: int, in_features: int, **options: Any) -> None:
        super().__init__()
        lacking = self.defaults().keys() ^ options.keys()
        if lacking:
            said = ", ".join(f"{name}={name}" for name in self.defaults())
            raise PhmrunError(
                f"the class {type(self).__qualname__} does not hand its options to the structure: {', '.join(lacking)}",
                hint=f"Call super().__init__(out_features, in_features{', ' if said else ''}{said}).",
            )
        # Before any parameter is made: a size that does not fit would fail in torch with no word of the option.
        reason = self.misfit(out_features, in_features, **options)
        if reason:
            size = f"{out_features}×{in_features}"
            known = STRUCTURES.names() if self.square else []
            able = [name for name in known if STRUCTURES.get(name).misfit(out_features, in_features) is None]
            raise PhmrunError(
                f"layer {self.name!r} cannot build a {size} matrix: {reason}",
                hint=f"Layers that can, with their usual options: {', '.join(able)}." if able else None,
            )
        self.out_features = out_features
        self.in_features = in_features
        self.options = options

    @classmethod
    def check(cls, out_features: int, in_features: int, **options: Any) -> str | None:
        """Why these options do not fit these sizes, with the valid values; ``None`` where they fit.

        Args:
            out_features: Rows of ``W``.
            in_features: Columns of ``W``.
            **options: All options of the constructor.
        """
        return None

    @classmethod
    def misfit(cls, out_features: int, in_features: int, **options: Any) -> str | None:
        """Why no ``W`` of these sizes can be built, as :meth:`check` says; options not given have their defaults."""
        options = {name: value for name, value in options.items() if name != FREEZE.name or name in cls.defaults()}
        if cls.square and out_features != in_features:
            return f"a {cls.name} matrix is square; valid: equal sizes"
        return cls.check(out_features, in_features, **{**cls.defaults(), **options})

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """All options with their defaults, which stand in the constructor alone."""
        return {option.name: option.default for option in options_of_function(cls.__init__)}

    @classmethod
    def count(cls, out_features: int, in_features: int, **options: Any) -> int:
        """The number of free parameters that are kept, of a map that stands alone or is the first to share.

        They are counted on a structure without memory. A closed form that overrides this is compared with what is
        built, whenever it is built.
        """
        with torch.device("meta"):
            structure = cls(out_features, in_features, **options)
        return structure.kept()

    def kept(self) -> int:
        """The number of its parameters but for those of training alone."""
        return sum(parameter.numel() for name, parameter in self.named_parameters() if name not in self.temporary)

    def reset_parameters(self, std: float) -> None:
        """Draws the parameters so that the entries of ``W`` have mean 0 and standard deviation ``std``."""
        raise NotImplementedError

    def materialize(self) -> Tensor:
        """``W [out_features, in_features]``, differentiable in the parameters."""
        raise NotImplementedError

    def rows(self, index: Tensor) -> Tensor:
        """Rows of ``W`` by number, ``[…] -> […, in_features]``; override where no table need be built."""
        return F.embedding(index, build_weight(self))

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """``inputs [tokens, in_features] -> [tokens, out_features]`` without building ``W``, where that is cheaper."""
        return F.linear(inputs, build_weight(self))

    def reduced(self, inputs: Tensor) -> tuple[Tensor, Tensor] | None:
        """The last product alone: narrower inputs ``[tokens, r]`` and a matrix ``[out_features, r]`` to apply to them.

        For what fuses that product with something else, such as the loss over a vocabulary; ``None`` where the matrix
        would not be smaller than W.
        """
        return None

    def packed(self) -> nn.Module | None:
        """A copy laid out for inference on few tokens, ``[tokens, in] -> [tokens, out]``; ``None``: no cheaper way.

        It pays where reading the weights, not arithmetic, takes the time: decoding a few tokens at a time.
        """
        return None

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Sets the parameters so that ``W`` is as near to a given matrix as the structure allows.

        By gradients, from the parameters as they are; override where there is a closed form.

        Args:
            weight: The matrix to come near to, ``[out_features, in_features]``.
            covariance: E[x xᵀ] of the inputs, ``[in_features, in_features]``: then the mean squared error of the
                outputs is what is made small, not that of the matrix.
        """
        fit_by_gradient(self, weight, covariance)

    def multiplications(self, tokens: int, application: Application | None = None) -> int:
        """Multiplications that apply W to so many vectors at once, in training.

        Args:
            tokens: Vectors.
            application: "dense": W is built once and then applied; "factored": it is not; its own way unless given.
        """
        if (application or self.application) == "factored":
            return tokens * self.token_multiplications()
        return self.build_multiplications() + tokens * self.out_features * self.in_features

    def token_multiplications(self) -> int:
        """Multiplications of the factored application to one vector."""
        return self.out_features * self.in_features

    def build_multiplications(self) -> int:
        """Multiplications that build W."""
        return 0

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """By the names of its own parameters that are factors of W: how many numbers each makes, out of how many.

        Their learning rates follow from it where ``training.optimizer.rates`` is "structure"; see
        :mod:`phmrun.engine.optimizers`. What is not named here has the rate of a dense matrix.
        """
        return {}

    def freeze(self, names: str) -> None:
        """Lets parameters stay as they are drawn.

        Args:
            names: Of its parameters, joined by commas; "none": all are trained.

        Raises:
            PhmrunError: It has no parameter of such a name.
        """
        own = {name: each for name, each in self.named_parameters() if name not in self.temporary}
        chosen = [name.strip() for name in names.split(",") if name.strip() not in ("", "none")]
        for name in chosen:
            if name not in own:
                raise unknown(f"parameter of layer {self.name!r} to freeze", name, [*own, "none"])
            own[name].requires_grad_(False)
        if chosen:
            self.options = {**self.options, FREEZE.name: ",".join(chosen)}

    def set_progress(self, done: float) -> None:
        """Told, before each optimizer step, which share of the training is done with that step; nothing by default."""

    def extra_repr(self) -> str:
        """Sizes and options, as ``torch.nn`` modules print theirs."""
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"out_features={self.out_features}, in_features={self.in_features}{options}"


def register(name: str) -> Callable[[type[Structure]], type[Structure]]:
    """Class decorator that makes a structure known under ``name`` on the command line and in configs.

    Raises:
        PhmrunError: The name is taken, or the class lacks something that a structure has.
    """

    def add(structure: type[Structure]) -> type[Structure]:
        structure.name = name
        if not _ships(structure):
            conformance.check_class(structure, Structure)
        STRUCTURES.add(name, structure)
        return structure

    return add


def options_of(name: str, *, table: bool = False) -> tuple[Option, ...]:
    """The options of the structure called ``name``, in the order of its constructor.

    Args:
        name: A structure, or an embedding.
        table: Whether the name is that of a table of vectors, which an embedding can be as well.

    Raises:
        PhmrunError: There is no such structure, or it is an embedding where a weight matrix is meant.
    """
    if table and name in EMBEDDINGS:
        known: tuple[Option, ...] = EMBEDDINGS.get(name).options
        return known
    if name in STRUCTURES:
        own = options_of_function(STRUCTURES.get(name).__init__)
        return own if any(option.name == FREEZE.name for option in own) else (*own, FREEZE)
    if name in EMBEDDINGS:
        raise PhmrunError(
            f"{name!r} makes the vectors of an embedding, not a weight matrix",
            valid=STRUCTURES.names(),
            hint=f"Use --embedding {name}.",
        )
    if table:
        raise unknown("embedding", name, [*STRUCTURES.names(), *EMBEDDINGS.names()])
    raise unknown("layer", name, STRUCTURES.names())


@functools.lru_cache(maxsize=256)
def options_of_function(function: Callable[..., Any]) -> tuple[Option, ...]:
    """The keyword-only parameters of a constructor, or of a function that builds something."""
    hints = get_type_hints(function, include_extras=True)
    options = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        annotation, text = hints.get(parameter.name, Any), ""
        if get_origin(annotation) is Annotated:
            annotation, text = get_args(annotation)[:2]
        options.append(Option(parameter.name, annotation, parameter.default, text))
    return tuple(options)


def build_structure(structure: "str | Structure", out_features: int, in_features: int, **options: Any) -> Structure:
    """A structure by name, or the given one where a matrix is shared (tied embeddings).

    Args:
        structure: A registered name, or a structure object to share.
        out_features: Rows of ``W``.
        in_features: Columns of ``W``.
        **options: Options of the named structure.

    Raises:
        PhmrunError: Unknown name, option or choice, sizes that do not fit, or a shared structure of another shape.
    """
    if isinstance(structure, Structure):
        if (structure.out_features, structure.in_features) != (out_features, in_features):
            raise PhmrunError(
                f"a shared {structure.out_features}×{structure.in_features} matrix cannot serve as "
                f"{out_features}×{in_features}"
            )
        return structure
    check_options(f"layer {structure!r}", options_of(structure), options)
    cls = STRUCTURES.get(structure)
    frozen = "none" if FREEZE.name in cls.defaults() else str(options.pop(FREEZE.name, "none"))
    build = cls if _ships(cls) else functools.partial(conformance.built, cls)  # on meta, a trial loads a compiler
    built: Structure = build(out_features, in_features, **options)
    if frozen != "none":
        built.freeze(frozen)
    return built


def checked_options(structure: str, options: Mapping[str, Any], *, table: bool = False) -> dict[str, Any]:
    """The options of a structure, or of an embedding where a ``table`` is meant, each of the type that it takes.

    Raises:
        PhmrunError: There is no such structure or option, or the value is none of its.
    """
    known = {option.name: option for option in options_of(structure, table=table)}
    checked = {}
    for name, value in options.items():
        if name not in known:
            raise unknown("option", name, known, what=f"the layer {structure!r} has no option {name!r}")
        try:
            checked[name] = TypeAdapter(known[name].annotation).validate_python(value)
        except ValidationError as error:
            raise PhmrunError(f"{value!r}: {error.errors()[0]['msg']}", where=f"{structure}.{name}") from error
    return checked


def check_options(what: str, known: tuple[Option, ...], given: Mapping[str, Any]) -> None:
    """Refuses options that ``what`` does not have, and values that are not among an option's choices.

    Raises:
        PhmrunError: The first that does not fit, with the valid ones.
    """
    annotations = {option.name: option.annotation for option in known}
    for name, value in given.items():
        if name not in annotations:
            raise unknown("option", name, annotations, what=f"{what} has no option {name!r}")
        if get_origin(annotations[name]) is Literal and value not in get_args(annotations[name]):
            raise unknown(f"{name} of {what}", str(value), get_args(annotations[name]))


def _ships(structure: type) -> bool:
    """Whether a class is part of this package, so that its tests have tried it."""
    return structure.__module__.startswith("phmrun.")


def build_weight(structure: Structure) -> Tensor:
    """W in the parameters' own precision, also under autocast."""
    with full_precision(structure):
        return structure.materialize()


def full_precision(structure: Structure) -> AbstractContextManager[Any]:
    """A context without autocast, under which n rounded terms would add up to a coarser W."""
    device = next(structure.parameters()).device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
