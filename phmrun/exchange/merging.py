"""Merging of an adapted run: updates of frozen weights are added to them."""

from dataclasses import replace
from typing import Any

import torch

from phmrun.config import Experiment, LayerConfig
from phmrun.engine.adaptation import adapter_layers
from phmrun.engine.trained_model import TrainedModel
from phmrun.layers.network import made_for, set_structure, structures_of


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
    data: Any = config.data
    words: Any = getattr(data, "vocabulary", None)
    if config.adapts and hasattr(words, "path"):
        words = words.model_copy(update={"path": trained.run.vocabulary.resolve()})
        layers["data"] = data.model_copy(update={"vocabulary": words})
    return config.model_copy(update={**layers, "adapts": None})
