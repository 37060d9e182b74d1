"""``phmrun decide``: verdicts on scores that were measured anywhere."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

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
    reference: Annotated[str, typer.Option(metavar="SYSTEM")],
    metric: Annotated[str, typer.Option(metavar="NAME")],
    trivial: Annotated[str | None, typer.Option(metavar="SYSTEM")] = None,
    margin: Annotated[float | None, typer.Option(min=0)] = None,
    lower_is_better: Annotated[bool, typer.Option("--lower-is-better")] = False,
    looks: Annotated[str | None, typer.Option(metavar="N,…")] = None,
    over: Over | None = None,
    choose_by: Annotated[str | None, typer.Option(metavar="NAME")] = None,
    require: Requirement | None = None,
    cost: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    as_json: Json = False,
) -> None:
    """Judge systems by the scores of their seeds: different, equivalent, not worse, undecided or untrained.

    One simultaneous 95 % interval for each system decides. Exit code: 0 if it could judge, 1 if --require is not shown.

    Args:
        files: CSV or JSON lines with the columns system, seed, metric, value and optionally item, trial; or files or
            folders of lm-evaluation-harness (--log_samples); NAME=PATH sets the system's name.
        reference: Reference system, which all others are compared with.
        metric: Metric of the verdicts.
        trivial: Trivial baseline that a trained system must beat.
        margin: Equivalence margin δ, in units of the metric (default: test for differences only).
        lower_is_better: Lower values are better, as for a loss.
        looks: Numbers of seeds at the planned looks, fixed in advance (default: one look).
        over: Population: training seeds (default), test items (default without seeds), or both.
        choose_by: Validation metric that selects one trial for each seed.
        require: Exit with code 1 unless this is shown for every judged system.
        cost: Metric to show beside the verdicts, as parameters or seconds; may be repeated.

    Examples:
        phmrun decide scores.csv --reference dense --metric bleu --margin 0.5
        phmrun decide scores.jsonl --reference dense --trivial majority --metric accuracy --json
        phmrun decide out/base out/tuned --reference base --metric arc_easy/acc
    """
    from phmrun.statistics.long_form import read_rows
    from phmrun.statistics.referee import decide as judge
    from phmrun.statistics.referee import meets

    rows = read_rows(files)
    decision = judge(
        rows,
        reference=reference,
        metric=metric,
        trivial=trivial,
        margin=margin,
        lower_is_better=lower_is_better,
        looks=_numbers(looks),
        over=over.value if over else None,
        choose_by=choose_by,
        costs=cost or (),
    )
    judged = {reference, trivial, *decision.systems}
    if missing := [name for name in dict.fromkeys(row.system for row in rows) if name not in judged]:
        tell(f"without {decision.metric}, and not judged: {', '.join(missing)}")
    if as_json:
        console.print_json(decision.as_dict())
    else:
        _show(decision)
    if require and not all(meets(judgement, require.value) for judgement in decision.judgements.values()):
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
        verdict, interval = fact.get("verdict", "reference"), fact.get("interval")
        if verdict == "different":
            verdict += ", better" if fact["better"] else ", worse"
        if verdict == "reference" and fact["trained"] is False:
            verdict += ", untrained"
        gap = f"{fact['difference']:+.4g}" if interval else ""
        between = f"{interval[0]:+.4g} to {interval[1]:+.4g}" if interval else ""
        p = f"{fact['p']:.2g}" if interval else ""
        numbers = [_number(fact["mean"]), _number(fact["std"]), fact["seeds"]]
        costs = ["–" if value is None else f"{value:,.10g}" for value in fact["costs"].values()]
        rows.append([name, verdict, gap, between, p, *numbers, _number(fact.get("detectable")), *costs])
    heads = ("system", "verdict", "Δ", "95 % interval", "p", "mean", "std", "seeds", "detectable", *decision.costs)
    console.print_table(heads, rows, title=decision.metric, drop=("detectable", "std", "p", "mean"))
    notes = [f"estimand: {decision.estimand}"]
    margin = f", margin {decision.question.margin:g}" if decision.question.margin else ""
    notes.append(
        f"intervals and p are simultaneous over {counted(len(decision.systems), 'system')}"
        f"{' and all looks' if decision.question.looks else ''}{margin}; detectable: with a power of 80 %"
    )
    if facts["trivial"]:
        reference, trivial = facts["reference"], facts["trivial"]
        outcome = "beats" if reference["trained"] else "does not beat"
        notes.append(f"{reference['name']} {outcome} {trivial['name']} ({_number(trivial['mean'])}) significantly")
    for name, fact in facts["systems"].items():
        if fact["reason"]:
            p = fact["p_collapsed"]
            notes.append(f"{name}: {fact['reason']}" + ("" if p is None else f"; Fisher's exact test p = {p:.2g}"))
        if fact["interval_over_items"]:
            low, high = fact["interval_over_items"]
            notes.append(f"{name}: {low:+.4g} to {high:+.4g} over test items, these runs fixed (95 %)")
        if fact["more_seeds"]:
            notes.append(f"{name}: about {fact['more_seeds']} more seeds of each are likely to decide")
    if any(fact["more_seeds"] for fact in facts["systems"].values()) and not decision.question.looks:
        notes.append("a second look at the same seeds must be planned (--looks); else judge the new seeds alone")
    for note in notes:
        console.print_note(note)


def _number(value: float | None) -> str:
    """Return a number with four digits; "" for None."""
    return "" if value is None else f"{value:.4g}"
