"""``python tests/kills/faults.py``: a fault at every n-th call of the file system, over the verbs that write.

A verb runs in a copy of a folder with one fault. A replacement of a file, or the flush of a file or directory, fails
with EIO at one call. Or no directory can be flushed (EINVAL), or the clock goes back by two hours at one call.

The verb must end without a traceback, nothing may be lost or half-written, and the same command must then succeed. All
files must equal those of an undisturbed run bit by bit; times, speeds, processes and logs are left out.
"""

import argparse
import contextlib
import errno
import hashlib
import io
import json
import logging
import os
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="disabled")
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("support", "importing", "datasets")]

RUNS = ("--runs-dir", "runs")
TRAIN = ("train", "sva", "--config", "experiment.yaml", "--runs-dir")
VERBS: dict[str, tuple[str, ...]] = {
    "train": (*TRAIN, "trained"),
    "resume": (*TRAIN, "stopped"),
    "extend": ("train", "sva", "--config", "longer.yaml", *RUNS, "--extend", "RUN"),
    "eval": ("eval", "RUN", *RUNS, "--test", "corpus/dev.tsv"),
    "export": ("export", "RUN", *RUNS),
    "factored": ("export", "RUN", *RUNS, "--factored", "--quantization", "bfloat16", "--out", "out/model.safetensors"),
    "compress": ("compress", "RUN", *RUNS, "--layer", "low-rank", "--budget", "0.9", "--steps", "2"),
    "archive": ("runs", "archive", "RUN", *RUNS, "--to", "run.tar.gz"),
    "remove": ("runs", "rm", "RUN", *RUNS, "--yes"),
    "add": ("results", "add", "RUN", *RUNS, "--to", "added/one"),
    "restore": ("results", "restore", "results", "--runs-dir", "restored"),
    "table": ("table", *RUNS),
    "report": ("report", "sweep.yaml", *RUNS, "--out", "report.html"),
    "plot": ("plot", "history", "RUN", *RUNS, "--out", "history.svg"),
    "import": ("data", "import", "shakespeare", "test.modern=modern.txt", "test.original=original.txt"),
    "sweep": ("sweep", "run", "sweep.yaml", "--runs-dir", "swept"),
    "shrink": ("shrink", "RUN", *RUNS, "--to", "90%", "--by", "parameters", "--within", "100", "--steps", "1"),
    "checkpoint": ("import", "theirs", *RUNS),
    "tensorboard": ("sync", "RUN", *RUNS, "--to", "tensorboard"),
    "wandb": ("sync", "RUN", *RUNS, "--offline"),
    "bench": ("bench", "run", "RUN", *RUNS, "--batches", "1", "--items", "4", "--repeats", "1"),
    "fetch": ("data", "fetch", "tiny"),
}
FAULTS = ("replace", "fsync", "directory", "unsynced", "clock")
LEFT_OUT = (
    "train.log",
    "output.log",
    "environment.json",
    "manifest.json",
    ".index.json",
    "lock",
    "lock.json",
    "README.md",
    ".fetch.lock",
    ".sync.lock",
)
VOLATILE = {"time", "started", "ended", "updated", "seconds", "pid", "host", "command", "segments", "environment"}
VOLATILE |= {"measured", "median_seconds", "load_average", "beside", "reserved_before", "bytes_ratio"}
VOLATILE |= {"train/units_per_second", "peak_memory_bytes", "wall_seconds", "cpu_seconds", "sha256", "cpu_name"}


def write_checkpoint() -> None:
    """Write a tiny T5 of transformers into ``theirs``."""
    from test_huggingface import t5

    Path("theirs").mkdir()
    t5(Path("theirs"))


def write_dataset() -> None:
    """Serve a file and an archive on this machine, and write the dataset ``tiny`` that names them."""
    from file_server import Server

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add("modern.txt")
    server = Server()
    server.files = {"train.txt": Path("original.txt").read_bytes(), "test.tar.gz": packed.getvalue()}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    remote = {
        name: {"urls": [server.url(f"ok/{name}")], "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in server.files.items()
    }
    member = {"path": "test.txt", "archive": "test.tar.gz", "member": "modern.txt"}
    splits = {"train": {"text": {"path": "train.txt", **remote["train.txt"]}}, "test": {"text": member}}
    facts = {"tasks": ["lm"], "summary": "s", "licence": "l", "format": "lines", "splits": splits}
    Path("datasets").mkdir()
    entry = {**facts, "archives": {"test.tar.gz": remote["test.tar.gz"]}}
    Path("datasets/tiny.yaml").write_text(json.dumps({"tiny": entry}), encoding="utf-8")


SETUPS: dict[str, Callable[[], None]] = {"checkpoint": write_checkpoint, "fetch": write_dataset}
"""Inputs of some verbs, written into the laboratory when the verb is first tried."""


def served(run: Any, formats: Sequence[Any], **_: Any) -> list[Any]:
    """Return measurements of a format without the process that takes them: `shrink` looks at bytes and score."""
    from phmrun.sweeps.serving import Served

    total = int(run.parameters()["total"])
    return [Served(formats[0], Path("x"), total, 4 * total, 0.0, 10, 5.0, 1.0, 1.0, "accuracy", 60.0, 0, 12)]


@dataclass
class Fault:
    """Fault of one kind at the call ``place``; 0: calls are only counted."""

    kind: str
    place: int = 0
    calls: int = 0

    def strikes(self) -> bool:
        """Count a call; True if it fails."""
        self.calls += 1
        return self.calls == self.place

    def fail(self, number: int, *names: str) -> None:
        """Raise an OSError if this call fails."""
        if self.strikes():
            raise OSError(number, os.strerror(number), *names)

    @contextlib.contextmanager
    def injected(self) -> Iterator[None]:
        """Replace functions of ``os`` and the clock within the block."""
        from phmrun.ledger import environment

        former = (os.replace, os.rename, os.fsync, time.time, environment.datetime)

        def moving(move: Any) -> Any:
            def moved(source: Any, target: Any, **options: Any) -> None:
                if self.kind == "replace":
                    self.fail(errno.EIO, str(target))
                move(source, target, **options)

            return moved

        def flush(handle: int) -> None:
            folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            if folder and self.kind == "unsynced" and (self.strikes() or self.place):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            if self.kind == ("directory" if folder else "fsync"):
                self.fail(errno.EIO)

        def shift() -> float:
            return 7200.0 * (self.kind == "clock" and (self.strikes() or 0 < self.place < self.calls))

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return super().now(tz) - timedelta(seconds=shift())

        os.replace, os.rename, os.fsync = moving(former[0]), moving(former[1]), flush
        time.time, environment.datetime = lambda: former[3]() - shift(), Clock  # type: ignore[attr-defined, misc]
        try:
            yield
        finally:
            os.replace, os.rename, os.fsync, time.time, environment.datetime = former  # type: ignore[attr-defined]


def call(arguments: Sequence[str], run: str = "") -> tuple[int, str]:
    """Run phmrun in this process, with ``run`` in place of ``RUN``; return its exit code and output."""
    from phmrun.cli.app import main

    if arguments[0] == "shrink":
        from phmrun.sweeps import shrink

        shrink.serve_all, shrink.RATES = served, shrink.RATES[:1]

    text, code = io.StringIO(), 0
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            main([run if word == "RUN" else word for word in arguments])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    logging.getLogger("phmrun").handlers.clear()
    return code, text.getvalue()


class Laboratory:
    """Folder with a corpus, a finished and an interrupted run, results and a sweep; trials work on a copy of it.

    The copy has the same path each time, as paths of data are in run directories.
    """

    def __init__(self, folder: Path) -> None:
        from tiny_experiments import configured

        self.whole, self.copy = folder / "whole", folder / "copy"
        self.copy.mkdir(parents=True)
        self.run = ""
        os.environ.update(PHMRUN_CACHE=str(self.copy / "cache"), PHMRUN_DATA=str(self.copy / "data"))
        with contextlib.chdir(self.copy):
            for name, steps in (("experiment", 4), ("longer", 6)):
                course = {"max_steps": steps, "validate_every": 2, "checkpoint_every": 2}
                values = configured("sva", Path("corpus"), {"training": course}).model_dump(mode="json")
                kept = {key: value for key, value in values.items() if key != "task"}
                Path(f"{name}.yaml").write_text(json.dumps(kept), encoding="utf-8")
                if name == "experiment":
                    base = {key: value for key, value in kept.items() if key not in ("layer", "seed")}
                    sweep = {"title": "Faults", "task": "sva", "base": base, "grid": {"layer": ["dense"]}, "seeds": 1}
                    Path("sweep.yaml").write_text(json.dumps(sweep), encoding="utf-8")
            for side in ("modern", "original"):
                Path(f"{side}.txt").write_text("word\n" * 1462, encoding="utf-8")
            for arguments in ((*TRAIN, "runs"), ("results", "add", "sweep.yaml", *RUNS, "--to", "results/one")):
                code, text = call(arguments, self.run)
                self.run = next(path.name for path in Path("runs").glob("sva-*"))
                if code:
                    raise RuntimeError(text)
            with (fault := Fault("replace")).injected():
                call((*TRAIN, "counted"))
            shutil.rmtree("counted")
            with Fault("replace", fault.calls * 2 // 3).injected():
                call((*TRAIN, "stopped"))
        self.copy.rename(self.whole)

    def trial(self, verb: str, fault: Fault) -> tuple[dict[str, str], dict[str, str], int, str]:
        """Run a verb with a fault, then again without; return the files after each, exit code, and output."""
        shutil.rmtree(self.copy, ignore_errors=True)
        shutil.copytree(self.whole, self.copy, symlinks=True)
        with contextlib.chdir(self.copy):
            with fault.injected():
                code, text = call(VERBS[verb], self.run)
            between = content(Path())
            if "Traceback" in text or "is a bug" in text:
                return between, between, 1, text
            if fault.place:
                code, then = call(VERBS[verb], self.run)
                text += then
                if verb == "remove" and "no run" in then:
                    code = 0
            return between, content(Path()), code, text

    def trials(self, verb: str, every: int = 1, kinds: Sequence[str] = FAULTS) -> Iterator[tuple[str, str, str]]:
        """Yield kind of fault, outcome and explanation for every n-th call of a verb.

        Outcomes are identical, lost (the second command failed), differs, and half (a file was half-written).
        """
        with contextlib.chdir(self.whole):
            SETUPS.pop(verb, lambda: None)()
        before = self.state(self.whole)
        for kind in kinds:
            _, expected, code, text = self.trial(verb, counting := Fault(kind))
            if code:
                raise RuntimeError(f"{verb}: {text}")
            stride = max(every, counting.calls // 6) if kind == "clock" else every
            last = min(counting.calls, 1) if kind == "unsynced" else counting.calls
            for place in range(1, last + 1, stride):
                between, after, code, text = self.trial(verb, Fault(kind, place))
                wrong = unlike(after, expected)
                half = [name for name, sha in between.items() if sha not in (before.get(name), expected.get(name))]
                damaged = [name for name in half if between[name] == "unreadable" or ".tmp" in name]
                lost = [name for name in before if name not in between and name in expected]
                outcome = "lost" if code or lost else "half" if damaged else "differs" if wrong else "identical"
                yield kind, outcome, f"call {place} of {counting.calls}: {lost or damaged or wrong} {text[-700:]}"

    def state(self, folder: Path) -> dict[str, str]:
        """Digests of a folder's files."""
        with contextlib.chdir(folder):
            return content(Path())


def unlike(files: dict[str, str], expected: dict[str, str]) -> list[str]:
    """Return the names of files that are missing, superfluous or different."""
    return sorted(name for name in files.keys() | expected.keys() if files.get(name) != expected.get(name))


def content(folder: Path) -> dict[str, str]:
    """Return a digest of each file by path, without times, processes and logs; "unreadable" if it is damaged."""
    digests = {}
    for path in sorted(folder.rglob("*")):
        if (
            path.is_file()
            and path.name not in LEFT_OUT
            and path.suffix != ".diff"
            and not {"cache", "wandb"} & {*path.parts}
        ):
            if ".tfevents." in path.name:  # named by time and process
                digests[str(path.parent / "events")] = figures(path)
                continue
            try:
                digests[str(path)] = hashlib.sha256(stable(path.name, path.read_bytes())).hexdigest()[:12]
            except (ValueError, OSError, RuntimeError, LookupError, EOFError):
                digests[str(path)] = "unreadable"
    return digests


def figures(path: Path) -> str:
    """Return a digest of the figures in an event file of TensorBoard, without the time of its first record."""
    from tensorboard.compat.proto.event_pb2 import Event

    data, events, place = path.read_bytes(), [], 0
    while place < len(data):  # length in 8 bytes, its checksum in 4, the record, its checksum in 4
        size = int.from_bytes(data[place : place + 8], "little")
        events.append(Event.FromString(data[place + 12 : place + 12 + size]))
        place += size + 16
    return hashlib.sha256(repr(events[1:]).encode()).hexdigest()[:12] if place == len(data) else "unreadable"


def stable(name: str, data: bytes) -> bytes:
    """Return what two runs of a command have in common in a file."""
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(data)) as packed:
            files = [(entry.name, packed.extractfile(entry)) for entry in packed if entry.isfile()]
            kept = [(path, file.read()) for path, file in files if file and Path(path).name not in LEFT_OUT]
        return repr(sorted((path, stable(path, text)) for path, text in kept)).encode()
    if name.endswith((".json", ".jsonl")):
        lines = data.decode().splitlines() if name.endswith("l") else [data.decode()]
        return "\n".join(json.dumps(without(json.loads(line)), sort_keys=True) for line in lines).encode()
    if name.endswith((".ckpt", ".safetensors")):
        return repr(tensors(name, data)).encode()
    return re.sub(rb"Written \S+Z", b"", data)


def tensors(name: str, data: bytes) -> dict[str, Any]:
    """Return digests of the tensors of a checkpoint or safetensors file, and its other values."""
    import torch
    from safetensors.torch import load

    loaded: dict[str, Any] = load(data) if name.endswith("s") else torch.load(io.BytesIO(data), weights_only=True)
    states = loaded if name.endswith("s") else loaded["state_dict"] | {"step": loaded["global_step"]}
    return {
        key: hashlib.sha256(value.contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()
        if isinstance(value, torch.Tensor) and value.dim()
        else repr(value)
        for key, value in sorted(states.items())
    }


def without(value: Any) -> Any:
    """Return a JSON value without times, speeds and processes."""
    if isinstance(value, dict):
        kept = (key for key in value if key not in VOLATILE and not key.endswith("_per_second"))
        return {key: without(value[key]) for key in kept}
    return [without(item) for item in value] if isinstance(value, list) else value


def main(arguments: Sequence[str] | None = None) -> int:
    """Try all faults; print a table of verbs, faults, calls and outcomes; 1 if one was not identical."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--dir", help="folder to work in, such as one in memory")
    options = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="faults-", dir=options.dir) as place:
        laboratory = Laboratory(Path(place))
        for verb in options.verbs:
            counts: dict[str, Counter[str]] = {kind: Counter() for kind in options.faults}
            for kind, outcome, why in laboratory.trials(verb, options.every, options.faults):
                counts[kind][outcome] += 1
                total[outcome] += 1
                if outcome != "identical":
                    print(f"  {verb} {kind} {outcome}: {why}", flush=True)
            print(f"{verb:<10}", {kind: dict(count) for kind, count in counts.items()}, flush=True)
    print(dict(total))
    return int(set(total) != {"identical"})


if __name__ == "__main__":
    sys.exit(main())
