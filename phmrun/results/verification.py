"""Verification of a run's chain: data, config and id, files, scores.

Each link is compared with its checksum in the run or its results file. Scores are recomputed from the counts of each
test item, from the predictions or the results file.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from phmrun.checksums import CHECKSUMS, fault_in
from phmrun.config import load_run_config
from phmrun.config.identity import digits_of
from phmrun.config.options import options_of
from phmrun.documents import value_at
from phmrun.errors import PhmrunError, counted
from phmrun.files import cache_dir, sha256_of
from phmrun.ledger import Run
from phmrun.ledger.environment import DataRecord
from phmrun.ledger.manifest import Record
from phmrun.ledger.record import WEIGHTS
from phmrun.ledger.sameness import same_experiment
from phmrun.ledger.scores import score_value
from phmrun.ledger.status import State
from phmrun.results.items import RunItems, scores_of_items

INTACT, BROKEN, ABSENT = "intact", "broken", "absent"
TOLERANCE = 1e-9
"""Relative tolerance of a recomputed score, which sums in another order."""


class Link(NamedTuple):
    """Link of a chain: its name, state and facts.

    The state is "intact", "broken", or "absent" if there is nothing to compare.
    """

    name: str
    state: str
    detail: str


Outcome = tuple[str, str]
"""State and detail of a link."""


def verify_run(run: Run) -> Iterator[Link]:
    """Yield the links of a chain, up to the first broken one.

    In this order: raw data, prepared data, config and id, files, scores. Absent links do not end it. A `PhmrunError` of
    a check becomes a broken link.
    """
    checks: dict[str, Callable[[Run, Record | None], Outcome]] = {
        "raw data": _raw_data,
        "prepared data": _prepared_data,
        "config and id": _config,
        "files": _files,
        "scores": _scores,
    }
    for name, check in checks.items():
        try:
            link = Link(name, *check(run, run.manifest.read()))
        except PhmrunError as error:
            link = Link(name, BROKEN, f"{error.where}: {error.what}" if error.where else error.what)
        yield link
        if link.state == BROKEN:
            return


def _raw_data(run: Run, _: Record | None) -> Outcome:
    """Compare the data files, and the folder of a model, that exist here with their checksums.

    Only absolute paths are looked up. The link is broken if a file differs, and absent if none is on this machine.
    """
    from phmrun.models.model_folder import folder_checksum  # imports torch

    data, folder = run.data() or DataRecord(), value_at(run.values, "model.path")
    if folder and Path(folder).is_dir() and folder_checksum(Path(folder)) != data.fingerprints.get("model"):
        return BROKEN, f"{folder} has other files than the run was trained on"
    number = counted(len({file.path for file in data.files}), "file")
    if changed := data.changed:
        return BROKEN, f"{changed[0]} has changed since the run was trained on it"
    if not data.here:
        return ABSENT, f"{number} on record, none on this machine"
    return INTACT, f"{len(data.here)} of {number} on this machine, as recorded"


def _prepared_data(run: Run, record: Record | None) -> Outcome:
    """Compare the prepared data in the cache with their checksums.

    The link is broken if they differ or are damaged, and absent if they are not cached or not on record.
    """
    name, checksum = (record.prepared if record else None) or (None, None)
    if name is None:
        return ABSENT, "no checksum on record"
    folder = cache_dir() / name
    if not folder.is_dir():
        return ABSENT, f"{name} is not in {cache_dir()}"
    if fault := fault_in(folder):
        return BROKEN, f"{fault} in {folder}; it is rebuilt when it is used"
    if sha256_of(folder / CHECKSUMS) != checksum:
        return BROKEN, f"{folder} has other data than the run was trained on"
    return INTACT, f"{folder}, as trained on"


def _config(run: Run, record: Record | None) -> Outcome:
    """Compare config, run id and checksums of the data with the identity on record.

    Versions of the mathematics may differ. The link is absent without an identity, or if this release cannot load the
    config.

    Raises:
        PhmrunError: (exit 3) The run id or the config differs from the manifest.
    """
    run.manifest.check_identity()
    run.manifest.check(run.config_path)
    if not (record and record.identity and (identity := run.identity())):
        return ABSENT, "no identity on record"
    try:
        config = load_run_config(run.config_path, options_of=options_of)
    except PhmrunError as error:
        return ABSENT, f"the config cannot be loaded here: {error.what}"
    changes = same_experiment(run, config, run.fingerprints() or identity["fingerprints"])  # imported runs have no data
    if changes.settings or changes.checksums:
        return BROKEN, f"config and data differ from the id in {', '.join(changes.checksums + changes.settings)}"
    settings = counted(len(identity["values"]), "setting")
    return INTACT, f"-{digits_of(record.identity)} is the checksum of {settings} and the data"


def _files(run: Run, record: Record | None) -> Outcome:
    """Check all files on record, load every checkpoint, and read status and history; broken without a manifest.

    Checkpoints that are gone are no fault.

    Raises:
        PhmrunError: (exit 3) A file differs or is missing, or a checkpoint is damaged.
    """
    from phmrun.engine.checkpoints import load_checkpoint

    if record is None and run.status.state is State.QUEUED:
        return ABSENT, "the run has not begun"
    if record is None:
        return BROKEN, "there is no manifest.json, which every run has"
    run.manifest.check_all(without=("checkpoints",))
    weights = [] if (run.path / WEIGHTS).is_file() else sorted(run.checkpoints.glob("*.ckpt"))
    for path in weights:
        run.manifest.check(path)
        load_checkpoint(path)
    history = counted(len(run.history.read()), "row")
    here = f"{counted(len(record.files), 'file')}, {counted(len(weights), 'checkpoint')} among them"
    return INTACT, f"{here}; {run.status.state}, {history} of history"


def _scores(run: Run, record: Record | None) -> Outcome:
    """Compare each additive score with the one recomputed from its items.

    The link is broken if the difference is above 1e-9, or the metric's rounding if that is greater, times the greater
    of 1 and the value. It is absent if no score could be recomputed. Scores of training, validation, baselines and
    other files are left out, as are splits with "-" in their name. Scores without counts are not compared.
    """
    items, again, kept = RunItems(), 0, 0
    for name, metric in scores_of_items(run):
        if "-" in name.partition("/")[0] or (value := score_value(run.metrics()[name])) is None:
            continue
        kept += 1
        if not (counts := items.of([run], name)):
            continue
        computed = metric.computed(counts[0].counts)
        if abs(computed - value) > max(TOLERANCE, metric.rounding) * max(abs(value), 1.0):
            return BROKEN, f"{name} is {value!r} on record, and {computed!r} recomputed from its items"
        again += 1
    if not again:
        return ABSENT, f"none of {counted(kept, 'score')} has counts of its items here"
    return INTACT, f"{again} of {counted(kept, 'score')} recomputed, equal"
