"""Adaptation: training of small updates (structure ``added``) of a trained run whose weights are frozen.

The config's key ``adapts`` names the base run. The module takes over its weights and freezes them, and checkpoints hold
the updates alone. ``base.json`` has the base run's id, the name of its weights, and their checksum.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import torch

from phmrun.config import Experiment, LayerConfig, Section
from phmrun.config.identity import subsections
from phmrun.documents import parse_json
from phmrun.engine.checkpoints import checksum_of
from phmrun.engine.module import TrainingModule
from phmrun.errors import PhmrunError, data_error
from phmrun.files import json_text, read_regular
from phmrun.layers.adapters import freeze_base
from phmrun.layers.network import structures_of
from phmrun.layers.structures.added import Added
from phmrun.ledger import Run
from phmrun.ledger.outcome import is_leader
from phmrun.registry import STRUCTURES

BASE = "base.json"


def adapter_layers(section: Section) -> Iterator[LayerConfig]:
    """Yield the layers of a config whose structures are updates of frozen weights.

    A layer comes before those inside it. Sections in tuples are searched, too; unknown structures are skipped.
    """
    structure = section.structure if isinstance(section, LayerConfig) else ""
    if isinstance(section, LayerConfig) and structure in STRUCTURES and STRUCTURES.get(structure).adapter:
        yield section
    for _, part in subsections(section):
        yield from adapter_layers(part)


def check_adaptation(config: Experiment) -> None:
    """Check that layers and base run of a config fit.

    A base run needs a layer that updates its weights. A layer with the option ``base=frozen`` needs a base run,
    or the folder of a model (``model.path``). All other maps of such a folder are dense, and ``maps`` has no updates.

    Raises:
        PhmrunError: (exit 2) One of these is missing, or an update is beside other maps; files are not looked up.
    """
    layers = list(adapter_layers(config))
    if config.adapts and not layers:
        what = "a base run is named, but no layer updates its weights"
        raise PhmrunError(what, where="adapts", hint="Use --layer added, or leave adapts out.")
    frozen = [layer for layer in layers if STRUCTURES.get(layer.structure).updates(**layer.options)]
    if getattr(config.model, "path", None) is not None:
        if (frozen and config.maps) or any(layer for entry in config.maps for layer in adapter_layers(entry)):
            hint = "model.only chooses the maps that are updated."
            raise PhmrunError("updates of a folder (added) do not go with single maps", where="maps", hint=hint)
        parts = {name: getattr(config, name).structure for name in ("layer", "embedding", "output")}
        if frozen and (other := next((name for name in parts if parts[name] not in ("dense", "added")), None)):
            what = f"beside updates of a folder (added), its matrices stay: {parts[other]!r} would not be trained"
            raise PhmrunError(what, where=f"{other}.structure", valid=("dense", "added"))
    elif frozen and not config.adapts:
        what = f"the layer {frozen[0].structure!r} with base=frozen updates the weights of a run, and none is named"
        hint = "Name it with --extend RUN, or draw the weights: --set layer.base=random."
        raise PhmrunError(what, where="layer.base", hint=hint)


def with_base(config: Experiment, parent: Run | None) -> tuple[Experiment, Run | None]:
    """Return a run's config with its base run, and the run whose training continues.

    If a layer updates frozen weights and the config names no base run, ``adapts`` becomes the absolute folder of
    ``parent``. No run is then continued (None). Otherwise both are returned unchanged.

    Args:
        config: Resolved config.
        parent: Run that is extended, or None.

    Raises:
        PhmrunError: (exit 2) No base run is named, or no layer updates its weights.
    """
    if parent is not None and not config.adapts and any(adapter_layers(config)):
        config, parent = config.model_copy(update={"adapts": parent.path.resolve()}), None
    check_adaptation(config)
    return config, parent


def with_base_vocabulary(config: Experiment, base: Path | None = None) -> Experiment:
    """Return a config whose data use the vocabulary of a base run, by default the run that the config adapts.

    The folder is ``vocabulary`` of the base run. The config is returned unchanged if there is no base run, or it has a
    folder already. So is one whose task reads no vocabulary from a folder.
    """
    words, base = getattr(config.data, "vocabulary", None), base or config.adapts
    if base is None or getattr(words, "path", config) is not None:
        return config
    return with_vocabulary(config, base / "vocabulary")


def with_vocabulary(config: Experiment, folder: Path) -> Experiment:
    """Return a config whose data use the vocabulary in a folder."""
    data: Any = config.data
    words = data.vocabulary.model_copy(update={"path": folder})
    return config.model_copy(update={"data": data.model_copy(update={"vocabulary": words})})


def base_run(config: Experiment, runs_dir: Path) -> Run:
    """Return the base run of a config that names one.

    It is the folder ``adapts``, else the folder of its name in ``runs_dir``. A run has a ``config.yaml``.

    Raises:
        PhmrunError: (exit 3) Neither is a run.
    """
    path = cast(Path, config.adapts)
    for folder in (path, runs_dir / path.name):
        if (folder / "config.yaml").is_file():
            return Run(folder)
    hint = f"Put the run {path.name} into {runs_dir}, or name it: --set adapts=FOLDER."
    raise data_error("the run whose weights are updated is missing", path, hint)


def adapt(module: TrainingModule, run: Run, base: Run, theirs: TrainingModule, weights: str) -> None:
    """Load the base run's weights into a module, in place, and freeze them.

    Its checkpoints then hold the updates alone. If the run has a ``base.json``, the weights must have its checksum;
    otherwise the first process writes it. The names of all other weights go into ``module.frozen``.

    Args:
        module: Module of the run, with new updates.
        run: The run.
        base: The base run.
        theirs: Module of the base run, with its weights.
        weights: Name of these weights: "best@400".

    Raises:
        PhmrunError: The base run has other weights than recorded (exit 3), or lacks a weight of the module in its shape
            (exit 2).
    """
    facts = {"run": base.id, "weights": weights, "sha256": checksum_of(theirs.network.state_dict())}
    path = run.path / BASE
    recorded = parse_json(read_regular(path)) if path.is_file() else None
    if recorded is not None and recorded != facts:
        what = "the run whose weights are updated has other weights than at the beginning"
        raise data_error(what, base.path, "Put its old checkpoints back, or train anew: phmrun train … --restart.")
    if missing := _take_over(module, theirs):
        what = f"the base run has no weights of this shape for {', '.join(missing[:3])}"
        hint = f"Change only layers to added, and keep the model's sizes; in a sweep: config: [{base.config_path}]."
        raise PhmrunError(what, where=base.path, hint=hint)
    freeze_base(module.network)
    inside = {id(weight) for update in _updates(module).values() for weight in update.parameters()}
    named = module.named_parameters(remove_duplicate=False)
    module.frozen = frozenset(name for name, weight in named if id(weight) not in inside)
    if recorded is None and is_leader():
        run.write(path, json_text(facts))


@torch.no_grad()
def _take_over(module: TrainingModule, theirs: TrainingModule) -> list[str]:
    """Copy the base run's weights into the module, in place.

    Its matrices become W₀ of the updates with ``base="frozen"``; all other weights outside the updates are copied by
    name. Updates with another base are only checked. Return the names of updates and weights that the base run lacks,
    or has in another shape; these are not copied.
    """
    theirs.eval()  # a guided matrix is then that of its structure alone
    updates, matrices = _updates(module), structures_of(theirs.network)
    state, weights = module.network.state_dict(), theirs.network.state_dict()
    missing = []
    for name, update in updates.items():
        weight = matrices[name].materialize() if name in matrices else None
        if weight is None or weight.shape != update.base.shape:
            missing.append(name)
        elif update.options["base"] == "frozen":
            update.take_over(weight)
    inside = {tensor.data_ptr() for update in updates.values() for tensor in update.state_dict().values()}
    for name, value in state.items():
        if value.data_ptr() in inside:
            continue
        if name in weights and weights[name].shape == value.shape:
            value.copy_(weights[name])
        else:
            missing.append(name)
    return missing


def _updates(module: TrainingModule) -> dict[str, Added]:
    """Return the structures ``added`` of a module's network, by name."""
    structures = structures_of(module.network)
    return {name: structure for name, structure in structures.items() if isinstance(structure, Added)}
