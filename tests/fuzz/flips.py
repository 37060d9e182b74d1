"""Flips bits in the files of a run, its prepared data and a results folder: ``python -m tests.fuzz.flips --flips N``.

After each flip the verbs train, eval, table and report are run; on prepared data, a new training; on results, restore
and table; on the index of a directory of runs, table. Each must notice the damage or give what it gave before. Anything
else is silent, and a failure.
"""

import argparse
import json
import logging
import os
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from phmrun.checksums import checksum_once
from phmrun.config import Experiment
from phmrun.engine.checkpoints import weights_checksum
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.record import record_of, restore, write_record
from phmrun.report.content import write_report
from phmrun.results import index
from phmrun.results.items import items_of
from phmrun.sweeps.results import Asked, view, view_of_sweep

AREAS = ("run", "prepared", "results", "index")
SHORT = {"training": {"max_steps": 6, "validate_every": 3, "checkpoint_every": 3, "average": 0}}


@dataclass
class Tally:
    """Outcomes of flips by area, and what was silent."""

    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    by_file: Counter[tuple[str, str]] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[str]:
        """Lines of a table."""
        yield f"{'area':<10} {'flips':>6} {'noticed':>8} {'identical':>10} {'silent':>7}"
        for area in AREAS:
            counts = [self.outcomes[area, outcome] for outcome in ("noticed", "identical", "silent")]
            yield f"{area:<10} {sum(counts):>6} {counts[0]:>8} {counts[1]:>10} {counts[2]:>7}"


class Notes(logging.Handler):
    """Messages that a user would have seen."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Laboratory:
    """Finished runs of a sweep, their prepared data and their results, whole; every trial works on a copy."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # where pytest finds it by itself
        from tiny_experiments import configured, run_experiment

        self._run = run_experiment
        self.folder, self.notes = folder, Notes()
        index._SETTLED = 0  # a copy's files are new
        os.environ["PHMRUN_CACHE"] = str(folder / "cache")
        self.config: Experiment = configured("sva", folder / "corpus", SHORT)
        dense = {"layer": {"structure": "phm", "n": 2}}
        runs = [
            Run(run_experiment(config, folder / "runs").run_dir)
            for config in (self.config, configured("sva", folder / "corpus", SHORT, dense))
        ]
        self.run = runs[0].id
        (folder / "results" / "sweep").mkdir(parents=True)
        for run in runs:
            weights = {path.name: weights_checksum(path) for path in run.checkpoints.glob("*.ckpt")}
            write_record(record_of(run, items=items_of(run), weights=weights), folder / "results" / "sweep")
        self.sweep = folder / "sweep.yaml"
        base = {
            key: value
            for key, value in self.config.model_dump(mode="json").items()
            if key not in ("task", "layer", "seed")
        }
        grid = {"layer": ["dense", {"structure": "phm", "n": 2}]}
        content = {"title": "Flips", "task": "sva", "base": base, "grid": grid}
        self.sweep.write_text(json.dumps(content), encoding="utf-8")
        self.whole = {area: self._verbs(area, folder) for area in AREAS}
        for area, outcomes in self.whole.items():
            for verb, (state, value) in outcomes.items():
                assert state == "done", f"{verb} on the whole {area}: {value}"

    def files(self, area: str) -> list[Path]:
        """Files that a flip may hit, relative to the laboratory."""
        if area == "index":
            return [Path("runs", index.INDEX)]
        place = {"run": f"runs/{self.run}", "prepared": "cache", "results": "results"}[area]
        paths = (path for path in sorted((self.folder / place).rglob("*")) if path.is_file() and path.stat().st_size)
        return [path.relative_to(self.folder) for path in paths if path.suffix != ".lock"]

    def trial(self, area: str, number: int, tally: Tally) -> None:
        """Flip one bit of one file in a copy, and count the outcome."""
        draw = random.Random(f"{area}:{number}")
        file = draw.choice(self.files(area))
        with tempfile.TemporaryDirectory(dir=self.folder.parent) as place:
            copy = Path(place)
            for name in ("runs", "cache", "results"):
                shutil.copytree(self.folder / name, copy / name, symlinks=True)
            if area == "index":
                self._table(copy / "runs")
                assert index.RunIndex(copy / "runs")._read(index.code_key())["runs"]
            content = bytearray((copy / file).read_bytes())
            bit = draw.randrange(8 * len(content))
            content[bit // 8] ^= 1 << bit % 8
            (copy / file).write_bytes(content)
            checksum_once.cache_clear()
            self.notes.lines.clear()
            logger = logging.getLogger("phmrun")
            logger.setLevel(logging.INFO)
            logger.addHandler(self.notes)
            outcomes = self._verbs(area, copy)
        text = "\n".join(self.notes.lines)
        output = any(word in text for word in ("rebuilt", "made again", "broken", "damaged", "checksum"))
        silent = [verb for verb, result in outcomes.items() if result != self.whole[area][verb] and result[0] == "done"]
        noticed = output or any(result[0] == "refused" for result in outcomes.values())
        outcome = "silent" if silent and not output else "noticed" if noticed else "identical"
        if outcome == "silent":
            tally.silent.append(f"{area} {number}: bit {bit} of {file}: {', '.join(silent)}")
        tally.outcomes[area, outcome] += 1
        name = file.name if area != "results" else "record"
        tally.by_file[name, outcome] += 1

    def _verbs(self, area: str, place: Path) -> dict[str, tuple[str, Any]]:
        os.environ["PHMRUN_CACHE"] = str(place / "cache")
        verbs: dict[str, Callable[[], Any]]
        if area == "run":
            verbs = {
                "train": lambda: self._train(place / "runs"),
                "table": lambda: self._table(place / "runs"),
                "report": lambda: self._report(place),
                "eval": lambda: self._eval(place / "runs"),
            }
        elif area == "index":
            verbs = {"table": lambda: self._table(place / "runs")}
        elif area == "prepared":
            verbs = {"train": lambda: self._trained_anew(place / "anew")}
        else:
            verbs = {"restore": lambda: self._restored(place)}
        return {verb: _outcome(run) for verb, run in verbs.items()}

    def _train(self, runs: Path) -> Any:
        result = self._run(self.config, runs)
        return result.run_id, str(result.state), _stable(result.metrics)

    def _eval(self, runs: Path) -> Any:
        return _stable(evaluate_run(open_run(Run(runs / self.run))))

    def _table(self, runs: Path) -> Any:
        seen = view([], runs, Asked())
        return repr([seen.table.rows, seen.table.parameters, sorted(str(row) for row in _rows(seen.results))])

    def _report(self, place: Path) -> Any:
        seen, plan = view_of_sweep(str(self.sweep), place / "runs", Asked())
        seen.require_runs(place / "runs")
        written = write_report(plan, seen.statuses, seen.table, seen.differences(), place / "report.html")
        pages = [path.read_text(encoding="utf-8") for path in written if path.suffix == ".md"]
        return [
            re.sub(r"Written \S+", "", page).replace(str(place), "").replace(str(self.folder), "") for page in pages
        ]

    def _trained_anew(self, runs: Path) -> Any:
        run = Run(self._run(self.config, runs).run_dir)
        sums = {path.name: weights_checksum(path) for path in run.checkpoints.glob("*.ckpt")}
        metrics = _stable(run.metrics())
        shutil.rmtree(runs)
        return run.id, sums, metrics

    def _restored(self, place: Path) -> Any:
        restore(sorted((place / "results" / "sweep").glob("*.json")), place / "restored", durable=False)
        table = self._table(place / "restored")
        files = [path for path in sorted((place / "restored").rglob("*")) if path.is_file()]
        return table, [(path.name, path.read_bytes()) for path in files]


def _rows(results: Any) -> Iterator[dict[str, Any]]:
    """Rows of the long table, without speeds, which differ from time to time."""
    return (row for row in results if not row["score"].endswith("_per_second"))


def _stable(metrics: Any) -> Any:
    """Scores without speeds, which differ from time to time."""
    return repr({name: value for name, value in sorted(metrics.items()) if not name.endswith("_per_second")})


def _outcome(verb: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "done", verb()
    except PhmrunError as error:
        return "refused", error.what


def main() -> int:
    """Run the flips that are asked for, and print a table; 1 if one was silent."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.flips", description=__doc__)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        laboratory = Laboratory(Path(place) / "whole")
        for number in range(asked.first, asked.first + asked.flips):
            laboratory.trial(("run", "run", "run", "prepared", "results", "index")[number % 6], number, tally)
            if (number + 1) % 50 == 0:
                print("\n".join(tally.rows()), *tally.silent, sep="\n", flush=True)
    for (name, outcome), count in sorted(tally.by_file.items()):
        print(f"{name:<24} {outcome:<10} {count:>5}")
    print("\n".join(tally.rows()))
    print(*tally.silent, sep="\n")
    return 1 if tally.silent else 0


if __name__ == "__main__":
    sys.exit(main())
