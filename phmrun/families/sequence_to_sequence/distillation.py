"""Sequence-level distillation (Kim and Rush 2016, section 3.2): a trained translator's outputs as training targets."""

import hashlib
from dataclasses import replace
from typing import Any, cast

from phmrun.config import Experiment, Task, with_decoding
from phmrun.engine.experiment import build_data
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelData
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.files import write_text
from phmrun.models.ctranslate2 import digest_of
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel


def with_outputs_of(trained: TrainedModel, config: Experiment, weights: str) -> Experiment:
    """The config with a trained run's outputs for the training sources as targets, and with its vocabulary.

    They are found once by the engine CTranslate2, by the run's own search, and kept in the run's folder ``outputs``;
    in the place of an empty one stands the data's target.

    Raises:
        PhmrunError: The task has no outputs of text, or the engine is missing.
    """
    task: Task = TASKS.get(config.task)
    if not task.converts:
        raise PhmrunError(f"outputs to learn from are translators', and {config.task} is none", where="--sequences")
    files = cast(ParallelData, build_data(trained.config)).files
    sources, targets = zip(*read_parallel(*files["train"]), strict=True)
    fast = replace(trained, config=with_decoding(trained.config, {"engine": "ctranslate2"}))
    translator = cast(Translator, fast.loaded(weights, batch_size=None, device="cpu"))
    lines = hashlib.sha256("\n".join(sources).encode()).hexdigest()
    # Outputs are found once for the same weights, search and sources, and never taken for those of others.
    mark = f"{digest_of(trained.module)} {translator.signature} {lines}"
    path = trained.run.path / "outputs" / f"train-{hashlib.sha256(mark.encode()).hexdigest()[:12]}.txt"
    if not path.is_file():
        outputs = zip(translator.translate(sources), targets, strict=True)
        write_text(path, "".join(f"{output or target}\n" for output, target in outputs))
    places = {
        f"{split}_{side}": place
        for split, pair in {**files, "train": (files["train"][0], path)}.items()
        if split in ("train", "dev", "test")
        for side, place in zip(("source", "target"), pair, strict=True)
    }
    data: Any = config.data
    vocabulary = data.vocabulary.model_copy(update={"path": trained.run.vocabulary.resolve()})
    update = {**places, "name": "files", "prefix": None, "vocabulary": vocabulary}
    return config.model_copy(update={"data": data.model_copy(update=update)})
