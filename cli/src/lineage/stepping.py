"""``lineage step --program``: what each operator of a program gave on the way to a row of its output, from a rerun on what the row is made from."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lineage.breakpoints import Breakpoint, StepRecords, Stopped, stop, value_of
from lineage.options import print_json
from lineage.rerunning import program_words, run_by_plan
from lineage.steps import chosen_steps, show_step, show_steps
from lineage.terminal import echo
from lineage_core.contract.marked_texts import (
    CONDITION_VARIABLE,
    ENCODER,
    MARK_VARIABLE,
    VALUE_CHARACTERS,
    read_marked,
)
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Item
from lineage_query.operator_steps import OperatorStep, OperatorSteps, steps_to
from lineage_query.record_tracing import RecordTracer
from lineage_query.reruns import RerunResult, plan_rerun
from lineage_query.rows.reader import RowReader
from lineage_store.rerun_plan import RerunPlan
from lineage_store.url import index_folder, open_store

LINES = frozenset({"textFile", "saveAsTextFile"})
"""Operators whose records are the lines of a file."""


def step_through(
    url: str,
    place: str,
    program: str,
    at: str,
    breakpoint: Breakpoint,
    app: str,
    limit: int,
    *,
    as_json: bool,
) -> StepRecords[OperatorStep] | None:
    """Run a program again on what a row is made from, and print the values that each operator gave.

    ``at``: the number of a step, or an operator: the others are left out. ``limit``: of the values of a step. Gives the step that it stopped at.

    Raises:
        LineageError: there is no such row or step, or the program can't be run again, or gives another row.
    """
    words = program_words(url, program, "lineage step")
    with (
        open_store(url) as store,
        tempfile.TemporaryDirectory(prefix="lineage-step-") as name,
    ):
        scratch, tracer = Path(name), RecordTracer(store, RowReader(index_folder(url)))
        rerun = plan_rerun(tracer, [place], [], app or None)
        if rerun.requested[0].before is None:
            raise TraceError(
                f"{place} has no text, by which it is known again: steps are those of saved texts"
            )
        plan = RerunPlan(
            *(rerun.sources(), scratch / "outputs", rerun.program.paths()), scratch / "report.jsonl"
        )
        detail = {
            "LINEAGE_DETAILED": "true",
            "LINEAGE_VALUE_LENGTH": str(VALUE_CHARACTERS),
        }
        mark = secrets.token_hex(8) if breakpoint.when else ""
        if mark:
            detail |= {
                "LINEAGE_VALUE_ENCODER": ENCODER,
                CONDITION_VARIABLE: breakpoint.when,
                MARK_VARIABLE: mark,
            }
        verdict = tracer.opened(rerun.app).verdict
        again, report = run_by_plan(scratch, plan, words, detail, verdict=verdict)
        with open_store(again.url) as store_again:
            after = RecordTracer(store_again, RowReader(scratch / "indexes"))
            result = RerunResult(rerun, report, again.app, tracer, after)
            (item,) = result.items_again()
            if item is None:
                reasons = "; ".join(rerun.reasons) or "nothing says why"
                raise TraceError(
                    f"{place} does not come out as it was on the rows that it is made from: {reasons}"
                )
            found = steps_to(after, again.app, *item, max(limit, breakpoint.listed_min))
    last = found.steps[-1]
    # What the rerun wrote is gone: the row stands in the job's output.
    own = (replace(last.items[0], location=place),)
    steps = [*found.steps[:-1], replace(last, items=own)]
    chosen = [_in_hand(step, breakpoint, mark) for step in chosen_steps(steps, at)]
    stopped = stop(chosen, breakpoint)
    if as_json:
        print_json(_to_json(rerun.app, place, stopped, limit, found))
    else:
        _show(stopped, limit, found)
    return stopped.at


def _in_hand(step: OperatorStep, breakpoint: Breakpoint, mark: str) -> StepRecords[OperatorStep]:
    """A step with its values, and their texts without the mark."""
    if step.op in LINES:
        # Their texts are the lines themselves.
        records = tuple(item.text for item in step.items)
        tests = tuple(
            None if text is None else test
            for text, test in zip(records, breakpoint.tests(records), strict=True)
        )
        return StepRecords(step, records, tests)
    read = [
        (None, item.text) if item.text is None or not mark else read_marked(mark, item.text)
        for item in step.items
    ]
    items = tuple(
        replace(item, text=text) for item, (_, text) in zip(step.items, read, strict=True)
    )
    records = tuple(
        None if item.text is None else value_of(item.text, VALUE_CHARACTERS) for item in items
    )
    return StepRecords(replace(step, items=items), records, tuple(test for test, _ in read))


def _to_json(
    app: str, place: str, stopped: Stopped[OperatorStep], limit: int, found: OperatorSteps
) -> dict[str, Any]:
    steps = [
        replace(each.step, items=tuple(each.step.items[n] for n in each.shown(limit)))
        for each in stopped.steps
    ]
    return {
        "app": app,
        "place": place,
        "steps": [step.to_json() for step in steps],
        "exact": not found.superset,
        "reasons": list(found.superset),
        **stopped.to_json(),
    }


def _show(stopped: Stopped[OperatorStep], limit: int, found: OperatorSteps) -> None:
    def show(each: StepRecords[OperatorStep]) -> None:
        step = each.step
        about = f" at {step.call_site}" if step.call_site else ""
        items = [step.items[n] for n in each.shown(limit)]
        show_step(step, about, _lines(items), each.count)

    numbers = [each.step.number for each in stopped.steps]
    show_steps(
        numbers, lambda place: show(stopped.steps[place]), one_by_one=stopped.breakpoint.one_by_one
    )
    stopped.show()
    for reason in found.superset:
        echo(f"lineage: operators may have got fewer values: {reason}", err=True)


def _lines(items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        # Addresses are the rerun's, and gone with it.
        text = "(no value was kept)" if item.text is None else item.text
        yield f"{item.location}: {text}" if item.location else text
