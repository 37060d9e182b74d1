"""Sequential design of ``phmrun sweep FILE --until-decided``.

Imported when the verb runs.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from phmrun.cli import console, sweep_output, sweep_work
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger.card import duration
from phmrun.progress import note
from phmrun.results.costs import COSTS, VERDICT_COSTS, cost_of, cost_texts
from phmrun.results.verdicts import facts, verdict_words
from phmrun.sweeps.budget import STEPS
from phmrun.sweeps.cell_status import CellState, CellStatus, Estimate, survey
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.planning import budgeted, chosen, planned
from phmrun.sweeps.sequential import (
    Known,
    Terms,
    families,
    family_sizes,
    fix_terms,
    known,
    main_score,
    planned_seeds,
    scores_of,
    wanted,
)


def decide(
    file: str,
    runs_dir: Path,
    *,
    only: Sequence[str] | None,
    terms: Terms,
    hours: float | None,
    jobs: int | None,
    threads: int,
    retry_failed: bool,
    plan: bool,
    as_json: bool,
    horizons: Sequence[float] = (),
) -> ExitCode:
    """Run seeds, look by look, until each row is decided.

    A row also ends at its maximum number of seeds. All end at the time limit, or after a round that leaves a run
    unfinished. The level is shared by all rows of the file, also by those that ``only`` leaves out. With ``plan``,
    looks and verdicts so far are printed and nothing is run. The log has the verdict of each row after each round. The
    design is recorded before the first run.

    Returns:
        ``ExitCode.SWEEP`` if a run failed in this call, otherwise ``ExitCode.OK``, also at the time limit.

    Raises:
        PhmrunError: (exit 2) There is no dense baseline or nothing to compare, or another design was fixed before.
            (exit 5) A calibration or tuning trial was interrupted.
    """
    deadline = time.monotonic() + 3600 * hours if hours is not None else None
    asked = planned(file, only, planned_seeds(terms, load_sweep(file)), horizons=horizons)
    train = partial(sweep_work.tuned, runs_dir=runs_dir, jobs=jobs, threads=threads, deadline=deadline)
    replicates = asked.sweep.file.replicates
    if plan:
        sweep_plan = chosen(asked, runs_dir)
    elif replicates:
        if train(_cells_of(asked, [])) is None:
            return ExitCode.OK
        sweep_plan = chosen(asked, runs_dir)
    elif (tuned := train(asked)) is not None:
        sweep_plan = tuned
    else:
        return ExitCode.OK
    statuses = survey(sweep_plan, runs_dir)
    sweep_work.require_cells(statuses)
    whole = planned(file, None, planned_seeds(terms, load_sweep(file)), horizons=horizons) if only else asked
    sizes = family_sizes(survey(budgeted(whole, runs_dir), runs_dir))
    for family in families(statuses):
        if family.baseline is None or not family.rows:
            raise PhmrunError(
                f"there is nothing to decide on {family.label}: it takes a row that is dense and one that is not",
                where=sweep_plan.sweep.where,
            )
    workers = sweep_work.local_workers(sweep_plan, runs_dir, jobs, threads)
    _tell_plan(statuses, terms, hours, workers.slots)
    if plan:
        _show(known(statuses, terms, sizes), terms, as_json)
        return ExitCode.OK
    fix_terms(workers.place.path, terms, file)
    bad: dict[str, list[str]] = {}
    while left := wanted(statuses, terms, sizes):  # a row whose run has failed stays where it is
        if replicates:
            train(_cells_of(asked, left))
            sweep_plan = chosen(asked, runs_dir)
        else:
            bad |= workers.carry_out(left, retry_failed=retry_failed, deadline=deadline)
        statuses = survey(sweep_plan, runs_dir)
        over = sweep_work.is_over(deadline)
        done = {status.cell.run_id for status in statuses if status.state is CellState.DONE}
        for standing in known(statuses, terms, sizes):
            note(
                f"{standing.family}: {standing.row.label}: {verdict_words(standing.comparison)} "
                f"after {standing.looked_at} seeds"
            )
        stuck = [status.cell.label for status in wanted(statuses, terms, sizes)] == [s.cell.label for s in left]
        if over or stuck or (not replicates and any(status.cell.run_id not in done for status in left)):
            break
    sweep_output.tell_failures([s for s in statuses if s.cell.run_id in bad and s.state is not CellState.DONE], bad)
    _show(known(statuses, terms, sizes), terms, as_json)
    return ExitCode.SWEEP if bad else ExitCode.OK


def _cells_of(plan: Plan, wanted: Sequence[CellStatus]) -> Plan:
    """Return a plan with replicates that has the pilots and the wanted seeds only.

    The pilot is the first cell of a row. Wanted are cells with the labels of ``wanted``; steps that fit into a budget
    are no label yet.
    """
    rows = [cell.row for cell in plan.cells]
    pilots = {rows.index(row) for row in rows}
    labels = [
        {k: v for k, v in status.cell.labels.items() if k != STEPS or not status.cell.budget} for status in wanted
    ]
    kept = [cell for place, cell in enumerate(plan.cells) if place in pilots or cell.labels in labels]
    return replace(plan, cells=kept)


def _tell_plan(statuses: Sequence[CellStatus], terms: Terms, hours: float | None, slots: int) -> None:
    """Log the looks, and each row's further seeds and training time.

    Then the total, if a time is known. ``hours`` is the time limit, None for none; ``slots`` runs train at a time.
    """
    dropped = int(any(status.cell.chose_settings for status in statuses))
    question, estimate = terms.question(main_score(statuses), dropped), Estimate(statuses)
    note(f"looks at {', '.join(map(str, question.looks))} seeds; level {question.level:g} over all rows and looks")
    total = 0.0
    for family in families(statuses):
        for row in (family.baseline, *family.rows):
            if row is None:
                continue
            seconds = estimate.whole(row.statuses[0].cell)
            have = len(scores_of(row))
            least, most = max(0, question.looks[0] - have), question.looks[-1] - have
            cost = "not known before a run of this task is done" if seconds is None else duration(seconds)
            total += (seconds or 0.0) * most
            note(f"{row.label}{' (baseline)' if row.dense else ''}: {least} to {most} further seeds, each {cost}")
    if total:
        limit = f"; stopped after {hours:g} h" if hours is not None else ""
        note(f"at most {duration(total / slots)} of training, {slots} at a time{limit}")


def _show(standings: Sequence[Known], terms: Terms, as_json: bool) -> None:
    """Print the verdict of each row with its costs, as a table or JSON.

    JSON is a list of rows. Keys: family, row, those of :func:`~phmrun.results.verdicts.facts`, open, looked_at, seeds,
    max_seeds, mean, scores, costs. Mean and scores are those of counted seeds. Costs are means over the row's finished
    runs; None in JSON if not on record.
    """
    finished = [[cell for cell in standing.row.statuses if cell.state is CellState.DONE] for standing in standings]
    means = [fmean(standing.scores) if standing.scores else None for standing in standings]
    if as_json:
        printed = [
            {
                "family": standing.family,
                "row": standing.row.label,
                **facts(standing.comparison),
                "open": standing.open,
                "looked_at": standing.looked_at,
                "seeds": len(standing.scores),
                "max_seeds": terms.max_seeds,
                "mean": mean,
                "scores": list(standing.scores),
                "costs": {name: cost_of(cells, name) for name in VERDICT_COSTS},
            }
            for standing, mean, cells in zip(standings, means, finished, strict=True)
        ]
        console.print_json(printed)
        return
    rows = [
        [
            standing.family,
            standing.row.label,
            mean,
            standing.looked_at,
            len(standing.scores),
            verdict_words(standing.comparison),
            *cost_texts(cells, VERDICT_COSTS),
        ]
        for standing, mean, cells in zip(standings, means, finished, strict=True)
    ]
    scores = list(dict.fromkeys(standing.score for standing in standings if standing.score))
    heads = ("data", "row", scores[0] if len(scores) == 1 else "score", "looked at", "seeds", "verdict")
    console.print_table((*heads, *(COSTS[name].heading for name in VERDICT_COSTS)), rows, labels=("data", "row"))
