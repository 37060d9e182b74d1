"""``phmrun decide``: verdicts on scores that were measured anywhere."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phmrun.cli import console
from phmrun.cli.options import Json
from phmrun.errors import PhmrunError, counted
from phmrun.progress import note as tell

if TYPE_CHECKING:
    from phmrun.statistics.referee import Decision


def decide(
    files: Annotated[list[str], typer.Argument(metavar="FILE…")],
    metric: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    reference: Annotated[str | None, typer.Option(metavar="SYSTEM")] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs")] = False,
    trivial: Annotated[str | None, typer.Option(metavar="SYSTEM")] = None,
    margin: Annotated[float | None, typer.Option(min=0)] = None,
    lower_is_better: Annotated[bool | None, typer.Option("--lower-is-better/--higher-is-better")] = None,
    over: Literal["seeds", "items"] | None = None,
    require: Literal["better", "not-worse"] | None = None,
    cost: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    as_json: Json = False,
) -> None:
    """Judge systems by the scores of their seeds: different, equivalent, not worse, undecided or untrained.

    One simultaneous 95 % interval for each system beside the reference, or for each pair, decides. Exit code: 0 if it
    could judge, 1 if --require is not shown.

    A file, line by line: "system,seed,accuracy", "dense,1,91.2", "dense,2,91.6", "mine,1,89.8", "mine,2,89.5".

    Args:
        files: CSV, TSV or JSON lines with the columns system (or model, run), seed, metric and value (or score).
            Optional columns are dataset and item. A column for each metric, system or seed is read, too, and
            files or folders of lm-evaluation-harness (results_*.json, samples_*.jsonl). NAME=PATH names the system.
        metric: Metric of the verdicts (default: the file's, if it has one).
        reference: Reference system, which all others are compared with.
        all_pairs: Compare every system with every other, instead of with a reference.
        trivial: Trivial baseline that a trained system must beat.
        margin: Equivalence margin δ, in units of the metric (default: test for differences only).
        lower_is_better: Lower or higher values are better (default: as phmrun knows of the metric).
        over: Population: training seeds (default), or test items (default without seeds).
        require: Exit with code 1 unless this is shown for every judged system.
        cost: Metric to show beside the verdicts, as parameters or seconds; may be repeated.

    Examples:
        phmrun decide scores.csv --reference dense --metric bleu --margin 0.5
        phmrun decide scores.jsonl --reference dense --trivial majority --metric accuracy --json
        phmrun decide scores.csv --all-pairs --metric bleu
        phmrun decide out/base out/tuned --reference base --metric arc_easy/acc
    """
    if (reference is None) != all_pairs:
        what = "--all-pairs has no reference" if all_pairs else "there is no reference"
        hint = "--reference SYSTEM names the one that all others are compared with, --all-pairs compares all of them."
        raise PhmrunError(what, where="--reference", hint=hint)
    if all_pairs and require:
        raise PhmrunError("it is shown of a system beside a reference, not of pairs", where="--require")
    from phmrun.statistics.long_form import read_rows
    from phmrun.statistics.referee import decide as judge
    from phmrun.statistics.referee import decide_pairs, meets

    rows = read_rows(files, metric or "")
    names = [name for name in rows["metric"].unique() if name not in (cost or ())]
    if metric is None and len(names) != 1:
        raise PhmrunError(f"the scores are of {len(names)} metrics", where="--metric", valid=names)
    metric = metric or names[0]
    terms: dict[str, Any] = {"metric": metric, "trivial": trivial, "margin": margin, "lower_is_better": lower_is_better}
    terms |= {"over": over, "costs": cost or ()}
    decisions = [judge(rows, reference=reference, **terms)] if reference is not None else decide_pairs(rows, **terms)
    judged = {trivial, *(name for decision in decisions for name in (decision.reference.name, *decision.systems))}
    if missing := [name for name in rows["system"].unique() if name not in judged]:
        tell(f"without {decisions[0].metric}, and not judged: {', '.join(missing)}")
    if as_json:
        console.print_json(_pairs_as_dict(decisions) if all_pairs else decisions[0].as_dict())
    else:
        _show(decisions, all_pairs=all_pairs)
    if require and not all(meets(judgement, require) for judgement in decisions[0].judgements.values()):
        raise typer.Exit(1)


def _show(decisions: Sequence["Decision"], *, all_pairs: bool) -> None:
    """Print a table of verdicts, the reference first, or for all pairs one of systems and one of pairs; then notes.

    Notes: direction, estimand, what the intervals are simultaneous over, and whether systems beat the trivial one. For
    each comparison, if any: reason, interval over items, and seeds needed.
    """
    first, described = decisions[0], [decision.as_dict() for decision in decisions]
    reference = described[0]["reference"]
    systems = {reference["name"]: reference, **described[0]["systems"]}
    scores = {name: [_number(fact["mean"]), _number(fact["std"]), fact["seeds"]] for name, fact in systems.items()}
    costs = {name: ["–" if v is None else f"{v:,.10g}" for v in its["costs"].values()] for name, its in systems.items()}
    pairs = [(name, facts["reference"]["name"], fact) for facts in described for name, fact in facts["systems"].items()]
    verdict = ("verdict", "Δ", "95 % interval", "p")
    if all_pairs:
        rows = [[name, *scores[name], *costs[name]] for name in systems]
        console.print_table(("system", "mean", "std", "seeds", *first.costs), rows, title=first.metric)
        print()
        rows = [[name, beside, *_verdict_cells(fact), _number(fact["detectable"])] for name, beside, fact in pairs]
        heads: tuple[str, ...] = ("system", "beside", *verdict, "detectable")
        console.print_table(heads, rows, drop=("detectable", "p"), labels=("system", "beside", "verdict"))
    else:
        rows = [
            [name, *_verdict_cells(fact), *scores[name], _number(fact.get("detectable")), *costs[name]]
            for name, fact in systems.items()
        ]
        heads = ("system", *verdict, "mean", "std", "seeds", "detectable", *first.costs)
        console.print_table(heads, rows, title=first.metric, drop=("detectable", "std", "p", "mean"))
    question, family = first.question, counted(len(pairs), "pair" if all_pairs else "system")
    console.print_note(f"{'lower' if question.lower_is_better else 'higher'} values of {first.metric} are better")
    console.print_note(f"estimand: {first.estimand}")
    margin = f", margin {question.margin:g}" if question.margin else ""
    console.print_note(f"intervals and p are simultaneous over {family}{margin}; detectable: with a power of 80 %")
    if trivial := described[0]["trivial"]:
        for name, fact in (systems if all_pairs else {reference["name"]: reference}).items():
            outcome = "beats" if fact["trained"] else "does not beat"
            console.print_note(f"{name} {outcome} {trivial['name']} ({_number(trivial['mean'])}) significantly")
    for name, beside, fact in pairs:
        for note in _remarks(f"{name} beside {beside}" if all_pairs else name, fact):
            console.print_note(note)
    if any(fact["more_seeds"] for *_, fact in pairs):
        console.print_note("judge new seeds alone: a second look at the same ones finds differences by chance")


def _verdict_cells(fact: dict[str, Any]) -> list[str]:
    """Return verdict, difference, interval and p-value of a system; empty texts for those of the reference."""
    from phmrun.statistics.welch import interval_words

    if "verdict" not in fact:
        return ["reference, untrained" if fact["trained"] is False else "reference", "", "", ""]
    verdict, interval = fact["verdict"], fact["interval"]
    if verdict == "different":
        verdict += ", better" if fact["better"] else ", worse"
    if not interval:
        return [verdict, "", "", ""]
    return [verdict, f"{fact['difference']:+.4g}", interval_words(interval[0], interval[1], ".4g"), f"{fact['p']:.2g}"]


def _remarks(name: str, fact: dict[str, Any]) -> Iterator[str]:
    """Yield what else is known of a comparison, if anything: reason, interval over items, seeds needed."""
    if fact["reason"]:
        p = fact["p_collapsed"]
        yield f"{name}: {fact['reason']}" + ("" if p is None else f"; Fisher's exact test p = {p:.2g}")
    if fact["interval_over_items"]:
        low, high = fact["interval_over_items"]
        yield f"{name}: {low:+.4g} to {high:+.4g} over test items, these runs fixed (95 %)"
    if fact["more_seeds"]:
        yield f"{name}: about {fact['more_seeds']} more seeds of each are likely to decide"


def _pairs_as_dict(decisions: Sequence["Decision"]) -> dict[str, Any]:
    """Return all pairs for JSON.

    The terms are those of a decision; ``pairs`` is a list with ``system``, ``beside`` and the facts of the system
    beside that one.
    """
    described = [decision.as_dict() for decision in decisions]
    terms = {name: value for name, value in described[0].items() if name not in ("reference", "systems")}
    pairs = [
        {"system": name, "beside": facts["reference"]["name"], **fact}
        for facts in described
        for name, fact in facts["systems"].items()
    ]
    return terms | {"pairs": pairs}


def _number(value: float | None) -> str:
    """Return a number with four digits; "" for None."""
    return "" if value is None else f"{value:.4g}"
