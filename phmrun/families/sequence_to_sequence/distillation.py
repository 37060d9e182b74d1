"""Sequence-level distillation: a trained model's outputs as targets (Kim and Rush 2016, section 3.2)."""

import hashlib
from dataclasses import replace
from typing import Any, cast

from phmrun.config import Experiment, Task, with_decoding
from phmrun.engine.data import build_data
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError
from phmrun.families.sequence_to_sequence.data import ParallelData
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.files import write_text
from phmrun.layers.factored_file import digest_of
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel


def with_outputs_of(trained: TrainedModel, config: Experiment, weights: str) -> Experiment:
    """Return a config with a trained run's outputs as training targets.

    It also has the run's vocabulary, and the other splits of the run. The outputs for the run's training sources are
    computed once by CTranslate2, with the run's search settings, and stored in the run's folder ``outputs``. An empty
    output is replaced by the data's target.

    Args:
        trained: Trained run.
        config: Config to change; it is copied.
        weights: Name of the run's weights.

    Raises:
        PhmrunError: The task is not sequence-to-sequence, or the engine is missing.
    """
    task: Task = TASKS.get(config.task)
    if not task.converts:
        raise PhmrunError(f"outputs to learn from are translators', and {config.task} is none", where="--sequences")
    files = cast(ParallelData, build_data(trained.config)).files
    sources, targets = zip(*read_parallel(*files["train"]), strict=True)
    fast = replace(trained, config=with_decoding(trained.config, {"engine": "ctranslate2"}))
    translator = cast(Translator, fast.loaded(weights, batch_size=None, device="cpu"))
    lines = hashlib.sha256("\n".join(sources).encode()).hexdigest()
    # The file name identifies weights, search and sources.
    mark = f"{digest_of(trained.module.state_dict())} {translator.signature} {lines}"
    path = trained.run.own_folder("outputs") / f"train-{hashlib.sha256(mark.encode()).hexdigest()[:12]}.txt"
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
