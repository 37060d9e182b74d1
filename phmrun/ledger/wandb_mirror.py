"""Mirror of a run in Weights & Biases.

Nothing is read back from it.

Each process that trains a run writes its own segment, so a run that was continued offline has several. W&B keeps only
the last segment that is uploaded; :func:`sync` writes one whole record instead. W&B is imported when a mirror is
opened.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from phmrun.documents import below, flat, plain, restored
from phmrun.errors import PhmrunError, unknown
from phmrun.ledger.directory import config_values
from phmrun.ledger.history import in_shown_units
from phmrun.ledger.run import Run
from phmrun.ledger.status import State

Mode = Literal["offline", "online", "disabled"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
STEP, SECONDS = "trainer/global_step", "trainer/seconds"
INIT_SECONDS = 60.0
"""Seconds to wait for the server before training starts."""
LONGEST_TAG = 64
SAMPLES = "samples"
"""Name of the table of sample outputs in W&B."""

_log = logging.getLogger(__name__)


def wandb_mode(asked: str | None = None) -> Mode:
    """Return the mode: ``asked``, else ``WANDB_MODE``, else ``offline``.

    Modes are ``offline``, ``online`` and ``disabled``.

    Raises:
        PhmrunError: (exit 2) There is no such mode.
    """
    mode = asked or os.environ.get("WANDB_MODE") or "offline"
    if mode not in MODES:
        raise unknown("W&B mode", mode, MODES, where="--wandb" if asked else "WANDB_MODE")
    return mode


class Mirror:
    """Segment of a run's mirror, open until `finish`. As a context manager, an error finishes it with exit code 1.

    A mirror that fails after its creation logs one warning and stops; training goes on.

    Args:
        run: Run to mirror.
        mode: ``offline`` (files under ``wandb/`` in the run), ``online``, or ``disabled`` (nothing is imported or
            written). Default: ``WANDB_MODE``, else ``offline``.
        config: Configuration to show. Its ``logging`` names project and entity; task and data are the group, the task
            is the type of job, and structure and options of the layer are the tags.
        whole: The segment has the whole run, and replaces a run of that name on the server.

    Raises:
        PhmrunError: (exit 2) The mode is unknown, or W&B cannot be used, for example because the server does not
            answer.
    """

    def __init__(
        self, run: Run, mode: str | None = None, *, config: Mapping[str, Any] | None = None, whole: bool = False
    ) -> None:
        self.mode, self._lock = wandb_mode(mode), run.access.lock
        self._step: int | None = None
        self._segment: Any = None
        self._surroundings = ExitStack()
        if self.mode == "disabled":
            return
        with self._surroundings:
            self._surroundings.enter_context(_surroundings(run.wandb_dir, self.mode))
            self._segment = _init(run, self.mode, config or {}, whole)
            self._surroundings = self._surroundings.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.finish(exit_code=0 if kind is None else 1)

    @property
    def directory(self) -> Path | None:
        """Directory of the segment's files.

        It is ``None`` if disabled, failed or finished.
        """
        return Path(self._segment.settings.sync_dir) if self._segment else None

    @property
    def url(self) -> str | None:
        """Address of the run's page.

        It is ``None`` unless the mirror is online and open.
        """
        return self._segment.url if self._segment and self.mode == "online" else None

    def log(self, row: Mapping[str, Any]) -> None:
        """Log a row of the history, with shares in percent.

        ``step`` becomes ``trainer/global_step``, ``time`` becomes ``trainer/seconds``; ``None`` values are left out. A
        row without ``step`` keeps the last step for tables.
        """
        names = {"step": STEP, "time": SECONDS}
        seen = in_shown_units(restored(plain(row)))
        figures = {names.get(key, key): value for key, value in seen.items() if value is not None}
        self._step = figures.get(STEP, self._step)
        self._send(lambda segment: segment.log(figures))

    def samples(self, samples: Mapping[str, Any]) -> None:
        """Log a table of samples, if there are any, at the last logged step, if there is one.

        Each call writes a file into the run directory.

        Args:
            samples: Names of the ``columns``, and ``rows``.
        """

        def send(segment: Any) -> None:
            """Log the table to a segment, with the last step if there is one."""
            import wandb

            table = {SAMPLES: wandb.Table(columns=samples["columns"], data=samples["rows"])}
            segment.log(table if self._step is None else {**table, STEP: self._step})

        if samples:
            self._send(send)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Set values of the whole run; those of the same name are replaced.

        They are final scores, counts, and the model's description.
        """
        self._send(lambda segment: segment.summary.update(restored(plain(values))))

    def finish(self, exit_code: int = 0) -> None:
        """Close the segment, if it is open; online, wait until the upload is complete.

        ``exit_code`` is 0 if the run succeeded. W&B's service is stopped unless another W&B run of this process is
        open. The previous environment variables are restored. Nothing is done in a forked copy of the run's process.
        """
        if self._lock.forked:
            return
        with self._surroundings:
            self._send(lambda segment: segment.finish(exit_code=exit_code))
            self._segment = None
            if self.mode != "disabled":
                with suppress(Exception):  # of a service that is gone
                    _stop_service(exit_code)

    def _send(self, action: Callable[[Any], object]) -> None:
        """Call ``action`` with the segment, if it is open.

        The first failure closes the mirror with a logged warning; nothing is raised.
        """
        if self._segment is None:
            return
        try:
            action(self._segment)
        except Exception as error:  # noqa: BLE001  (whatever W&B raises, training goes on)
            self._segment = None
            _log.warning("the W&B mirror stopped, training continues: %s: %s", type(error).__name__, error)


def _labels(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return W&B's labels of a configuration: project, entity, group, type of job and tags."""
    values = flat(config)
    task, name = values.get("task"), values.get("data.name")
    layer = below(values, "layer")
    tags = [str(value) if key == "structure" else f"{key}={value}" for key, value in layer.items()]
    return {
        "project": values.get("logging.project", "phmrun"),
        "entity": values.get("logging.entity"),
        "group": f"{task}-{name}" if task and name else None,
        "job_type": task,
        "tags": [text[:LONGEST_TAG] for text in tags],
    }


def _init(run: Run, mode: Mode, config: Mapping[str, Any], whole: bool) -> Any:
    """Start a W&B run under the run id, with its own step axis.

    Args:
        run: Run to mirror.
        mode: ``offline`` or ``online``.
        config: Configuration to show.
        whole: The segment has the whole run; its directory is named so.

    Raises:
        PhmrunError: (exit 2) W&B raised an error; its service is then stopped.
    """
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
        # W&B names directories by the second, and a run may be continued within a second.
        x_sync_dir_suffix="whole" if whole else f"part-{len(list(run.wandb_dir.glob('*-part-*'))) + 1}",
    )
    labels: dict[str, Any] = {key: value for key, value in _labels(config).items() if value}
    labels |= {"id": run.id, "name": run.id, "dir": run.path, "config": restored(plain(config))}
    if mode == "online" and not whole:
        labels["resume"] = "allow"
    try:
        segment = wandb.init(mode=mode, reinit="create_new", settings=settings, **labels)
        # A continued run repeats steps, which W&B's own step axis does not allow.
        segment.define_metric(STEP)
        segment.define_metric("*", step_metric=STEP)
    except Exception as error:
        _stop_service(1)
        later = "WANDB_MODE=offline" if whole else "--wandb offline and upload later by `phmrun sync`"
        what = f"W&B cannot be used {mode}: {' '.join(str(error).split())[:300]}"
        raise PhmrunError(what, hint=f"Run `wandb login` or set WANDB_API_KEY, or use {later}.") from error
    return segment


def _stop_service(exit_code: int) -> None:
    """Stop W&B's service process.

    Wait until it has written the last records. Nothing is done while W&B's global run of this process is set.
    """
    import wandb

    if wandb.run is None:  # otherwise another run of this process still needs it
        wandb.teardown(exit_code)


@contextmanager
def _surroundings(directory: Path, mode: Mode) -> Iterator[None]:
    """Set W&B's environment variables.

    Caches and staging areas are in ``directory`` (``wandb/`` of the run), which is created; messages are off. The
    previous values are restored at exit. Offline, W&B's config directory is there, too; online it is unchanged, because
    it has the server's address.
    """
    directory.mkdir(parents=True, exist_ok=True)
    base = directory.resolve()
    wanted = {
        # W&B appends wandb/ to WANDB_DIR
        "WANDB_DIR": str(base.parent),
        "WANDB_CACHE_DIR": str(base / "cache"),
        "WANDB_DATA_DIR": str(base / "data"),
        "WANDB_ARTIFACT_DIR": str(base / "artifacts"),
        "WANDB_DISABLE_GIT": "true",
        "WANDB_SILENT": "true",
        "WANDB_MODE": mode,  # W&B refuses an empty one
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


def sync(run: Run, mode: str = "online") -> dict[str, Any]:
    """Replay a run as one W&B run.

    It has config (empty without a file), history, scores, parameter counts ("parameters/…") and samples. The W&B run
    has the run's id, so a second replay replaces the first. Segments of training are kept. A failed run ends with exit
    code 1, others with 0.

    Args:
        run: Run to replay; it may be training, unless it is mirrored online at the moment.
        mode: ``online``, or ``offline``: one complete W&B run directory, for `wandb sync` on another machine.

    Returns:
        Number of ``rows`` of the history, ``wandb_dir`` (the W&B run directory), and ``url`` of the run's page; None if
        offline.

    Raises:
        PhmrunError: (exit 2) W&B is disabled or cannot be used, or the run is being mirrored online.
    """
    mode = wandb_mode(mode)
    if mode == "disabled":
        raise PhmrunError("nothing can be synced while W&B is disabled", hint="Set WANDB_MODE=online or offline.")
    status, config = run.status, config_values(run.config_path) if run.config_path.exists() else {}
    parts = sorted(run.wandb_dir.glob("*-part-*"), key=lambda path: path.stat().st_mtime)
    online = parts[-1].name.startswith("run-") if parts else flat(config).get("logging.wandb") == "online"
    if mode == "online" and status.state is State.RUNNING and online:
        what = f"the run {run.id} is being mirrored online while it trains"
        raise PhmrunError(what, hint="Sync it when it has ended.")
    run.access.folder(run.wandb_dir.name)  # raises if a link leads out of the run
    rows, scores, samples = run.history.read(), run.metrics(), run.samples()
    figures = flat({**scores, "parameters": run.parameters()}, mark="/")
    with Mirror(run, mode, config=config, whole=True) as mirror:
        # Read before logging: a failed or finished mirror has neither directory nor address.
        synced = {"rows": len(rows), "wandb_dir": mirror.directory, "url": mirror.url}
        for row in rows:
            mirror.log(row)
        mirror.samples(samples)
        mirror.summary({"state": status.state.value} | {name.removesuffix("/value"): figures[name] for name in figures})
        if mirror.directory is None:
            hint = "A warning names the reason; the same command writes the run again."
            raise PhmrunError("W&B has failed, and its record of the run is not complete", where=run.id, hint=hint)
        mirror.finish(exit_code=1 if status.state is State.FAILED else 0)
    return synced
