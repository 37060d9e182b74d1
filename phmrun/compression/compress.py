"""A trained run's matrices replaced by the nearest ones of a structure: the plan, and the run that begins with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from phmrun.compression.calibration import input_covariances, mean_loss
from phmrun.compression.maps import FittedMap, fitted_map, spread
from phmrun.config import Experiment
from phmrun.config.sections import LayerConfig, MapConfig
from phmrun.engine.counting import scope_of
from phmrun.engine.data import contents
from phmrun.engine.experiment import Derivation, build_data
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError, unknown
from phmrun.layers import options_of
from phmrun.layers.network import made_for, set_structure, structures_of
from phmrun.layers.structure import Structure
from phmrun.progress import progress
from phmrun.registry import STRUCTURES

ORDERS: dict[str, tuple[Any, ...]] = {
    "n": (2, 4, 8, 16),
    "budget": ("1/2", "1/4", "1/8", "1/16"),
    "groups": (2, 4, 8, 16),
    "blocks": (2, 4, 8, 16),
}
"""What is tried where a budget is spread: values of the first of these options that a structure has."""
DENSE = {"structure": "dense"}
SCOPES = ("embedding", "output")  # parts of a network whose matrices stay as they are, unless they are asked for


@dataclass(frozen=True)
class Plan:
    """What becomes of each map of a run."""

    maps: tuple[FittedMap, ...]  # every map that was to be replaced; those that stay dense have a damage of 0
    structures: Mapping[str, Structure]  # what stands for each, by name, fitted
    parameters: int  # of all these maps together
    dense_parameters: int  # of all of them dense
    # on the calibration data before, and with all of them replaced, in nats per unit; `None` without such data
    loss: tuple[float, float] | None
    # the structure and options of each map that is none of them, since it had a structure before
    others: Mapping[str, Mapping[str, Any]]

    def config_of(self, parent: Experiment, layer: LayerConfig, steps: int) -> Experiment:
        """The child's config: the parent's, with the layer for all maps, and those by name that have another.

        A layer that does not fit all of them is named for each that has it, and the others are dense.
        """
        inside = [one for one in self.maps if scope_of(one.name) not in SCOPES]
        if any(_misfit(layer.arguments, *one.shape) for one in inside):
            layer = LayerConfig()
        found = {**{one.name: one.layer for one in self.maps}, **self.others}
        others = [
            MapConfig(name=name, layer=LayerConfig(**one))
            for name, one in found.items()
            if one != layer.arguments or scope_of(name) in SCOPES
        ]
        training = parent.training.model_copy(update={"max_steps": steps, "max_epochs": None})
        return parent.model_copy(update={"layer": layer, "maps": tuple(others), "training": training})


def layer_of(name: str, options: Mapping[str, Any]) -> LayerConfig:
    """The config of a structure with all of its options.

    Raises:
        PhmrunError: There is no such structure or option.
    """
    known = {option.name: option.default for option in options_of(name)}
    for option in options:
        if option not in known:
            raise unknown("option", option, known, what=f"the layer {name!r} has no option {option!r}")
    return LayerConfig(structure=name, **options).with_defaults(known)


def make_plan(
    trained: TrainedModel,
    layer: LayerConfig,
    *,
    budget: Fraction | None,
    batches: int,
    fixed: bool,
    tables: Mapping[str, LayerConfig] | None = None,
    config: Experiment | None = None,
) -> Plan:
    """Fits a structure to every dense map inside the blocks of a trained network.

    Args:
        trained: The run, its weights loaded.
        layer: The structure.
        budget: Share of the dense parameters that is spread over the maps by what each costs; ``None``: all have the
            same structure.
        batches: Training batches to calibrate with; 0: the matrices alone decide.
        fixed: Whether the structure's order was given, so that a map has that or stays dense.
        tables: The structure of the maps of a further part: "embedding", "output".
        config: The experiment whose batches these are; the run's own unless given.

    Raises:
        PhmrunError: No map can have the structure, the budget is too small, or the data have another vocabulary.
    """
    tables = tables or {}
    module = trained.module.eval()
    present = structures_of(module.network)
    dense = {
        name: one
        for name, one in present.items()
        if one.name == "dense" and (scope_of(name) in tables or scope_of(name) not in SCOPES)
    }
    if absent := [scope for scope in tables if scope not in map(scope_of, dense)]:
        raise PhmrunError(f"the network has no dense matrix of its own there: {absent[0]}", where=trained.run.id)
    if budget is not None and not batches:
        raise PhmrunError("a budget is spread by what the maps cost on calibration data", where="--calibrate")
    data = _calibration(trained, config or trained.config, batches)
    covariances = input_covariances(module, data) if data else {}
    before = mean_loss(module, data) if data else None
    choices: dict[str, list[tuple[FittedMap, Structure]]] = {}
    with progress("fitting", len(dense), "maps") as advance:
        for name, old in dense.items():
            wanted = tables.get(scope_of(name), layer)
            candidates = [wanted.arguments] if budget is None or fixed else _candidates(wanted)
            choices[name] = _fits(name, old, candidates, covariances.get(name))
            # Each map is replaced alone. Spreading a budget assumes that such damages add up; the loss with all of them
            # replaced, below, shows what has come of that.
            if budget is not None and before is not None:
                choices[name] = [
                    (replace(one, damage=_loss_with(module, data, {name: new}) - before), new)
                    for one, new in choices[name]
                ]
            advance(1)
    if not any(choices.values()):
        reasons = [_misfit(layer.arguments, old.out_features, old.in_features) for old in dense.values()]
        already = f"all are {', '.join(sorted({one.name for one in present.values() if one.name != 'dense'}))} already"
        what = f"no map of the run fits the layer {layer.structure!r}: {reasons[0] if reasons else already}"
        raise PhmrunError(what, where=trained.run.id)
    chosen = _chosen(dense, choices, budget)
    structures = {name: structure for name, (_, structure) in chosen.items()}
    after = _loss_with(module, data, structures) if data else None
    return Plan(
        tuple(one for one, _ in chosen.values()),
        structures,
        sum(one.parameters for one, _ in chosen.values()),
        sum(one.out_features * one.in_features for one in dense.values()),
        None if before is None or after is None else (before, after),
        {
            name: {"structure": one.name, **one.options}
            for name, one in present.items()
            if one.name != "dense" and scope_of(name) not in SCOPES
        },
    )


def _chosen(
    dense: Mapping[str, Structure], choices: Mapping[str, list[tuple[FittedMap, Structure]]], budget: Fraction | None
) -> dict[str, tuple[FittedMap, Structure]]:
    """What becomes of each map; one that has no choice stays dense, and what the budget is better spent on may."""
    fitted = {name: fitted_map(name, old.materialize().detach(), old, None) for name, old in dense.items()}
    kept = {name: (replace(one, layer=DENSE, damage=0.0), dense[name]) for name, one in fitted.items()}
    if budget is None:
        return {name: (options or [kept[name]])[0] for name, options in choices.items()}
    every = {name: [kept[name], *options] for name, options in choices.items()}
    taken = spread({name: [one for one, _ in pairs] for name, pairs in every.items()}, budget)
    return {name: next(pair for pair in pairs if pair[0] is taken[name]) for name, pairs in every.items()}


def derivation(trained: TrainedModel, plan: Plan, weights: str, batches: int, *, taught: bool = False) -> Derivation:
    """What lets a run begin with those weights of the parent, and the planned maps in the places of its own.

    ``batches`` are the training batches that the plan was calibrated with; where the child is ``taught``, it learns
    from the parent's predictions as well.
    """

    def start(child: TrainingModule) -> None:
        state = child.network.state_dict()
        known = trained.module.network.state_dict()
        with torch.no_grad():
            for name, value in state.items():
                if name in known and known[name].shape == value.shape:
                    value.copy_(known[name])
            for name, structure in structures_of(child.network).items():
                if name in plan.structures:
                    structure.load_state_dict(plan.structures[name].state_dict())

    marks = {"compresses": trained.run.id, "weights": weights, "calibration": str(batches)}
    if not taught:
        return Derivation(marks, start)
    return Derivation({**marks, "teacher": trained.run.id}, start, trained)


def _calibration(trained: TrainedModel, config: Experiment, batches: int) -> list[Any]:
    """The first training batches of an experiment, whose tokens are those of the run."""
    if not batches and config is trained.config:
        return []
    data = build_data(config)
    data.prepare()
    if contents(data.vocabulary) != contents(trained.vocabulary):
        hint = "Of a translator, data.vocabulary.path takes the run's; other tasks need the run's own data."
        raise PhmrunError("these data make another vocabulary than the run has", where="data", hint=hint)
    return list(islice(data.train_dataloader(), batches))


def _candidates(layer: LayerConfig) -> list[dict[str, Any]]:
    """The structure with several values of the option that rules its size."""
    for option, values in ORDERS.items():
        if option in layer.options:
            return [{**layer.arguments, option: value} for value in values]
    return [layer.arguments]


def _fits(
    name: str, old: Structure, layers: Sequence[Mapping[str, Any]], covariance: Tensor | None
) -> list[tuple[FittedMap, Structure]]:
    """The structures that fit the sizes of one map, fitted to it."""
    fits = []
    weight = old.materialize().detach()
    for layer in layers:
        if not _misfit(layer, old.out_features, old.in_features):
            new = made_for(old, layer)
            new.reset_parameters(float(weight.std()))
            new.fit(weight, covariance)
            fits.append((fitted_map(name, weight, new, covariance), new))
    return fits


def _misfit(layer: Mapping[str, Any], out_features: int, in_features: int) -> str | None:
    """Why a map of these sizes cannot have the layer."""
    cls: type[Structure] = STRUCTURES.get(layer["structure"])
    return cls.misfit(out_features, in_features, **{key: layer[key] for key in layer if key != "structure"})


def _loss_with(module: TrainingModule, data: list[Any], structures: Mapping[str, Structure]) -> float:
    """The loss with some maps replaced."""
    old = structures_of(module.network)
    try:
        for name, structure in structures.items():
            set_structure(module.network, name, structure)
        return mean_loss(module, data)
    finally:
        for name in structures:
            set_structure(module.network, name, old[name])
