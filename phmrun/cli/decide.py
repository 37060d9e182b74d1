"""``phmrun decide``: verdicts on scores that were measured anywhere."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import console
from phmrun.cli.options import Json
from phmrun.errors import PhmrunError, counted

if TYPE_CHECKING:
    from phmrun.statistics.referee import Decision

EPILOG = """Examples:

phmrun decide scores.csv --reference dense --metric bleu --margin 0.5

phmrun decide scores.jsonl --reference dense --trivial majority --metric accuracy --json

phmrun decide out/base out/tuned --reference base --metric arc_easy/acc"""


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
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="CSV or JSON lines with the columns system, seed, metric, value and optionally item, trial; or files "
            "or folders of lm-evaluation-harness (--log_samples); NAME=PATH sets the system's name.",
        ),
    ],
    reference: Annotated[
        str, typer.Option(metavar="SYSTEM", help="Reference system, which all others are compared with.")
    ],
    metric: Annotated[str, typer.Option(metavar="NAME", help="Metric of the verdicts.")],
    trivial: Annotated[
        str | None, typer.Option(metavar="SYSTEM", help="Trivial baseline that a trained system must beat.")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(min=0, help="Equivalence margin δ, in units of the metric (default: test for differences only)."),
    ] = None,
    lower_is_better: Annotated[
        bool, typer.Option("--lower-is-better", help="Lower values are better, as for a loss.")
    ] = False,
    looks: Annotated[
        str | None,
        typer.Option(
            metavar="N,…", help="Numbers of seeds at the planned looks, fixed in advance (default: one look)."
        ),
    ] = None,
    over: Annotated[
        Over | None,
        typer.Option(help="Population: training seeds (default), test items (default without seeds), or both."),
    ] = None,
    choose_by: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Validation metric that selects one trial for each seed."),
    ] = None,
    require: Annotated[
        Requirement | None, typer.Option(help="Exit with code 1 unless this is shown for every system.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Judge systems by the scores of their seeds: different, equivalent, not worse, undecided or untrained.

    One simultaneous 95 % interval for each system decides. Exit code: 0 if it could judge, 1 if --require is not shown.
    """
    from phmrun.statistics.long_form import read_rows
    from phmrun.statistics.referee import decide as judge
    from phmrun.statistics.referee import meets

    decision = judge(
        read_rows(files),
        reference=reference,
        metric=metric,
        trivial=trivial,
        margin=margin,
        lower_is_better=lower_is_better,
        looks=_numbers(looks),
        over=over.value if over else None,
        choose_by=choose_by,
    )
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
    """Print a table of verdicts, then estimand and reasons by line."""
    facts, print_line = decision.as_dict(), console.stdout().print
    reference, rows = facts["reference"], []
    rows.append([reference["name"], _number(reference["mean"]), _number(reference["std"]), reference["seeds"]])
    rows[0] += ["", "", "", "", "reference" if reference["trained"] is not False else "reference, untrained"]
    for name, fact in facts["systems"].items():
        verdict = fact["verdict"]
        if verdict == "different":
            verdict += ", better" if fact["better"] else ", worse"
        interval = "" if fact["interval"] is None else f"{fact['interval'][0]:+.4g} to {fact['interval'][1]:+.4g}"
        gap = "" if fact["difference"] is None else f"{fact['difference']:+.4g}"
        p = "" if fact["p"] is None else f"{fact['p']:.2g}"
        numbers = [_number(fact["mean"]), _number(fact["std"]), fact["seeds"]]
        rows.append([name, *numbers, gap, interval, p, _number(fact["detectable"]), verdict])
    heads = ("system", "mean", "std", "seeds", "Δ", "95 % interval", "p", "detectable", "verdict")
    console.print_table(heads, rows, title=decision.metric)
    notes = [f"estimand: {decision.estimand}"]
    margin = f", margin {decision.question.margin:g}" if decision.question.margin else ""
    notes.append(
        f"intervals and p are simultaneous over {counted(len(decision.systems), 'system')}"
        f"{' and all looks' if decision.question.looks else ''}{margin}; detectable: with a power of 80 %"
    )
    if facts["trivial"]:
        trivial = facts["trivial"]
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
        print_line(note, markup=False, highlight=False, soft_wrap=True)


def _number(value: float | None) -> str:
    """Return a number with four digits; "" for None."""
    return "" if value is None else f"{value:.4g}"
