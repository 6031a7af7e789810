"""Plans as files: which strategies the steps of a graph keep, from the next run on.

JSON: ``{"format": 1, "steps": [{"name", "operator", "strategies": [STRATEGY], "writing_s": {MODE: seconds}}]}``; a strategy is ``{"mode", "encoding",
"orientation"}``, ``operator`` its name and version as they were measured. ``writing_s`` may be missing.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping as ReadOnly
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lineage_arrays.errors import ArrayLineageError, ModeError
from lineage_arrays.operators.encodings import Encoding, Orientation
from lineage_arrays.operators.operator import Mode, Operator, identity_of
from lineage_arrays.operators.strategies import Strategy
from lineage_store.paths import open_file

PLAN_VARIABLE = "LINEAGE_ARRAYS_PLAN"
FORMAT = 1
FILE_BYTES_MAX = 16 << 20
STEPS_MAX = 10_000
STRATEGIES_MAX = 100


@dataclass(frozen=True)
class PlannedStep:
    """The strategies of a step. ``operator``: the identity of the one that was measured; empty: it is not known.

    ``writing_s``: of each mode that writes lineage and was measured, the seconds that a run takes more; questions know from it how long it takes to run
    the step again.
    """

    name: str
    operator: str
    strategies: tuple[Strategy, ...]
    writing_s: ReadOnly[Mode, float] = field(default_factory=dict)


def write_plan(path: str | os.PathLike[str], steps: Sequence[PlannedStep]) -> None:
    """Write a plan; a program that runs meanwhile reads the one before, or this one.

    Raises:
        OSError: the file can't be written.
    """
    packed = [
        {
            "name": step.name,
            "operator": step.operator,
            "strategies": [packed_strategy(strategy) for strategy in step.strategies],
            "writing_s": {str(mode): seconds for mode, seconds in step.writing_s.items()},
        }
        for step in steps
    ]
    content = json.dumps({"format": FORMAT, "steps": packed}, indent=1) + "\n"
    unfinished = f"{os.fspath(path)}.{os.getpid()}.new"
    try:
        with open(unfinished, "x", encoding="utf-8") as file:
            file.write(content)
        os.replace(unfinished, path)
    except OSError:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


def read_plan(path: str | os.PathLike[str]) -> list[PlannedStep]:
    """Read what :func:`write_plan` wrote.

    Raises:
        OSError: the file can't be read.
        ArrayLineageError: it is no plan, or of a later version.
    """
    document = read_document(path, "plan of strategies")
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}, not {FORMAT}")
        steps = [_planned_step(packed) for packed in document["steps"]]
        if len(steps) > STEPS_MAX or len({step.name for step in steps}) < len(steps):
            raise ValueError(f"{len(steps)} steps, at most {STEPS_MAX}, each with its own name")
        return steps
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArrayLineageError(f"{path} has no plan of strategies: {error!r}") from error


def _planned_step(packed: dict[str, Any]) -> PlannedStep:
    name, operator, strategies = packed["name"], packed["operator"], packed["strategies"]
    if not isinstance(name, str) or not isinstance(operator, str):
        raise TypeError("a step whose name or operator is no text")
    if not 0 < len(strategies) <= STRATEGIES_MAX:
        raise ValueError(f"{len(strategies)} strategies of step {name!r:.80}")
    writing_s = {Mode(mode): _seconds(one) for mode, one in packed.get("writing_s", {}).items()}
    return PlannedStep(name, operator, tuple(strategy_of(one) for one in strategies), writing_s)


def _seconds(number: object) -> float:
    if type(number) not in {int, float} or not 0 <= float(number) < math.inf:  # type: ignore[arg-type] # of the types before
        raise ValueError(f"{number!r:.80} is no number of seconds")
    return float(number)  # type: ignore[arg-type] # of the types above


def read_document(path: str | os.PathLike[str], what: str) -> Any:
    """The JSON value in a file of at most 16 MiB.

    Raises:
        OSError: the file can't be read.
        ArrayLineageError: it is larger, or no JSON.
    """
    with open_file(os.fspath(path)) as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ArrayLineageError(f"{path} has more than {FILE_BYTES_MAX >> 20} MiB")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArrayLineageError(f"{path} has no {what}: {error!r}") from error


def packed_strategy(strategy: Strategy) -> dict[str, Any]:
    """A strategy as JSON."""
    return {
        "mode": str(strategy.mode),
        "encoding": str(strategy.encoding),
        "orientation": str(strategy.orientation),
    }


def strategy_of(packed: dict[str, Any]) -> Strategy:
    """The strategy that was packed.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    return Strategy(
        Mode(packed["mode"]), Encoding(packed["encoding"]), Orientation(packed["orientation"])
    )


def planned_steps(operators: ReadOnly[str, Operator]) -> list[PlannedStep]:
    """What the plan of ``LINEAGE_ARRAYS_PLAN`` has for steps; nothing where it is not set.

    A step whose operator is another one than the plan is about, or can't do what it says, is left out, with a warning: its answers are the
    same by any strategy, and what they cost is not what was planned.

    Args:
        operators: of the steps, by the steps' names.

    Raises:
        ArrayLineageError: the file can't be read, or is no plan.
    """
    path = os.environ.get(PLAN_VARIABLE)
    if not path:
        return []
    try:
        steps = read_plan(path)
    except OSError as error:
        raise ArrayLineageError(
            f"{PLAN_VARIABLE} names {path}, which can't be read ({error}): write it by `lineage arrays plan --save {path}`, or unset it"
        ) from error
    chosen = []
    for step in steps:
        operator = operators.get(step.name)
        if operator is None:
            continue
        problem = _problem(step, operator)
        if problem:
            warnings.warn(
                f"{path}: the plan for step {step.name} is not used: {problem}; plan again",
                stacklevel=3,
            )
        else:
            chosen.append(step)
    return chosen


def _problem(step: PlannedStep, operator: Operator) -> str:
    """Why an operator can't keep its lineage as planned; empty: it can."""
    identity = identity_of(operator)
    if step.operator not in {"", identity}:
        return f"it is about operator {step.operator}, and this is {identity}"
    modes = {strategy.mode for strategy in step.strategies}
    if {Mode.PAY, Mode.COMP} <= modes:
        return "payloads of all cells (pay) and of some (comp) are not written in one run"
    try:
        for strategy in step.strategies:
            strategy.check(operator)
    except ModeError as error:
        return str(error)
    return ""
