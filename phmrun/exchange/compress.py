"""Compression plan of a trained run, and the start of the compressed run."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import chain
from typing import Any, Literal

import torch
from torch import Tensor

from phmrun.config import Experiment, LayerConfig
from phmrun.config.options import checked_options, options_of
from phmrun.config.sections import MapConfig
from phmrun.config.training import TrainingConfig
from phmrun.engine.adaptation import adapter_layers, with_vocabulary
from phmrun.engine.calibration import calibration_batches, input_covariances, mean_loss, output_gradients
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import Derivation, TrainedModel, begin_guidance
from phmrun.errors import PhmrunError
from phmrun.exchange.maps import FittedMap, fitted_map, spread
from phmrun.layers.fitting import error
from phmrun.layers.network import DENSE, made_for, section_of, set_structure, structures_of
from phmrun.layers.structure import Structure
from phmrun.models.hugging_face import HuggingFaceNetwork
from phmrun.progress import progress
from phmrun.registry import EMBEDDINGS, STRUCTURES

ORDERS: dict[str, tuple[Any, ...]] = {
    "n": (2, 4, 8, 16),
    "budget": ("1/2", "1/4", "1/8", "1/16"),
    **dict.fromkeys(("groups", "blocks", "size"), (2, 4, 8, 16)),
}
"""Candidate values under a budget, for the first of these options that a structure has."""
Allocation = Literal["loss", "error"]
"""Measure of the damage by which a budget is allocated: loss with one map replaced, or error of its outputs."""
Maps = Mapping[str, Structure]
"""Structures of a network by name."""
Candidates = Mapping[str, Sequence[Mapping[str, Any]]]
"""Structures, with their options, that each map of a network may have."""
Fit = tuple[FittedMap, Structure]
"""Record of a fitted map, and its structure."""


@dataclass(frozen=True)
class Plan:
    """Replacement of each map of a run."""

    maps: tuple[FittedMap, ...]  # all candidate maps; those that stay dense have damage 0
    structures: Maps  # fitted replacement of each map, by name
    parameters: int  # total of these maps
    dense_parameters: int  # total of these maps if all are dense
    model_parameters: int  # total of the network as it was
    # calibration loss before and after the replacement, in nats per unit; None without calibration data
    loss: tuple[float, float] | None
    # structure and options of maps that had a structure before, or an entry in the config, and are not replaced
    others: Mapping[str, Mapping[str, Any]]
    sections: Mapping[str, str]  # section of the configuration of each map, by name
    by_section: bool = False  # True if a section alone names the structure of tables, as in networks of transformers

    @property
    def share(self) -> float:
        """Parameters of the compressed network over those of the network as it was.

        Maps that had a structure before and all other parameters count in both.
        """
        return 1 - (self.dense_parameters - self.parameters) / self.model_parameters

    def config_of(self, parent: Experiment, layer: LayerConfig, training: TrainingConfig) -> Experiment:
        """Return the child's config, with ``layer``, and ``maps`` with an entry for each map.

        All else is the parent's, except ``training``. If ``layer`` does not fit every map inside the blocks, the
        config's layer is dense instead; then dense maps get no entry, except those of embedding and output. Otherwise
        each map gets one, because ``layer`` does not reach every map: a parser's table of tags is always dense. Tables
        of transformers have no entry, but are named by the sections ``embedding`` and ``output``.

        Args:
            parent: Config of the parent, with the user's changes.
            layer: Structure of most maps.
            training: Section of the further training (:func:`further_training`).
        """
        inside = [item for item in self.maps if self.sections[item.name] == "layer"]
        if any(_misfit(layer.arguments, *item.shape) for item in inside):
            layer = LayerConfig()
        layers = {**{item.name: item.layer for item in self.maps}, **self.others}
        tables = {}
        for name in [name for name in layers if self.by_section and self.sections[name] != "layer"]:
            tables[self.sections[name]] = LayerConfig(**layers.pop(name))
        others = [
            MapConfig(name=name, layer=LayerConfig(**options))
            for name, options in layers.items()
            if not options == layer.arguments == DENSE or self.sections[name] != "layer"
        ]
        return parent.model_copy(update={"layer": layer, **tables, "maps": tuple(others), "training": training})


def layer_of(name: str, options: Mapping[str, Any], scope: str = "layer") -> LayerConfig:
    """Return a structure's config section with all its options.

    Missing ones have their defaults; values are not checked. ``scope`` is the command's option that an error names.

    Raises:
        PhmrunError: (exit 2) The structure or an option does not exist, or ``name`` is no weight structure.
    """
    if name in EMBEDDINGS and name not in STRUCTURES:
        what = f"{name!r} has no weight matrix that trained vectors could be fitted to"
        valid = [structure for structure in STRUCTURES.names() if not STRUCTURES.get(structure).adapter]
        raise PhmrunError(what, where=f"--{scope}", valid=valid)
    section = options_of(name)
    checked = checked_options(f"layer {name!r}", section, options)
    return LayerConfig(structure=name, **checked).with_defaults(section.defaults())


def make_plan(
    trained: TrainedModel,
    layer: LayerConfig,
    *,
    budget: Fraction | None,
    batches: int,
    fixed: Collection[str] = (),
    tables: Mapping[str, LayerConfig] | None = None,
    config: Experiment | None = None,
    others: Sequence[LayerConfig] = (),
    allocate: Allocation = "loss",
) -> Plan:
    """Fit a structure to every dense map inside a network's blocks.

    The network is left as it was, in eval mode, but that plain tables of transformers become dense structures. A map
    that the structure does not fit stays dense.

    Args:
        trained: The run, with its weights loaded.
        layer: The structure.
        budget: Share of the network's parameters to keep, allocated to the maps by their damage; None gives each map
            its structure as it is asked for.
        batches: Number of training batches for calibration; 0 fits the matrices alone.
        fixed: Parts, "layer" for the blocks, whose structure's order the user has set: a map has this one or stays
            dense.
        tables: Structures for the parts "embedding" and "output"; parts not named are kept.
        config: Experiment whose batches calibrate; None for the run's own.
        others: Further structures that a map may have under a budget.
        allocate: Damage of a candidate: "loss", the loss with this map alone replaced, measured for each candidate;
            "error", estimated to the second order from the error of the outputs and the loss's gradients there, which
            are measured once. Tables, and maps without such gradients, always have the measured damage.

    Raises:
        PhmrunError: (exit 2) No map, or no table of a named part, can have its structure; the budget is too small or
            lacks calibration batches; or the data have another vocabulary. Sizes are checked before the fit.
    """
    tables = tables or {}
    if any(STRUCTURES.get(item.structure).adapter for item in (layer, *others, *tables.values())):
        hint = f"Update it: phmrun train … --extend {trained.run.reference}"
        raise PhmrunError("updates of frozen weights are no compression", where=trained.run.id, hint=hint)
    if budget is not None and not batches:
        raise PhmrunError("a budget needs calibration batches: use --calibrate 8, for instance", where="--calibrate")
    module = trained.module.eval()
    present, sections, dense = _maps_of(trained, tables)
    wanted = {name: tables.get(sections[name], layer) for name in dense}
    candidates = {}
    for name, old in dense.items():
        kinds = [wanted[name], *(others if sections[name] == "layer" else ())]
        sizes = [[kind.arguments] if budget is None or sections[name] in fixed else _candidates(kind) for kind in kinds]
        candidates[name] = [it for it in chain(*sizes) if not _misfit(it, old.out_features, old.in_features)]
    _check_candidates(dense, candidates, wanted, sections)
    total = sum(parameter.numel() for parameter in module.network.parameters())
    idle = any(sections[name] == "embedding" and part.name == "dense" for name, part in present.items()) and not tables
    most = None if budget is None else _room(dense, candidates, budget, total, idle)
    data = calibration_batches(trained, config or trained.config, batches)
    covariances = input_covariances(module, data) if data else {}
    before = mean_loss(module, data) if data else None
    gradients = output_gradients(module, data) if budget is not None and allocate == "error" else {}
    choices: dict[str, list[Fit]] = {}
    with progress("fitting", len(dense), "maps") as advance:
        for name, old in dense.items():
            choices[name] = fits = _fits(name, old, candidates[name], covariances.get(name))
            # Each map is replaced alone. The allocation assumes that damages add up; the loss with all maps replaced,
            # below, shows whether they do.
            if budget is not None and before is not None:
                weight = old.materialize().detach()
                energy = error(weight, torch.zeros_like(weight), covariances.get(name)) * gradients.get(name, 0.0)
                choices[name] = [
                    (replace(fit, damage=energy * (1 - fit.output_energy)), new)
                    if name in gradients and fit.output_energy is not None
                    else (replace(fit, damage=_loss_with(module, data, {name: new}) - before), new)
                    for fit, new in fits
                ]
            advance(1)
    chosen = _chosen(dense, choices, most)
    structures = {name: structure for name, (_, structure) in chosen.items()}
    after = _loss_with(module, data, structures) if data else None
    return Plan(
        tuple(fit for fit, _ in chosen.values()),
        structures,
        sum(fit.parameters for fit, _ in chosen.values()),
        _size(dense),
        total,
        None if before is None or after is None else (before, after),
        {
            name: {"structure": structure.name, **structure.options}
            for name, structure in present.items()
            if (structure.name != "dense" and sections[name] == "layer")
            or (name not in dense and any(fnmatchcase(name, entry.name) for entry in trained.config.maps))
        },
        sections,
        isinstance(module.network, HuggingFaceNetwork),
    )


def _maps_of(trained: TrainedModel, tables: Collection[str]) -> tuple[Maps, Mapping[str, str], Maps]:
    """Return all structures of a network, the section of each, and the dense ones to replace; all by name.

    These are maps of the blocks, and those of ``tables``. Plain tables of transformers become dense structures first.

    Raises:
        PhmrunError: (exit 2) A table has no dense matrix of its own.
    """
    network = trained.module.network
    if isinstance(network, HuggingFaceNetwork):
        for scope in tables:
            network.expose(scope)
    present = structures_of(network)
    sections = {name: section_of(name, network) for name in present}
    wanted = ("layer", *tables)
    dense = {name: old for name, old in present.items() if old.name == "dense" and sections[name] in wanted}
    if absent := [scope for scope in tables if scope not in map(sections.get, dense)]:
        raise PhmrunError(f"the network has no separate dense matrix for {absent[0]}", where=trained.run.id)
    return present, sections, dense


def _chosen(dense: Maps, choices: Mapping[str, list[Fit]], most: int | None) -> dict[str, Fit]:
    """Choose the replacement of each map.

    With ``most`` of None it is the first candidate. Otherwise each map gets a candidate or stays dense, such that all
    have at most ``most`` parameters and little total damage (:func:`phmrun.exchange.maps.spread`). A map without
    candidates stays dense, with damage 0.
    """
    fitted = {name: fitted_map(name, old.materialize().detach(), old, None) for name, old in dense.items()}
    kept = {name: (replace(fit, layer=DENSE, damage=0.0), dense[name]) for name, fit in fitted.items()}
    if most is None:
        return {name: (options or [kept[name]])[0] for name, options in choices.items()}
    every = {name: [kept[name], *options] for name, options in choices.items()}
    taken = spread({name: [fit for fit, _ in pairs] for name, pairs in every.items()}, most)
    return {name: next(pair for pair in pairs if pair[0] is taken[name]) for name, pairs in every.items()}


def derivation(trained: TrainedModel, plan: Plan, weights: str, batches: int, *, taught: bool = False) -> Derivation:
    """Return the derivation of a compressed run from its parent.

    Its start copies the parent's weights of the same name and shape, then the planned replacements. Its marks are the
    entries ``compresses``, ``weights`` and ``calibration``, and ``teacher`` if ``taught``.

    Args:
        trained: The parent.
        plan: Its compression plan.
        weights: Label of the parent's weights.
        batches: Number of training batches that calibrated the plan.
        taught: True to distill from the parent's predictions as well.
    """

    def start(child: TrainingModule) -> None:
        """Copy the parent's weights and fitted structures into ``child``, in place; guidance begins anew."""
        state = child.network.state_dict()
        parent = trained.module.network.state_dict()
        for name in [name for name in parent if name.endswith(".structure.matrix")]:
            parent.setdefault(f"{name.removesuffix('structure.matrix')}weight", parent[name])  # of a plain layer
        with torch.no_grad():
            for name, value in state.items():
                if name in parent and parent[name].shape == value.shape:
                    value.copy_(parent[name])
            for name, structure in structures_of(child.network).items():
                if name in plan.structures:
                    structure.load_state_dict(plan.structures[name].state_dict())
        begin_guidance(child)

    marks = {"compresses": trained.run.id, "weights": weights, "calibration": str(batches)}
    teacher = {"teacher": trained.run.id} if taught else {}
    return Derivation({**marks, **teacher}, start, trained if taught else None)


def _candidates(layer: LayerConfig) -> list[dict[str, Any]]:
    """Return arguments of a structure in several sizes.

    The first option in ``ORDERS`` that it has is varied. Without such an option, the only candidate is the arguments as
    they are.
    """
    for option, values in ORDERS.items():
        if option in layer.options:
            return [{**layer.arguments, option: value} for value in values]
    return [layer.arguments]


def _fits(name: str, old: Structure, layers: Sequence[Mapping[str, Any]], covariance: Tensor | None) -> list[Fit]:
    """Return the candidates of a map, in order, fitted to its weight.

    They are drawn with the weight's standard deviation before the fit, so random numbers are used. The energy of the
    outputs is measured only with ``covariance``. ``old`` is not changed.
    """
    fits = []
    weight = old.materialize().detach()
    for layer in layers:
        new = made_for(old, layer)
        new.reset_parameters(float(weight.std()))
        new.fit(weight, covariance)
        fits.append((fitted_map(name, weight, new, covariance), new))
    return fits


def _check_candidates(
    dense: Maps, candidates: Candidates, wanted: Mapping[str, LayerConfig], sections: Mapping[str, str]
) -> None:
    """Check that some map, and every requested table, can have its structure; ``sections`` are those of the maps.

    Raises:
        PhmrunError: (exit 2) A table cannot, or no map can.
    """
    unable = [name for name in dense if not candidates[name]]
    tables = [name for name in unable if sections[name] != "layer"]
    if tables or len(unable) == len(dense):
        name = next(iter(tables or unable), None)
        what = "the run has no dense maps in its blocks"
        if name is not None:
            reason = _misfit(wanted[name].arguments, dense[name].out_features, dense[name].in_features)
            what = f"{wanted[name].structure!r} does not fit {name}: {reason}"
        raise PhmrunError(what, where=f"--{sections[name]}" if tables and name else "--layer")


def _room(dense: Maps, candidates: Candidates, budget: Fraction, total: int, idle: bool) -> int:
    """Return the largest number of parameters for the maps under a budget.

    Args:
        dense: Maps to replace.
        candidates: Their candidates; each may also stay dense.
        budget: Share of the parameters to keep.
        total: Parameters of the network.
        idle: True if a table could be replaced, too, and stays: the error recommends ``--embedding``.

    Raises:
        PhmrunError: (exit 2) The smallest candidates exceed the budget; the hint names the smallest possible budget.
    """
    kept = total - _size(dense)
    most = int(budget * total) - kept
    smallest = sum(
        min(old.out_features * old.in_features, *(_count(old, layer) for layer in candidates[name] or [DENSE]))
        for name, old in dense.items()
    )
    if smallest > most:
        what = f"the smallest model with these structures has {(smallest + kept) / total:.1%} of the parameters"
        enough = f"--budget {math.ceil(1000 * (smallest + kept) / total) / 1000}"
        more = "; --embedding low-rank also replaces the tables, which stay as they are" if idle else ""
        raise PhmrunError(what, where="--budget", hint=f"Use {enough} or more{more}.")
    return most


def _size(structures: Maps) -> int:
    """Return the number of parameters of dense matrices with the sizes of these structures."""
    return sum(structure.out_features * structure.in_features for structure in structures.values())


def _count(old: Structure, layer: Mapping[str, Any]) -> int:
    """Return a structure's number of parameters with the sizes of ``old``.

    Temporary ones are included.
    """
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in made_for(old, layer).parameters())


def _misfit(layer: Mapping[str, Any], out_features: int, in_features: int) -> str | None:
    """Return why a map of these sizes cannot have the layer.

    None if it can.
    """
    cls: type[Structure] = STRUCTURES.get(layer["structure"])
    return cls.misfit(out_features, in_features, **{key: layer[key] for key in layer if key != "structure"})


def _loss_with(module: TrainingModule, data: list[Any], structures: Maps) -> float:
    """Return the mean calibration loss with some maps replaced.

    The network gets its own maps back, also after an error.
    """
    old = structures_of(module.network)
    try:
        for name, structure in structures.items():
            set_structure(module.network, name, structure)
        return mean_loss(module, data)
    finally:
        for name in structures:
            set_structure(module.network, name, old[name])


@torch.no_grad()
def merge_updates(trained: TrainedModel) -> TrainedModel:
    """Return a run with its updates merged into dense matrices.

    A run without updates is returned itself. The weights must be loaded. The result is a copy of ``trained`` with the
    same module, whose maps are replaced in place, and with the config of :func:`without_updates`.
    """
    network = trained.module.network
    updates = {name: structure for name, structure in structures_of(network).items() if structure.adapter}
    for name, update in updates.items():
        dense = made_for(update, {"structure": "dense"})
        dense.fit(update.materialize())
        set_structure(network, name, dense)
    return replace(trained, config=without_updates(trained.config, trained)) if updates else trained


def without_updates(config: Experiment, trained: TrainedModel) -> Experiment:
    """Return a config of dense layers in place of updates, and of no base run.

    If ``config`` has a base run and the task reads vocabularies from folders, the vocabulary's path is that of the run
    ``trained``.
    """

    def dense(layer: LayerConfig) -> LayerConfig:
        """Return a dense layer in place of an update; other layers as they are."""
        return type(layer)(structure="dense").with_defaults({}) if [*adapter_layers(layer)] else layer

    layers: dict[str, Any] = {name: dense(getattr(config, name)) for name in ("layer", "embedding", "output")}
    layers["maps"] = tuple(item.model_copy(update={"layer": dense(item.layer)}) for item in config.maps)
    if config.adapts and hasattr(getattr(config.data, "vocabulary", None), "path"):
        config = with_vocabulary(config, trained.run.vocabulary.resolve())
    return config.model_copy(update={**layers, "adapts": None})
