"""A mirror of a run in Weights & Biases. The run directory is the source; nothing is ever read back from here.

Each process that trains a run writes its own segment. A run that was continued offline therefore has several, and W&B
keeps only the last of those that are uploaded one by one: :func:`sync` makes one whole record instead.
W&B itself is imported when a mirror begins to write.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from phmrun.documents import parse_json, plain, restored
from phmrun.errors import PhmrunError, unknown
from phmrun.files import write_json
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.lock import Lock
from phmrun.ledger.run import Run, State, config_values

Mode = Literal["offline", "online", "disabled"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
STEP, SECONDS = "trainer/global_step", "trainer/seconds"
INIT_SECONDS = 60.0
"""Seconds to wait for the server before training begins."""
SAMPLES = "samples"
"""The name of the table of sample outputs in W&B."""

_LABELS = "labels.json"
"""What a run was mirrored with, so that a replay can use it again."""
_log = logging.getLogger(__name__)


def wandb_mode(asked: str | None = None) -> Mode:
    """The mode to use: what was asked for, else what ``WANDB_MODE`` says, else ``offline``."""
    mode = asked or os.environ.get("WANDB_MODE") or "offline"
    mode = {"dryrun": "offline", "run": "online"}.get(mode, mode)
    if mode not in MODES:
        raise unknown("W&B mode", mode, MODES, where="--wandb" if asked else "WANDB_MODE")
    return mode


class Mirror:
    """One segment of a run's mirror, from now until `finish`.

    The server is reached before training starts (or a `PhmrunError` says why not): a mirror that fails later says so
    once in the log and falls silent, while training goes on. Modes are ``offline`` (files under ``wandb/`` in the
    run), ``online`` and ``disabled`` (nothing is imported or written); ``None`` stands for ``WANDB_MODE`` or offline.
    Tags are words to filter by, the group is what the run belongs to, such as a sweep, the job type its task. A
    ``whole`` segment has all of the run, and takes the place of one of that name on the server.
    """

    def __init__(
        self,
        run: Run,
        mode: str | None = None,
        *,
        project: str = "phmrun",
        entity: str | None = None,
        config: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        group: str | None = None,
        job_type: str | None = None,
        whole: bool = False,
    ) -> None:
        self.mode = wandb_mode(mode)
        self._step: int | None = None
        self._segment: Any = None
        self._surroundings = ExitStack()
        if self.mode == "disabled":
            return
        labels = {"project": project, "entity": entity, "group": group, "job_type": job_type, "tags": list(tags)}
        resume = "allow" if self.mode == "online" and not whole else None
        with self._surroundings:
            self._surroundings.enter_context(_surroundings(run.wandb_dir, self.mode))
            self._segment = _init(run, self.mode, config or {}, whole, {**labels, "resume": resume})
            if not whole:
                write_json(run.wandb_dir / _LABELS, {"mode": self.mode, **labels})
            self._surroundings = self._surroundings.pop_all()

    @property
    def directory(self) -> Path | None:
        """Where the segment's files are; ``None`` if the mirror is disabled."""
        return Path(self._segment.settings.sync_dir) if self._segment else None

    @property
    def url(self) -> str | None:
        """The run's page; ``None`` unless online."""
        return self._segment.url if self._segment and self.mode == "online" else None

    def log(self, row: Mapping[str, Any]) -> None:
        """Mirrors one row of the history, shares in per cent; ``step`` and ``time`` become those of ``trainer/``."""
        names = {"step": STEP, "time": SECONDS}
        seen = in_shown_units(restored(plain(row)))
        figures = {names.get(key, key): value for key, value in seen.items() if value is not None}
        self._step = figures.get(STEP, self._step)
        self._send(lambda segment: segment.log(figures))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Mirrors a table, a file of its own each time: meant for the samples of an evaluation."""

        def send(segment: Any) -> None:
            import wandb

            table = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
            segment.log({name: table} if self._step is None else {name: table, STEP: self._step})

        self._send(send)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Mirrors figures and texts that hold for the whole run: final scores, counts, the model's description."""
        self._send(lambda segment: segment.summary.update(restored(plain(values))))

    def finish(self, exit_code: int = 0) -> None:
        """Ends the segment; online, waits until everything has arrived. The code is 0 if the run ended well."""
        if self.mode != "disabled":
            self._send(lambda segment: segment.finish(exit_code=exit_code))
            _stop_service(exit_code)
        self._segment = None
        self._surroundings.close()

    def _send(self, action: Callable[[Any], object]) -> None:
        """Does something to the segment; the first failure is the last."""
        if self._segment is None:
            return
        try:
            action(self._segment)
        except Exception as error:  # noqa: BLE001  (whatever W&B raises, training goes on)
            self._segment = None
            _log.warning("the W&B mirror stopped, training goes on: %s: %s", type(error).__name__, error)


def _init(run: Run, mode: Mode, config: Mapping[str, Any], whole: bool, options: Mapping[str, Any]) -> Any:
    """Begins a W&B run whose id is the run's name, with its own step axis."""
    import wandb

    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        init_timeout=INIT_SECONDS,
        quiet=True,
        show_errors=False,
        silent=True,
        x_disable_stats=True,
        # W&B names a directory by the second, and a run may be continued within one.
        x_sync_dir_suffix="whole" if whole else f"part-{len(list(run.wandb_dir.glob('*-part-*'))) + 1}",
    )
    given: dict[str, Any] = {key: value for key, value in options.items() if value}
    given |= {"id": run.id, "name": run.id, "dir": run.path, "config": restored(plain(config))}
    try:
        segment = wandb.init(mode=mode, reinit="create_new", settings=settings, **given)
        # Steps of a continued run begin again before the last one, which W&B's own step axis does not allow.
        segment.define_metric(STEP)
        segment.define_metric("*", step_metric=STEP)
    except Exception as error:
        _stop_service(1)
        raise PhmrunError(
            f"W&B cannot be used {mode}: {' '.join(str(error).split())[:300]}",
            hint="Run `wandb login` or set WANDB_API_KEY, or use --wandb offline and upload later by `phmrun sync`.",
        ) from error
    return segment


def _stop_service(exit_code: int) -> None:
    """Ends W&B's own process, which writes the last records after a run has been finished, and waits for it."""
    import wandb

    if wandb.run is None:  # else a run that is not ours still needs it
        wandb.teardown(exit_code)


@contextmanager
def _surroundings(directory: Path, mode: Mode) -> Iterator[None]:
    """Keeps W&B's caches and staging areas inside the run for a while, and its messages off the terminal.

    Online, its own config directory stays what it is: that holds the address of the user's server.
    """
    directory.mkdir(parents=True, exist_ok=True)
    base = directory.resolve()
    wanted = {
        # W&B appends wandb/ to this one itself
        "WANDB_DIR": str(base.parent),
        "WANDB_CACHE_DIR": str(base / "cache"),
        "WANDB_DATA_DIR": str(base / "data"),
        "WANDB_ARTIFACT_DIR": str(base / "artifacts"),
        "WANDB_DISABLE_GIT": "true",
        "WANDB_SILENT": "true",
    }
    if mode == "offline":
        wanted["WANDB_CONFIG_DIR"] = str(base / "config")
    before = {name: os.environ[name] for name in wanted if name in os.environ}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)
        os.environ.update(before)


@dataclass(frozen=True)
class Synced:
    """What a replay came to: rows of the history, the W&B run directory, the page on the server if it was online."""

    run_id: str
    mode: str
    rows: int
    directory: Path
    url: str | None


def sync(run: Run, mode: str = "online", *, project: str | None = None, entity: str | None = None) -> Synced:
    """Replays config, history, scores, parameter counts and samples of a run as one W&B run.

    The W&B run's id is the run's name, so that a second replay takes the place of the first. Nothing in the run
    directory is deleted; the segments that training wrote are left where they are. The run may still be training,
    unless it is mirrored ``online`` at this moment; ``offline`` writes one complete W&B run directory, which
    `wandb sync` uploads from elsewhere. Project and entity are by default those that it was trained with.
    """
    mode = wandb_mode(mode)
    if mode == "disabled":
        raise PhmrunError("nothing can be synced while W&B is disabled", hint="Say --online or --offline.")
    status = run.status
    try:
        labels = dict(parse_json((run.wandb_dir / _LABELS).read_bytes()))
    except (FileNotFoundError, ValueError):
        tags = str(status.about.get("layer", "")).split()
        labels = {"project": "phmrun", "job_type": status.about.get("task"), "tags": tags}
    if labels.pop("mode", None) == "online" and mode == "online" and status.state is State.RUNNING:
        what = f"the run {run.id} is being mirrored online while it trains"
        raise PhmrunError(what, hint="Sync it when it has ended.")
    labels |= {key: value for key, value in (("project", project), ("entity", entity)) if value}
    rows, scores, samples = run.history.read(), run.metrics(), run.samples()
    config = config_values(run.config_path) if run.config_path.exists() else {}
    # One at a time: two at once would leave two mirrored runs.
    with (
        Lock(run.path / ".sync.lock", f"the mirror of the run {run.id}")
        if os.access(run.path, os.W_OK)
        else nullcontext()
    ):
        return _replay(run, mode, config, labels, rows, scores, samples)


def _replay(
    run: Run,
    mode: Mode,
    config: Mapping[str, Any],
    labels: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    scores: Mapping[str, Any],
    samples: Mapping[str, Any],
) -> Synced:
    """Write a run's record as one W&B run."""
    mirror = Mirror(run, mode, config=config, whole=True, **labels)
    # Asked for now: a mirror that has failed or finished has let go of its segment and knows neither.
    directory, url = mirror.directory, mirror.url
    if directory is None:
        raise PhmrunError("W&B gave no directory", hint="Try --offline.")
    for row in rows:
        mirror.log(row)
    if samples:
        mirror.table(SAMPLES, samples["columns"], samples["rows"])
    mirror.summary({"state": run.status.state.value, **_flat(scores), **_flat(run.parameters(), "parameters/")})
    mirror.finish(exit_code=1 if run.status.state is State.FAILED else 0)
    return Synced(run.id, mode, len(rows), directory, url)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values under joined names; the ``value`` of a score stands under the score's own name."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = prefix.rstrip("/") if key == "value" and prefix else f"{prefix}{key}"
        flat |= _flat(value, f"{name}/") if isinstance(value, Mapping) else {name: value}
    return flat
