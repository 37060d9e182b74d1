"""Import of a third-party checkpoint as a run directory, on which all verbs work."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from phmrun.config import Source, Task, resolve, run_id, to_yaml
from phmrun.config.identity import canonical_identity
from phmrun.config.options import options_of
from phmrun.config.sections import NO_DATA
from phmrun.engine.adaptation import with_vocabulary
from phmrun.engine.checkpoints import save_start
from phmrun.engine.counting import count_parameters
from phmrun.engine.module import build_module
from phmrun.errors import PhmrunError, data_error
from phmrun.exchange.checkpoint import WEIGHTS, read_checkpoint
from phmrun.exchange.huggingface import describe, load_weights
from phmrun.files import write_json
from phmrun.ledger import Run, State
from phmrun.models.transformer import Transformer
from phmrun.registry import TASKS

ORIGIN = "imported.json"
LONGEST_NAME = 80  # characters of the checkpoint's name in a run id


@dataclass(frozen=True)
class ImportedRun:
    """Result of an import."""

    run: Run
    kind: str  # model type: "t5", "marian"
    parameters: int  # number of parameters


def import_checkpoint(directory: Path, task: str, *, runs_dir: Path, data: Mapping[str, Any]) -> ImportedRun:
    """Create a finished run from a checkpoint.

    Its name is ``<task>-<checkpoint>-<12 hexadecimal digits>``. The run has the vocabularies, the parameter counts, the
    weights as its first checkpoint, and ``imported.json`` with the origin.

    Args:
        directory: Directory written by Hugging Face's ``save_pretrained``; only read.
        task: Name of a sequence-to-sequence task.
        runs_dir: Directory of all runs.
        data: Keys of the data section, for later scoring and training. Without a name or prefix, the run has no data:
            scoring names a test set. The languages are then the checkpoint's, or "input" and "output".

    Raises:
        PhmrunError: The task is not sequence-to-sequence (exit 2); the checkpoint is damaged, pickled, or of an
            unsupported kind, or its config.json describes over twice the parameters it holds (exit 3).
        PhmrunError: The options are invalid.
    """
    description: Task = TASKS.get(task)
    if not description.converts:
        what = f"checkpoints can be imported for translation tasks only, not {task}"
        raise PhmrunError(what, where="--task", valid=[name for name in TASKS.names() if TASKS.get(name).converts])
    checkpoint = read_checkpoint(directory)
    imported = describe(checkpoint)
    kind = str(checkpoint.config["model_type"])
    vocabulary = {"joint": True, "multiple_of": 1, "size": len(imported.vocabularies.source)}
    if not data.keys() & {"name", "prefix"}:
        data = {"source": "input", "target": "output", **data, "name": NO_DATA}
    values = {"data": {**data, "vocabulary": vocabulary}, "model": imported.model, "decoding": imported.decoding}
    config = resolve(description.load("schema"), [Source(f"the checkpoint {kind}", values)], options_of).config
    counts = count_parameters(config, imported.vocabularies.sizes)
    held = sum(tensor.numel() for tensor in checkpoint.tensors.values())
    if counts["total"] > 2 * held:  # checked before building, which might exhaust the memory
        what = f"config.json describes {counts['total']:,} parameters, not the {held:,} that {WEIGHTS} holds"
        raise data_error(what, directory)
    module = build_module(config, *imported.vocabularies.sizes)
    load_weights(checkpoint, imported, cast(Transformer, module.network))
    marks = {"imported": checkpoint.sha256}
    source = re.sub(r"[^A-Za-z0-9._]+", "-", checkpoint.source).strip("-.")[:LONGEST_NAME] or "checkpoint"
    name = f"{config.task}-{source}-{run_id(config, fingerprints=marks).rpartition('-')[2]}"
    run = Run.create(runs_dir, name, to_yaml(config))
    with run.lock():
        run.begin(canonical_identity(config, marks))
        run.set_state(State.RUNNING)
        imported.vocabularies.save(run.vocabulary)
        run.write_parameters(counts)
        run.write_config(to_yaml(with_vocabulary(config, run.vocabulary.resolve())))
        origin = {"from": str(directory.resolve()), "model_type": kind, "sha256": checkpoint.sha256}
        write_json(run.path / ORIGIN, origin)
        save_start(run.checkpoints, module)
        run.set_state(State.DONE, f"imported from {checkpoint.source}")
    return ImportedRun(run, kind, counts["total"])
