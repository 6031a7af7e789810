"""Plans of how lineage of operators is kept, as text and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lineage.options import print_json
from lineage.tables import console, table_of
from lineage.terminal import echo
from lineage_arrays.operators.optimiser import Choice, Limits
from lineage_arrays.operators.plan_files import PLAN_VARIABLE, write_plan
from lineage_arrays.operators.planning import Explained, ExplainedStep, Plan, name_of
from lineage_core.errors import LineageError


def show_plan(plan: Plan, *, app: str | None, as_json: bool) -> None:
    """A row for each alternative of each step, and a line for each larger limit. ``app``: whose costs these are; None: of a file."""
    if as_json:
        print_json({"app": app, **_plan_json(plan)})
        return
    if app is not None:
        echo(f"by the costs that were stored with {app}")
    table = table_of("step", "frequency", "strategy", "disk bytes", "run s", "query s", "")
    for step in plan.steps:
        for at, one in enumerate(step.alternatives):
            first = (step.name, f"{step.frequency:g}") if at == 0 else ("", "")
            costs = one.alternative
            table.add_row(
                *first,
                name_of(costs.strategy),
                f"{costs.disk_bytes:,}",
                f"{costs.run_s:.3g}",
                f"{costs.query_s:.3g}",
                _why_text(one, step),
            )
    console().print(table)
    echo(f"within {_limits_text(plan.limits)}: {_choice_text(plan.choice)}")
    for larger in plan.larger:
        echo(f"with {_limits_text(larger.limits)}: {_choice_text(larger.choice)}")


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan to a file, and say how it is used.

    Raises:
        LineageError: the file can't be written.
    """
    try:
        write_plan(path, plan.planned())
    except OSError as error:
        raise LineageError(f"{path} can't be written: {error}") from error
    echo(f"{path} has the plan: run the program with {PLAN_VARIABLE}={path}", err=True)


def _why_text(one: Explained, step: ExplainedStep) -> str:
    if one.why == "beaten":
        return f"beaten by {one.detail}"
    if one.is_kept and step.reruns(one):
        return f"{one.why}; a question with by='auto' runs the operator again"
    return f"{one.why}: {one.detail}" if one.detail else one.why


def _limits_text(limits: Limits) -> str:
    disk = "any disk" if limits.disk_bytes is None else f"{limits.disk_bytes:,} bytes of disk"
    run = "any run time" if limits.run_s is None else f"{limits.run_s:.6g} s of run time"
    return f"{disk} and {run}"


def _choice_text(choice: Choice) -> str:
    return f"{choice.disk_bytes:,} bytes of disk, {choice.run_s:.3g} s of run time, {choice.query_s:.3g} s of queries"


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "limits": _limits_json(plan.limits),
        **_choice_json(plan.choice),
        "steps": [
            {
                "name": step.name,
                "frequency": step.frequency,
                "rerun_s": step.rerun_s,
                "alternatives": [
                    _explained_json(one) | {"reruns": step.reruns(one)} for one in step.alternatives
                ],
            }
            for step in plan.steps
        ],
        "larger": [
            {"limits": _limits_json(one.limits), **_choice_json(one.choice)} for one in plan.larger
        ],
    }


def _limits_json(limits: Limits) -> dict[str, Any]:
    return {"disk_bytes": limits.disk_bytes, "run_s": limits.run_s}


def _choice_json(choice: Choice) -> dict[str, Any]:
    return {"disk_bytes": choice.disk_bytes, "run_s": choice.run_s, "query_s": choice.query_s}


def _explained_json(one: Explained) -> dict[str, Any]:
    costs, strategy = one.alternative, one.alternative.strategy
    return {
        "strategy": name_of(strategy),
        "mode": str(strategy.mode),
        "encoding": str(strategy.encoding),
        "orientation": str(strategy.orientation),
        "disk_bytes": costs.disk_bytes,
        "run_s": costs.run_s,
        "query_s": costs.query_s,
        "kept": one.is_kept,
        "why": one.why,
        "detail": one.detail,
    }
