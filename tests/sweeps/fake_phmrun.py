"""A stand-in for ``phmrun train`` that takes no torch and no second: it keeps the run directory as the real one does.

The dataset's name says what befalls it: "oom" and "bad" fail, in training and before it, "killed" is killed once.
The directory of "removed" is removed, that of "replaced" is replaced by a file, and the status of "damaged" is no JSON.
It makes ten steps, each kept whole, and its score is made of all of them. Its one validation is best at a learning rate
of 0.001.
"""

import hashlib
import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError
from phmrun.files import write_text
from phmrun.ledger import Run, State

STEPS = 10


def train(run: Run, data: str, lr: float, pace: float) -> int:
    steps = run.path / "steps"
    done = steps.read_text().split() if steps.exists() else []
    with (run.path / "starts").open("a") as starts:
        starts.write(f"{os.getpid()} {len(done)}\n")
    run.set_state(State.RUNNING)
    for step in range(len(done), STEPS):
        time.sleep(pace)
        done.append(hashlib.sha256(f"{run.id} {step} {done}".encode()).hexdigest()[:8])
        write_text(steps, " ".join(done))
        run.set_state(State.RUNNING, step=step + 1, seconds=(step + 1) * pace)
        if data == "oom" and step == 3:
            run.set_state(State.FAILED, "out of memory: no more")
            print("phmrun: error: out of memory: no more", file=sys.stderr)
            return 4
        if data == "killed" and step == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        if data in ("removed", "replaced") and step == 3:
            shutil.rmtree(run.path)
            if data == "replaced":
                run.path.touch()
        if data == "damaged" and step == 3:
            run.status_path.write_text("{")
    run.add_metrics({"validation/best": {"value": (math.log10(lr or 1.0) + 3) ** 2, "step": STEPS}})
    run.add_metrics({"test/score": {"value": int(done[-1], 16) % 1000, "signature": "toy"}})
    run.set_state(State.DONE, step=STEPS, seconds=STEPS * pace)
    return 0


def main() -> int:
    arguments = sys.argv[1:]
    config, runs_dir = (
        Path(arguments[arguments.index("--config") + 1]),
        Path(arguments[arguments.index("--runs-dir") + 1]),
    )
    values = parse_yaml(config.read_text(), str(config))
    data, lr = values["data"]["name"], values["training"]["optimizer"]["lr"]
    pace = float(os.environ.get("FAKE_PACE", "0.01"))
    time.sleep(
        float(os.environ.get("FAKE_DELAY", 5 * pace))
    )  # as the real one imports and reads before it takes its lock
    if data == "bad":
        print("phmrun: error: train.en:3: the line is empty", file=sys.stderr)
        return 3
    run = Run.create(runs_dir, config.stem, config.read_text())
    try:
        with run.lock():
            return 0 if run.status.state is State.DONE else train(run, data, lr, pace)
    except PhmrunError as error:
        print(f"phmrun: error: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        run.set_state(State.INTERRUPTED, "by SIGINT")
        return 130


if __name__ == "__main__":
    sys.exit(main())
