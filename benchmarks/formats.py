"""Bytes, accuracy, memory and time of every export format, for several structures in the maps of one network.

A run of each structure is trained for a few steps, with the same settings, and served in each installed format by
``phmrun export --compare``. Measurements on record are read; the same command continues an interrupted one.

``python -m benchmarks.formats --config configs/nmt/multi30k-nine-epochs.yaml --steps 300 --threads 1``
``python -m benchmarks.formats --runs runs/nmt-multi30k-dense-1-… runs/nmt-multi30k-phm-1-…`` trains nothing.
"""

from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import phmrun
from benchmarks.arguments import parser, start
from phmrun.cli import bench as measuring
from phmrun.cli import console
from phmrun.engine.trained_model import open_run
from phmrun.ledger import Run
from phmrun.ledger.directory import config_values, network_label
from phmrun.ledger.wording import SERVING
from phmrun.sweeps.serving import formats_of, serve_all

LAYERS: Mapping[str, Mapping[str, Any]] = {
    "dense": {"layer": "dense"},
    "phm n=4": {"layer": "phm", "n": 4},
    "phm n=8": {"layer": "phm", "n": 8},
    "monarch 1/4": {"layer": "monarch", "settings": {"layer.budget": "1/4"}},
    "low-rank 1/4": {"layer": "low-rank", "settings": {"layer.budget": "1/4"}},
    "kronecker 4": {"layer": "kronecker", "settings": {"layer.rank": 4}},
}
COLUMNS = ("network", "format", "bytes", "difference", "changed", "score", "MB", "ms, batch 1", "ms, batch 32")


def measured(run: Run, split: str, *, only: Collection[str] = (), decode: bool = True) -> list[dict[str, Any]]:
    """Return the measurements of a run's installed formats; those on record are not repeated.

    Args:
        run: The run.
        split: Split to decode and score.
        only: Labels of formats beside the checkpoint; empty for all.
        decode: False for bytes and differences only, which are not kept.
    """
    formats = [item for item in formats_of(open_run(run)) if not only or item.label in (*only, "checkpoint")]
    if not decode:
        return serve_all(run, formats, decode=False)
    record = run.bench()
    if any("difference" not in record.get(f"{SERVING}{item.label}", {}) for item in formats):
        run.add_bench({f"{SERVING}{item['label']}": item for item in serve_all(run, formats, split=split)})
        record = run.bench()
    return [record[f"{SERVING}{item.label}"] for item in formats]


def row(network: str, entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a measured format, in the order of ``COLUMNS``; ``–`` is not measured."""

    def shown(name: str, form: str, scale: float = 1) -> str:
        """Return a formatted field, or ``–``."""
        return "–" if entry.get(name) is None else format(entry[name] * scale, form)

    cells = (shown("bytes", ",d"), shown("difference", ".0e"), shown("changed", ",d"), shown("score", ".2f"))
    times = (shown("peak_memory", ".0f", 1e-6), shown("single_ms", ".1f"), shown("batch_ms", ".2f"))
    return network, str(entry["label"]), *cells, *times


def runs_of(args: Namespace) -> Iterator[tuple[str, Run]]:
    """Yield names and runs: those of ``--runs`` by the labels of their networks, else a training for each structure."""
    if args.runs:
        for run in map(Run, args.runs):
            yield network_label(config_values(run.config_path)) or run.id, run
        return
    for name in args.layers:
        settings = {"max_steps": args.steps, **LAYERS[name]}
        yield name, phmrun.train("nmt", config=args.config, runs_dir=args.runs_dir, **settings).run


def main() -> None:
    """Train and measure; print the table, or JSON with ``--json``."""
    options = parser(__doc__, repeats=1)
    options.add_argument("--config", nargs="+", default=["configs/nmt/demo.yaml"], help="configurations of the runs")
    options.add_argument("--steps", type=int, default=300, help="optimizer steps of each run")
    options.add_argument("--bytes", action="store_true", help="only bytes and differences: no decoding")
    options.add_argument("--formats", nargs="+", default=(), help="labels, such as 'safetensors int8'; default: all")
    options.add_argument("--split", default="test", help="split to decode and score")
    options.add_argument("--runs-dir", type=Path, default=Path("runs"), help="directory of the runs")
    options.add_argument("--runs", nargs="+", type=Path, help="directories of trained runs, in place of training")
    options.add_argument("--layers", nargs="*", choices=list(LAYERS), default=list(LAYERS), help="structures")
    args = options.parse_args()
    machine = start(args)
    results: dict[str, list[dict[str, Any]]] = {}
    for name, run in runs_of(args):
        results[run.id if name in results else name] = measured(
            run, args.split, only=args.formats, decode=not args.bytes
        )
    if args.json:
        console.print_json({"machine": machine, "results": results})
        return
    measuring.print_machine(machine)
    console.print_table(COLUMNS, [row(name, entry) for name, entries in results.items() for entry in entries])


if __name__ == "__main__":
    main()
