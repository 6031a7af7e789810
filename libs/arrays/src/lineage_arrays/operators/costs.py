"""Measured costs of strategies as a file: a program measures them, and a choice is made and explained later, elsewhere.

JSON: ``{"format": 1, "steps": [{"name", "operator", "frequency", "pinned": [STRATEGY], "alternatives": [STRATEGY and costs]}]}``; a strategy is
``{"mode", "encoding", "orientation"}``, its costs are ``disk_bytes``, ``run_s`` and ``query_s``; ``operator`` may be missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping as ReadOnly
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.operators.graph import Step
from lineage_arrays.operators.operator import Mode, identity_of
from lineage_arrays.operators.optimiser import Alternative
from lineage_arrays.operators.plan_files import (
    STEPS_MAX,
    packed_strategy,
    read_document,
    strategy_of,
)
from lineage_arrays.operators.strategies import WRITING, Strategy

FORMAT = 1


@dataclass(frozen=True)
class Costs:
    """What `choose` takes: the costs of each strategy at each step, how often queries meet it, and what is kept whatever it costs.

    ``operators``: of steps that have names alone, the identity of the operator that was measured.
    """

    alternatives: ReadOnly[Step, Sequence[Alternative]]
    workload: ReadOnly[Step, float]
    pinned: ReadOnly[Step, Sequence[Strategy]] = field(default_factory=dict)
    operators: ReadOnly[Step, str] = field(default_factory=dict)

    def operator_of(self, step: Step) -> str:
        """The identity of a step's operator; empty where it is not known."""
        if step.operator is not None:
            return identity_of(step.operator)
        return self.operators.get(step, "")

    @property
    def writing_s(self) -> dict[Step, dict[Mode, float]]:
        """Of each step's modes that write lineage, the seconds that a run takes more; of several strategies of a mode the least."""
        writing_s: dict[Step, dict[Mode, float]] = {}
        for step, alternatives in self.alternatives.items():
            of_step = writing_s.setdefault(step, {})
            for one in alternatives:
                mode = one.strategy.mode
                if mode in WRITING:
                    of_step[mode] = min(one.run_s, of_step.get(mode, one.run_s))
        return writing_s


def write_costs(path: str | os.PathLike[str], costs: Costs) -> None:
    """Write costs for `lineage arrays plan`.

    Raises:
        OSError: the file can't be written.
    """
    content = json.dumps(packed_costs(costs), indent=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content + "\n")


def packed_costs(costs: Costs) -> dict[str, Any]:
    """Costs as JSON."""
    steps = [
        {
            "name": step.name,
            "operator": costs.operator_of(step),
            "frequency": costs.workload.get(step, 0.0),
            "pinned": [packed_strategy(strategy) for strategy in costs.pinned.get(step, ())],
            "alternatives": [
                packed_strategy(one.strategy)
                | {"disk_bytes": one.disk_bytes, "run_s": one.run_s, "query_s": one.query_s}
                for one in alternatives
            ],
        }
        for step, alternatives in costs.alternatives.items()
    ]
    return {"format": FORMAT, "steps": steps}


def read_costs(path: str | os.PathLike[str]) -> Costs:
    """Read what `write_costs` wrote. The steps have names alone.

    Raises:
        OSError: the file can't be read.
        ArrayLineageError: it is no file of costs, or of a later version.
    """
    return costs_of(read_document(path, "costs of strategies"), os.fspath(path))


def costs_of(document: Any, where: str) -> Costs:
    """The costs that were packed. The steps have names alone.

    Args:
        document: what :func:`packed_costs` gave.
        where: it was found: errors name it.

    Raises:
        ArrayLineageError: it is none, or of a later version.
    """
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}, not {FORMAT}")
        return _costs(document["steps"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ArrayLineageError(f"{where} has no costs of strategies: {error!r}") from error


def _costs(packed_steps: list[dict[str, Any]]) -> Costs:
    names = [packed["name"] for packed in packed_steps]
    if not 0 < len(names) <= STEPS_MAX or len(set(names)) < len(names):
        raise ValueError(f"{len(names)} steps, from 1 to {STEPS_MAX}, each with a name of its own")
    steps = [Step(_text(name)) for name in names]
    pairs = list(zip(steps, packed_steps, strict=True))
    return Costs(
        {step: _alternatives(packed["alternatives"]) for step, packed in pairs},
        {step: _number(packed["frequency"]) for step, packed in pairs},
        {step: [strategy_of(one) for one in packed["pinned"]] for step, packed in pairs if packed["pinned"]},
        {step: _text(packed["operator"]) for step, packed in pairs if packed.get("operator")},
    )  # fmt: skip


def _alternatives(packed: list[dict[str, Any]]) -> list[Alternative]:
    alternatives = [
        Alternative(
            strategy_of(one), _count(one["disk_bytes"]), _number(one["run_s"]), _number(one["query_s"])
        )
        for one in packed
    ]  # fmt: skip
    if len({one.strategy for one in alternatives}) < len(alternatives):
        raise ValueError("a strategy stands twice at a step")
    return alternatives


def _number(number: object) -> float:
    if type(number) not in {int, float}:
        raise TypeError(f"{number!r} is no number")
    return float(number)  # type: ignore[arg-type] # of the types above


def _count(number: object) -> int:
    if type(number) is not int or not 0 <= number < 1 << 63:
        raise ValueError(f"{number!r} is no number of bytes")
    return number


def _text(text: object) -> str:
    if not isinstance(text, str) or not text:
        raise TypeError(f"{text!r} is no name")
    return text
