"""Fixtures of every test: one thread, one directory of prepared corpora, no W&B unless asked for, no waiting for the
disk, and phmrun's logger as the program finds it at its start.

Properties are tried at any speed: a machine that other work shares is slow, which says nothing of them.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from phmrun.ledger import Run

# Before anything imports torch. The models are tiny and the machine is shared. What is expected is a CPU's arithmetic,
# so that a GPU is hidden unless CUDA_VISIBLE_DEVICES names one: CUDA_VISIBLE_DEVICES=0 pytest -m gpu
os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

# In CI the same examples each time: a red CI then comes from the change, and `make fuzz` looks for new examples.
settings.register_profile(
    "any speed",
    deadline=None,
    derandomize="CI" in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("any speed")


@pytest.fixture(scope="session")
def prepared_corpora(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.fixture(scope="session", autouse=True)
def surroundings(prepared_corpora) -> Iterator[None]:
    """Fixtures of a module train in these as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PHMRUN_CACHE", str(prepared_corpora))
        patch.setenv("WANDB_MODE", "disabled")
        patch.setattr("phmrun.files.os.fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that all processes of a test session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def shared_run(shared_folder: Path) -> Callable[..., "Run"]:
    """Finished tiny run of a task, trained once for all processes, with its ``corpus`` beside ``runs``; never changed.

    ``shared_run(task)`` has PHM with n = 2 in all places, ``shared_run(task, "dense")`` plain matrices.
    """
    from tiny_experiments import configured, everywhere, run_experiment

    from phmrun.ledger import Run

    def run(task: str, layer: str = "phm") -> Run:
        folder = shared_folder / f"tiny-{task}-{layer}"
        with FileLock(f"{folder}.lock"):
            if not (folder / "done").exists():
                layers = everywhere("phm", n=2) if layer == "phm" else {}
                run_experiment(configured(task, folder / "corpus", layers), folder / "runs")
                (folder / "done").touch()
        (path,) = (folder / "runs").glob(f"{task}-*")
        return Run(path)

    return run


@pytest.fixture
def tiny_run(shared_run: Callable[..., "Run"], tmp_path: Path) -> Callable[..., "Run"]:
    """Copy of :func:`shared_run` in ``tmp_path / "runs"``, for tests that change it or train beside it."""
    from phmrun.ledger import Run

    def run(task: str, layer: str = "phm") -> Run:
        original = shared_run(task, layer)
        shutil.copytree(original.path, tmp_path / "runs" / original.id)
        return Run(tmp_path / "runs" / original.id)

    return run


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def phmrun(capfd, monkeypatch) -> Callable[..., Result]:
    """Calls ``phmrun`` with these arguments."""
    from phmrun.cli.app import main

    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("PHMRUN_RUNS", raising=False)

    def run(*arguments: str) -> Result:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return Result(end.value.code, *capfd.readouterr())

    return run


@pytest.fixture(autouse=True)
def fresh_logger() -> None:
    """A command line's ``-q`` sets the logger's level for the whole process; the next test begins without it."""
    logger = logging.getLogger("phmrun")
    logger.setLevel(logging.NOTSET)
    logger.handlers.clear()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without tests of the asked length: its packages take seconds, in every process."""
    asked = config.getoption("markexpr")
    if asked not in ("long", "not long") or not collection_path.name.startswith("test_"):
        return None
    text = collection_path.read_text(encoding="utf-8")
    unwanted = "mark.long" not in text if asked == "long" else "\npytestmark = pytest.mark.long\n" in text
    return unwanted or None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-packages", action="store_true", help="fail if a test is skipped for a missing package")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``--require-packages``, a test that a missing package skips is a failure: it would never run in CI."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--require-packages"):
        return
    reasons = {
        str(report.longrepr[2]) for report in reporter.stats.get("skipped", []) if isinstance(report.longrepr, tuple)
    }
    missing = sorted(reason for reason in reasons if "could not import" in reason or "not installed" in reason)
    if missing:
        reporter.write_line(f"skipped for missing packages: {'; '.join(missing)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
