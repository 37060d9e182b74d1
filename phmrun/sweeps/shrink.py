"""Search for the cheapest way to a smaller model: rounding, structures, a narrower student.

Every trained candidate is an ordinary run, and every measurement is kept in the search's folder. The same search again
therefore continues where it was interrupted.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import torch

from phmrun.config import Experiment
from phmrun.engine.counting import count_parameters
from phmrun.engine.experiment import train
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import Derivation, TrainedModel, open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.exchange.compress import Plan, derivation, layer_of, make_plan
from phmrun.exchange.factored import has_factors
from phmrun.exchange.formats import Format
from phmrun.exchange.further_training import further_training
from phmrun.files import read_object, write_json
from phmrun.ledger import Run
from phmrun.ledger.history import BEST
from phmrun.metric import metric_of
from phmrun.progress import note
from phmrun.registry import EMBEDDINGS, TASKS
from phmrun.results.items import RunItems
from phmrun.statistics.items import variance_of_resamples
from phmrun.statistics.verdict import Judgement, Question, judge
from phmrun.sweeps.serving import serve_all

By = Literal["bytes", "parameters", "latency"]
STRUCTURES = (("low-rank",), ("monarch",), ("phm",), ("low-rank", "monarch", "phm"))
"""Structures to try, in this order, of several the best for each map; tables are low-rank, which fits any size."""
ROUNDINGS = ("bfloat16", "int8", "int4+16", "int4")
"""Roundings to try, in this order."""
RATES = (0.3, 0.1, 0.03)
"""Peak rates of further training, as shares of the run's highest; the best on the validation data is kept."""
BATCHES = 8  # calibration batches
SPLIT = "dev"  # split on which candidates are scored

Training = Callable[[int, int, float], Path]
"""Function that trains a run from steps, seed and share of the highest rate, and returns its directory."""


@dataclass(frozen=True)
class Goal:
    """Goal of a search.

    Attributes:
        share: Largest cost (0–1), relative to the run's float32 safetensors file (folded), parameters or latency.
        by: Cost.
        within: Largest loss of the score, in its units.
        steps: Optimizer steps of each trained candidate.
        seeds: Number of seeds of each trained candidate.
        every: True to try all ways; False to stop at the first result that reaches the goal.
    """

    share: Fraction
    by: By = "bytes"
    within: float = 0.5
    steps: int = 300
    seeds: int = 1
    every: bool = False


@dataclass(frozen=True)
class Result:
    """Measured candidate.

    Attributes:
        way: "rounding", "structure", "student" or "control".
        label: Name for tables.
        runs: Directories of its runs, one per seed; the run itself for a rounding.
        served: Measurements of the first seed by ``phmrun export --compare``.
        shares: "bytes", "parameters" and "latency" of the first seed, relative to the run.
        loss: Mean loss of the score against the run, in its units; below 0: the candidate is better.
        reached: True if it reaches the goal within the allowed loss.
        command: Command that writes the file.
        judgement: Verdict against the dense control on the test set; None for roundings and the control.
    """

    way: str
    label: str
    runs: tuple[Path, ...]
    served: Mapping[str, Any]
    shares: Mapping[str, float]
    loss: float
    reached: bool
    command: str
    judgement: Judgement | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result for JSON.

        Keys: way, label, runs (paths), loss, shares, reached, verdict (its name, or ``None``), command, served.
        """
        facts = {name: value for name, value in vars(self).items() if name != "judgement"}
        verdict = None if self.judgement is None else str(self.judgement.verdict)
        return {**facts, "runs": [str(path) for path in self.runs], "verdict": verdict}


@dataclass
class Search:
    """Search around a trained run.

    Args:
        run: The run.
        goal: The goal.
        plugins: Plug-ins of the run, by file.
        progress: Called with each result as soon as it is measured.
    """

    run: Run
    goal: Goal
    plugins: Mapping[Path, str] = field(default_factory=dict)
    progress: Callable[[Result], None] = lambda result: None

    @property
    def folder(self) -> Path:
        """Folder of the measurements: ``.sweeps/shrink-ID`` beside the run."""
        return self.run.path.parent / ".sweeps" / f"shrink-{self.run.id}"

    def results(self) -> list[Result]:
        """Try the ways in order of effort, and return the results.

        They are in the order of :meth:`_tried`, the control among them. Without ``goal.every``, nothing is tried after
        a candidate that reaches the goal. Each result is given to ``progress`` when measured; verdicts are added at the
        end. The run's own measurements become ``base``.
        """
        self.base = self._served(self.run, Format("safetensors"))
        results: list[Result] = []
        for result in self._tried():
            self.progress(result)
            results.append(result)
            if result.reached and result.way != "control" and not self.goal.every:
                break
        return self._judged(results)

    def _tried(self) -> Iterator[Result]:
        """Yield measured candidates in order of effort.

        These are roundings of the run (unless the goal is on parameters), the control, each structure, and a narrower
        student if the network has a width. Roundings are ``ROUNDINGS``, and CTranslate2's int8 if the task converts
        to it. Structures and student are measured in full precision and, unless the goal is on parameters, in int8.
        They are tried at each share of :meth:`_shares_of_parameters`. One that cannot be built is left out with a note.
        The student trains at the run's own highest rate only.

        Raises:
            PhmrunError: (exit 3, 4) A file is damaged, or the disk fails while a candidate is trained.
        """
        trained = open_run(self.run)
        factored = has_factors(trained.module.network)
        if self.goal.by != "parameters":
            for precision in ROUNDINGS:
                yield self._measured("rounding", f"{precision} of the run", [self.run], factored, precision)
            if TASKS.get(trained.config.task).converts and find_spec("ctranslate2"):
                yield self._measured(
                    "rounding", "ctranslate2 int8 of the run", [self.run], False, "int8", "ctranslate2"
                )
        label = "dense, the same further steps"
        yield self._measured("control", label, self._trained(continued(self.run), RATES), False, "none")
        shares = {share: f"{100 * float(share):.3g}%" for share in self._shares_of_parameters(factored)}
        trainings: list[tuple[str, str, Training, tuple[float, ...]]] = [
            ("structure", f"{' or '.join(names)} at {percent}", compressed(self.run, names, share), RATES)
            for share, percent in shares.items()
            for names in STRUCTURES
        ]
        model = getattr(trained.config, "model", None)
        if hasattr(model, "width") and getattr(model, "path", None) is None:  # a folder's network has its width
            trainings += [
                ("student", f"narrower dense student at {percent}", student(self.run, share), (1.0,))
                for share, percent in shares.items()
            ]
        precisions = ("none",) if self.goal.by == "parameters" else ("none", "int8")
        for way, label, make, rates in trainings:
            try:
                runs = self._trained(make, rates)
                for precision in precisions:
                    name = label if precision == "none" else f"{label}, {precision}"
                    yield self._measured(way, name, runs, way == "structure", precision)
            except PhmrunError as error:
                # A failing disk and damaged files say nothing of the candidate.
                if error.code is ExitCode.DATA or isinstance(error.__cause__, OSError):
                    raise
                note(f"without {label}: {error.what}")

    def _shares_of_parameters(self, factored: bool) -> list[Fraction]:
        """Return the shares of parameters that structures and students keep.

        The last one is the goal's share. A goal on bytes that int8 of the run misses has another one before it, with
        which int8 reaches the goal; a twentieth is set aside for the scales of factors.

        Args:
            factored: True if the run has structures, whose factors are kept.
        """
        shares = [self.goal.share]
        if self.goal.by == "bytes":
            rounded = self._served(self.run, Format("safetensors", factored, "int8"))
            room = self.goal.share * Fraction(19, 20) * Fraction(self.base["bytes"], rounded["bytes"])
            shares = [room, *shares] if room < 1 else shares
        return shares

    def _trained(self, make: Training, rates: tuple[float, ...]) -> list[Run]:
        """Train a candidate with every seed, and return its runs, one per seed.

        The first seed is the run's own; the others count on from it. The first seed is trained with each of ``rates``
        (shares of the run's highest rate), or with the first one only if the goal has no steps. A rate is left out if
        training diverges with it. The others get the rate with the best validation, which is that of the returned first
        run. Finished runs are not trained again.

        Raises:
            PhmrunError: (exit 3, 4) Training fails at every rate or with another seed, or a file or disk fails.
        """
        config = open_run(self.run).config
        sign = 1 if metric_of(f"val/{config.training.monitor}").lower_is_better else -1
        rates = rates if self.goal.steps else rates[:1]
        tried: dict[float, Run] = {}
        for rate in rates:
            try:
                tried[rate] = Run(make(self.goal.steps, config.seed, rate))
            except PhmrunError as error:
                all_failed = rate == rates[-1] and not tried
                if all_failed or error.code is not ExitCode.TRAINING or isinstance(error.__cause__, OSError):
                    raise
        best = next(iter(tried))
        if len(tried) > 1:
            best = min(tried, key=lambda rate: sign * float(tried[rate].metrics()[BEST]["value"]))
        others = range(config.seed + 1, config.seed + self.goal.seeds)
        return [tried[best], *(Run(make(self.goal.steps, seed, best)) for seed in others)]

    def _measured(
        self, way: str, label: str, runs: list[Run], factored: bool, precision: str, kind: str = "safetensors"
    ) -> Result:
        """Measure a format of a candidate's runs, and compare it with the goal.

        Sizes, latency and shares (bytes, parameters, latency) are those of the first run; the loss of score is that of
        the mean over runs. The goal is reached if the loss is at most ``goal.within``, and the share at most the goal's
        (of bytes, 1.005 times that). The result's command exports the first run.
        """
        item = Format(kind, factored, precision)
        served = [self._served(run, item) for run in runs]
        shares = {by: float(served[0][by]) / float(self.base[by]) for by in ("bytes", "parameters")}
        shares["latency"] = float(served[0]["latency_ratio"])
        sign = -1 if metric_of(served[0]["metric"]).lower_is_better else 1
        loss = sign * (self.base["score"] - sum(row["score"] for row in served) / len(served))
        # A file has a header, so that bfloat16 is never quite half of float32.
        most = float(self.goal.share) * (1.005 if self.goal.by == "bytes" else 1.0)
        reached = shares[self.goal.by] <= most and loss <= self.goal.within
        kept = (" --factored" if factored else "") + ("" if precision == "none" else f" --quantization {precision}")
        command = f"phmrun export {runs[0].reference} --format {kind}{kept}"
        return Result(way, label, tuple(run.path for run in runs), served[0], shares, loss, reached, command)

    def _served(self, run: Run, item: Format) -> dict[str, Any]:
        """Return the measurements of a format, see :func:`~phmrun.sweeps.serving.serve_all`.

        Those on record in :attr:`folder` are read; missing or damaged ones are measured relative to the search's run,
        and written there.
        """
        path = self.folder / f"{run.id} {item.label} {SPLIT}.json"
        record = read_object(path)
        if "latency_ratio" in record:
            return record
        (served,) = serve_all(run, [item], split=SPLIT, plugins=self.plugins, reference=self.run)
        served["changed"] = None  # outputs of one format are compared with no others
        write_json(path, served)
        return served

    def _judged(self, results: list[Result]) -> list[Result]:
        """Add the verdicts of trained candidates against the dense control.

        They are on the scores of the test set, and only candidates in full precision have one. Without the control or
        such a candidate, the results are unchanged. The margin is the goal's allowed loss; there is none if that is 0.
        Of several seeds, the one that chose a rate does not count. Scores of single items are resampled if all runs
        have them.
        """
        control = next((result for result in results if result.way == "control"), None)
        trained = [result for result in results if result.way in ("structure", "student") and "," not in result.label]
        if control is None or not trained:
            return results
        score = f"test/{control.served['metric']}"
        metric, reader = metric_of(score), RunItems()
        values, items = {}, {}
        for result in (control, *trained):
            scores = [run.metrics().get(score) for run in self._counted(result)]
            values[result.label] = [float(entry["value"]) for entry in scores if isinstance(entry, Mapping)]
            sides = [reader.of(self._counted(side), score) for side in (result, control)]
            if metric.measure is not None and all(sides):
                drawn = [reader.resampled(self._counted(side), score, metric.measure) for side in (result, control)]
                items[result.label] = variance_of_resamples(drawn[0], drawn[1])
        reference = values.pop(control.label)
        question = Question(self.goal.within or None, metric.lower_is_better)
        judged = judge(values, reference, question, items=items)
        return [replace(result, judgement=judged.get(result.label)) for result in results]

    def _counted(self, result: Result) -> list[Run]:
        """Return a result's runs without that of the seed that chose its rate, if there are others."""
        chose = self.goal.steps > 0 and result.way != "student" and len(result.runs) > 1
        return [*map(Run, result.runs[1:] if chose else result.runs)]


def recommended(results: list[Result], by: By) -> Result | None:
    """Return the result that reaches the goal with the least effort.

    Ways by rising effort are rounding, structure, student. Within a way, the result with the least share of ``by`` is
    taken. The result is ``None`` if none reaches the goal; the control does not count.
    """
    reaching = [result for result in results if result.reached and result.way != "control"]
    order = ("rounding", "structure", "student")
    return min(reaching, key=lambda result: (order.index(result.way), result.shares[by]), default=None)


Start = Callable[[TrainedModel, str, Experiment], tuple[Experiment, Derivation]]
"""Function from a run, the name of its weights and its configuration to those of a candidate and its derivation."""


def _further(run: Run, start: Start) -> Training:
    """Return the training of a candidate that ``start`` derives from a run."""

    def make(steps: int, seed: int, rate: float) -> Path:
        """Train the candidate, and return its run's directory."""
        trained = open_run(run)
        weights = trained.load()
        training = further_training(trained.config.training, trained.module.schedule, run.status.step, steps, rate=rate)
        config = trained.config.model_copy(update={"seed": seed, "training": training})
        config, derived = start(trained, weights, config)
        return train(config, origin={}, runs_dir=run.path.parent, derivation=derived).run_dir

    return make


def compressed(run: Run, names: Sequence[str], share: Fraction) -> Training:
    """Return the further training of a run compressed by structures.

    The structures are fitted once, by the first training, and the fit is drawn from the run's seed. The run is the
    teacher, if its task can be taught. Training raises a PhmrunError if no plan fits the share.

    Args:
        run: The run.
        names: Structures of the maps; of several, each map gets one by the error of its outputs. Tables are low-rank.
        share: Share of the parameters to keep.
    """
    layer, *others = (layer_of(name, {}) for name in names)
    tables = {"embedding": layer_of("low-rank", {})}

    @cache
    def plan() -> Plan:
        """Fit the structures to the run's weights, once."""
        trained = open_run(run)
        trained.load()
        torch.manual_seed(trained.config.seed)  # the same fit when an interrupted search goes on
        return make_plan(
            trained,
            layer,
            budget=share,
            batches=BATCHES,
            tables=tables,
            others=others,
            allocate="error" if others else "loss",
        )

    def start(trained: TrainedModel, weights: str, config: Experiment) -> tuple[Experiment, Derivation]:
        """Derive the compressed run."""
        derived = derivation(trained, plan(), weights, BATCHES, taught=_teaches(trained))
        return plan().config_of(config, layer, config.training), derived

    return _further(run, start)


def continued(run: Run) -> Training:
    """Return the further training of a run with its maps as they are, the control of :func:`compressed`."""

    def start(trained: TrainedModel, weights: str, config: Experiment) -> tuple[Experiment, Derivation]:
        """Derive the same network."""
        plan = Plan((), {}, 0, 0, int(run.parameters()["total"]), None, {}, {})
        return config, derivation(trained, plan, weights, 0, taught=_teaches(trained))

    return _further(run, start)


def student(run: Run, share: Fraction) -> Training:
    """Return the training of a narrower network of the same kind from new weights.

    The run is the teacher, if its task can be taught. The width is the largest multiple of the heads, and of 8, whose
    network has at most ``share`` of the run's parameters.

    Raises:
        PhmrunError: (exit 2, by the training) Even the narrowest such network is larger.
    """

    def start(trained: TrainedModel, weights: str, config: Experiment) -> tuple[Experiment, Derivation]:
        """Derive the narrower network."""
        smaller = _narrower(config, trained.vocabulary.sizes, share * int(run.parameters()["total"]))
        marks = {"teacher": run.id, "teacher's weights": weights}
        return smaller, Derivation(marks, teacher=trained if _teaches(trained) else None)

    return _further(run, start)


def _narrower(config: Experiment, sizes: tuple[int, ...], most: Fraction) -> Experiment:
    """Return the config of dense matrices with the largest width that fits.

    It has at most ``most`` parameters. Widths are below the present one, and multiples of the heads and of 8. The
    feed-forward width, if there is one, shrinks alike, to at least 8. An embedding of several matrices stays.

    Raises:
        PhmrunError: (exit 2) Even the narrowest such network is larger.
    """
    model = cast(Any, config).model
    parts = {name: getattr(config, name) for name in ("layer", "embedding", "output")}
    dense = {name: type(part)() for name, part in parts.items() if part.structure not in EMBEDDINGS}
    config = config.model_copy(update={**dense, "maps": ()})
    for width in range(model.width - 1, 0, -1):
        if width % getattr(model, "heads", 1) or width % 8:
            continue
        update: dict[str, Any] = {"width": width}
        if hasattr(model, "feedforward"):
            update["feedforward"] = max(8, model.feedforward * width // model.width)
        smaller = config.model_copy(update={"model": model.model_copy(update=update)})
        if count_parameters(smaller, sizes)["total"] <= most:
            return smaller
    raise PhmrunError("no narrower network of this kind is small enough")


def _teaches(trained: TrainedModel) -> bool:
    """True if networks of the run's task can learn from it.

    Its training module then defines ``predictions`` of its own.
    """
    return type(trained.module).predictions is not TrainingModule.predictions
