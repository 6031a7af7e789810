"""``lineage step`` of a DataFrame's row: what each operator of its plan gives on the rows that the row was made from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lineage.breakpoints import Breakpoint, RowInHand, StepRecords, Stopped, stop
from lineage.comparing import print_warnings
from lineage.frame_traces import spark_session
from lineage.options import print_json
from lineage.refusing_servers import refuse_server
from lineage.steps import chosen_steps, show_step, show_steps
from lineage.terminal import echo
from lineage_dataframes.sources.row_texts import json_of_row, text_of_row
from lineage_dataframes.trace.plan_steps import Placed, PlanStep, steps_of
from lineage_dataframes.trace.replay import Replayer
from lineage_dataframes.trace.requested_recipes import RequestedRecipe, requested_recipe
from lineage_dataframes.trace.source_rows import places_and_texts
from lineage_query.rows.reader import RowReader, reading_by
from lineage_store.url import index_folder, open_store


def step_through_plan(
    url: str,
    place: str,
    at: str,
    breakpoint: Breakpoint,
    app: str,
    limit: int,
    *,
    as_json: bool,
) -> StepRecords[PlanStep] | None:
    """Print the rows that each operator gave.

    ``at``: the number of a step, or an operator: the others are left out. ``limit``: of the rows of a step. Gives the step that it stopped at.

    Raises:
        LineageError: there is no such row of a DataFrame or no such step, or the row can't be computed anew.
    """
    refuse_server(url, "steps are computed")
    with open_store(url) as store:
        reader = RowReader(index_folder(url))
        requested = requested_recipe(store, reader, [place], app or None)
        with spark_session() as spark, reading_by(reader):
            replayer = Replayer(spark, requested.recipe, requested.output(spark))
            in_hand: dict[int, StepRecords[PlanStep]] = {}

            def is_last(step: PlanStep) -> bool:
                if at and not step.fits(at):
                    return False
                in_hand[step.number] = _in_hand(step, breakpoint)
                return not at and breakpoint.stops_at(in_hand[step.number])

            steps = steps_of(replayer, max(limit, breakpoint.listed_min), is_last)
            chosen = [in_hand[step.number] for step in chosen_steps(steps, at)]
            stopped = stop(chosen, breakpoint)
            listed = [_only(each, limit) for each in stopped.steps]
            shown = places_and_texts(spark, requested.recipe, _listed(replayer, listed))
    print_warnings(requested.warnings)
    if as_json:
        print_json(_to_json(requested, place, listed, shown, replayer.reasons) | stopped.to_json())
    else:
        _show(stopped, listed, place, shown, replayer.reasons)
    return stopped.at


def _in_hand(step: PlanStep, breakpoint: Breakpoint) -> StepRecords[PlanStep]:
    rows = tuple(RowInHand.of(step.columns, row) for row in step.rows)
    return StepRecords(step, rows, breakpoint.tests(rows))


def _only(each: StepRecords[PlanStep], limit: int) -> PlanStep:
    """A step with the rows that are shown."""
    step, chosen = each.step, each.shown(limit)
    return replace(
        step,
        rows=tuple(step.rows[n] for n in chosen),
        places=tuple(step.places[n] for n in chosen) if step.places else (),
    )


def _listed(replayer: Replayer, steps: Sequence[PlanStep]) -> dict[tuple[int, str], Any]:
    """The rows of sources that steps list, by source and file; of a file that several sources read, by one of these."""
    listed: dict[str, set[int]] = defaultdict(set)
    for step in steps:
        for path, ordinal in step.places:
            listed[path].add(ordinal)
    sources = {path: source for source, path in sorted(replayer.witnesses, reverse=True)}
    return {
        (sources[path], path): np.array(sorted(ordinals), np.uint64)
        for path, ordinals in listed.items()
    }


def _to_json(
    requested: RequestedRecipe,
    place: str,
    steps: Sequence[PlanStep],
    shown: dict[Placed, tuple[str, str]],
    reasons: Sequence[str],
) -> dict[str, Any]:
    return {
        "app": requested.app,
        "place": place,
        "steps": [
            {
                "step": step.number,
                "name": step.name,
                "about": step.about,
                "inputs": list(step.inputs),
                "count": step.count,
                "items": [
                    {
                        "location": shown[step.places[n]][0] if step.places else None,
                        "row": json_of_row(step.columns, row),
                    }
                    for n, row in enumerate(step.rows)
                ],
                "refused": step.refused or None,
            }
            for step in steps
        ],
        "reasons": list(reasons),
    }


def _lines(step: PlanStep, shown: dict[Placed, tuple[str, str]]) -> Iterator[str]:
    for n, row in enumerate(step.rows):
        where = f"{shown[step.places[n]][0]}: " if step.places else ""
        yield f"{where}{text_of_row(step.columns, row)}"
    if step.refused:
        yield f"(not known: {step.refused})"


def _show(
    stopped: Stopped[PlanStep],
    listed: Sequence[PlanStep],
    place: str,
    shown: dict[Placed, tuple[str, str]],
    reasons: Sequence[str],
) -> None:
    def show(number: int) -> None:
        step, count = listed[number], stopped.steps[number].count
        show_step(step, f" {step.about}" if step.about else "", _lines(step, shown), count)
        if stopped.at is None and number == len(listed) - 1:
            echo(f"   {place}", bold=True)

    show_steps([step.number for step in listed], show, one_by_one=stopped.breakpoint.one_by_one)
    stopped.show()
    for reason in reasons:
        echo(f"lineage: operators of the job may have given other rows: {reason}", err=True)
