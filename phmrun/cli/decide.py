"""``phmrun decide``: verdicts on scores that were measured anywhere."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import Json
from phmrun.errors import PhmrunError, counted
from phmrun.progress import note as tell

if TYPE_CHECKING:
    from phmrun.statistics.referee import Decision


class Requirement(StrEnum):
    """Statement that --require demands."""

    BETTER = "better"
    NOT_WORSE = "not-worse"


class Over(StrEnum):
    """Population of the verdicts."""

    SEEDS = "seeds"
    ITEMS = "items"
    BOTH = "both"


def decide(
    files: Annotated[list[str], typer.Argument(metavar="FILE…")],
    metric: Annotated[str, typer.Option(metavar="NAME")],
    reference: Annotated[str | None, typer.Option(metavar="SYSTEM")] = None,
    all_pairs: Annotated[bool, typer.Option("--all-pairs")] = False,
    trivial: Annotated[str | None, typer.Option(metavar="SYSTEM")] = None,
    margin: Annotated[float | None, typer.Option(min=0)] = None,
    lower_is_better: Annotated[bool | None, typer.Option("--lower-is-better/--higher-is-better")] = None,
    looks: Annotated[str | None, typer.Option(metavar="N,…")] = None,
    over: Over | None = None,
    choose_by: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    require: Requirement | None = None,
    cost: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    as_json: Json = False,
) -> None:
    """Judge systems by the scores of their seeds: different, equivalent, not worse, undecided or untrained.

    One simultaneous 95 % interval for each system beside the reference, or for each pair, decides. Exit code: 0 if it
    could judge, 1 if --require is not shown.

    Args:
        files: CSV or JSON lines with the columns system, seed, metric, value and optionally item, trial; or files or
            folders of lm-evaluation-harness (--log_samples); NAME=PATH sets the system's name.
        metric: Metric of the verdicts.
        reference: Reference system, which all others are compared with.
        all_pairs: Compare every system with every other, instead of with a reference.
        trivial: Trivial baseline that a trained system must beat.
        margin: Equivalence margin δ, in units of the metric (default: test for differences only).
        lower_is_better: Lower or higher values are better (default: as phmrun knows of the metric).
        looks: Numbers of seeds at the planned looks, fixed in advance (default: one look).
        over: Population: training seeds (default), test items (default without seeds), or both.
        choose_by: Validation metric that selects one trial for each seed.
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

    rows = read_rows(files)
    terms: dict[str, Any] = {"metric": metric, "trivial": trivial, "margin": margin, "lower_is_better": lower_is_better}
    terms |= {"looks": _numbers(looks), "over": over.value if over else None, "choose_by": choose_by}
    terms["costs"] = cost or ()
    decisions = [judge(rows, reference=reference, **terms)] if reference is not None else decide_pairs(rows, **terms)
    judged = {trivial, *(name for decision in decisions for name in (decision.reference.name, *decision.systems))}
    if missing := [name for name in dict.fromkeys(row.system for row in rows) if name not in judged]:
        tell(f"without {decisions[0].metric}, and not judged: {', '.join(missing)}")
    if as_json:
        console.print_json(_pairs_as_dict(decisions) if all_pairs else decisions[0].as_dict())
    elif all_pairs:
        _show_pairs(decisions)
    else:
        _show(decisions[0])
    if require and not all(meets(judgement, require.value) for judgement in decisions[0].judgements.values()):
        raise typer.Exit(1)


def _numbers(text: str | None) -> list[int]:
    """Return the numbers of seeds in a list such as "5,8,10".

    Empty for None.

    Raises:
        PhmrunError: They are not integers that increase from 2 on.
    """
    try:
        numbers = [int(part) for part in (text or "").split(",") if part.strip()]
    except ValueError as error:
        raise PhmrunError(f"looks are whole numbers, not {text!r}", where="--looks", hint="--looks 5,8,10") from error
    if numbers and (numbers[0] < 2 or numbers != sorted(set(numbers))):
        raise PhmrunError(
            f"looks are growing numbers of at least 2 seeds, not {text!r}", where="--looks", hint="--looks 5,8,10"
        )
    return numbers


def _show(decision: "Decision") -> None:
    """Print a table of verdicts, the reference first, then notes.

    Notes: estimand and margin, number of systems and looks that the intervals are simultaneous over, and whether the
    reference beats the trivial system. For each system, if any: reason, interval over items, and seeds needed. If seeds
    are needed and no looks are planned, a last note says that a second look must be planned.
    """
    facts, rows = decision.as_dict(), []
    for name, fact in {facts["reference"]["name"]: facts["reference"], **facts["systems"]}.items():
        verdict, *numbers = _verdict_cells(fact)
        if verdict == "reference" and fact["trained"] is False:
            verdict += ", untrained"
        rows.append([name, verdict, *numbers, *_score_cells(fact), _number(fact.get("detectable")), *_cost_cells(fact)])
    heads = ("system", "verdict", "Δ", "95 % interval", "p", "mean", "std", "seeds", "detectable", *decision.costs)
    console.print_table(heads, rows, title=decision.metric, drop=("detectable", "std", "p", "mean"))
    notes = [_direction(decision), f"estimand: {decision.estimand}"]
    notes.append(_shared_level(decision, counted(len(decision.systems), "system")))
    if facts["trivial"]:
        notes.append(_floor_note(facts["reference"]["name"], facts["reference"]["trained"], facts["trivial"]))
    notes += [note for name, fact in facts["systems"].items() for note in _remarks(name, fact)]
    _print_notes(notes, facts["systems"].values(), decision)


def _show_pairs(decisions: Sequence["Decision"]) -> None:
    """Print a table of systems, one of their pairs, then notes as for a reference."""
    first, described = decisions[0], [decision.as_dict() for decision in decisions]
    systems = {first.reference.name: described[0]["reference"], **described[0]["systems"]}
    rows = [[name, *_score_cells(fact), *_cost_cells(fact)] for name, fact in systems.items()]
    console.print_table(("system", "mean", "std", "seeds", *first.costs), rows, title=first.metric)
    pairs = [(name, facts["reference"]["name"], fact) for facts in described for name, fact in facts["systems"].items()]
    heads = ("system", "beside", "verdict", "Δ", "95 % interval", "p", "detectable")
    rows = [[name, beside, *_verdict_cells(fact), _number(fact["detectable"])] for name, beside, fact in pairs]
    print()
    console.print_table(heads, rows, drop=("detectable", "p"), labels=("system", "beside", "verdict"))
    notes = [_direction(first), f"estimand: {first.estimand}", _shared_level(first, counted(len(pairs), "pair"))]
    if trivial := described[0]["trivial"]:
        notes += [_floor_note(name, fact["trained"], trivial) for name, fact in systems.items()]
    notes += [note for name, beside, fact in pairs for note in _remarks(f"{name} beside {beside}", fact)]
    _print_notes(notes, [fact for *_, fact in pairs], first)


def _print_notes(notes: Iterable[str], facts: Iterable[dict[str, Any]], decision: "Decision") -> None:
    """Print notes; if seeds are needed and no looks are planned, a last one says that a look must be planned."""
    for note in notes:
        console.print_note(note)
    if any(fact["more_seeds"] for fact in facts) and not decision.question.looks:
        console.print_note("a second look at the same seeds must be planned (--looks); else judge the new seeds alone")


def _verdict_cells(fact: dict[str, Any]) -> list[str]:
    """Return verdict, difference, interval and p-value of a system; "reference" and empty texts for the reference."""
    verdict, interval = fact.get("verdict", "reference"), fact.get("interval")
    if verdict == "different":
        verdict += ", better" if fact["better"] else ", worse"
    if not interval:
        return [verdict, "", "", ""]
    return [verdict, f"{fact['difference']:+.4g}", f"{interval[0]:+.4g} to {interval[1]:+.4g}", f"{fact['p']:.2g}"]


def _score_cells(fact: dict[str, Any]) -> list[Any]:
    """Return mean, deviation and number of seeds of a system."""
    return [_number(fact["mean"]), _number(fact["std"]), fact["seeds"]]


def _cost_cells(fact: dict[str, Any]) -> list[str]:
    """Return the costs of a system; "–" for a missing one."""
    return ["–" if value is None else f"{value:,.10g}" for value in fact["costs"].values()]


def _direction(decision: "Decision") -> str:
    """Return the note on which values of the metric are better."""
    return f"{'lower' if decision.question.lower_is_better else 'higher'} values of {decision.metric} are better"


def _shared_level(decision: "Decision", family: str) -> str:
    """Return the note on what the intervals are simultaneous over: a number of systems or pairs, and looks."""
    looks = " and all looks" if decision.question.looks else ""
    margin = f", margin {decision.question.margin:g}" if decision.question.margin else ""
    return f"intervals and p are simultaneous over {family}{looks}{margin}; detectable: with a power of 80 %"


def _floor_note(name: str, trained: bool, trivial: dict[str, Any]) -> str:
    """Return the note on whether a system beats the trivial one."""
    outcome = "beats" if trained else "does not beat"
    return f"{name} {outcome} {trivial['name']} ({_number(trivial['mean'])}) significantly"


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
