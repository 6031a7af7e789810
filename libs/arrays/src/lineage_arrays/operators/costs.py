"""Measured costs of strategies as a file: a program measures them, and a choice is made and explained later, elsewhere.

JSON: ``{"format": 1, "steps": [{"name", "frequency", "pinned": [STRATEGY], "alternatives": [STRATEGY and costs]}]}``; a strategy is
``{"mode", "encoding", "orientation"}``, its costs are ``disk_bytes``, ``run_s`` and ``query_s``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping as ReadOnly
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.operators.encodings import Encoding, Orientation
from lineage_arrays.operators.graph import Step
from lineage_arrays.operators.operator import Mode
from lineage_arrays.operators.optimiser import Alternative
from lineage_arrays.operators.strategies import Strategy
from lineage_store.paths import open_file

FORMAT = 1
FILE_BYTES_MAX = 16 << 20
STEPS_MAX = 10_000


@dataclass(frozen=True)
class Costs:
    """What `choose` takes: the costs of each strategy at each step, how often queries meet it, and what is kept whatever it costs."""

    alternatives: ReadOnly[Step, Sequence[Alternative]]
    workload: ReadOnly[Step, float]
    pinned: ReadOnly[Step, Sequence[Strategy]] = field(default_factory=dict)


def write_costs(path: str | os.PathLike[str], costs: Costs) -> None:
    """Write costs for `lineage arrays plan`.

    Raises:
        OSError: the file can't be written.
    """
    steps = [
        {
            "name": step.name,
            "frequency": costs.workload.get(step, 0.0),
            "pinned": [_packed(strategy) for strategy in costs.pinned.get(step, ())],
            "alternatives": [
                _packed(one.strategy)
                | {"disk_bytes": one.disk_bytes, "run_s": one.run_s, "query_s": one.query_s}
                for one in alternatives
            ],
        }
        for step, alternatives in costs.alternatives.items()
    ]
    content = json.dumps({"format": FORMAT, "steps": steps}, indent=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content + "\n")


def _packed(strategy: Strategy) -> dict[str, Any]:
    return {
        "mode": str(strategy.mode),
        "encoding": str(strategy.encoding),
        "orientation": str(strategy.orientation),
    }


def read_costs(path: str | os.PathLike[str]) -> Costs:
    """Read what `write_costs` wrote. The steps have names alone.

    Raises:
        OSError: the file can't be read.
        ArrayLineageError: it is no file of costs, or of a later version.
    """
    with open_file(os.fspath(path)) as file:
        content = file.read(FILE_BYTES_MAX + 1)
    if len(content) > FILE_BYTES_MAX:
        raise ArrayLineageError(f"{path} has more than {FILE_BYTES_MAX >> 20} MiB")
    try:
        document = json.loads(content)
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r}, not {FORMAT}")
        return _costs(document["steps"])
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise ArrayLineageError(f"{path} has no costs of strategies: {error!r}") from error


def _costs(packed_steps: list[dict[str, Any]]) -> Costs:
    names = [packed["name"] for packed in packed_steps]
    if not 0 < len(names) <= STEPS_MAX or len(set(names)) < len(names):
        raise ValueError(f"{len(names)} steps, from 1 to {STEPS_MAX}, each with a name of its own")
    steps = [Step(_text(name)) for name in names]
    pairs = list(zip(steps, packed_steps, strict=True))
    return Costs(
        {step: _alternatives(packed["alternatives"]) for step, packed in pairs},
        {step: _number(packed["frequency"]) for step, packed in pairs},
        {step: [_strategy(one) for one in packed["pinned"]] for step, packed in pairs if packed["pinned"]},
    )  # fmt: skip


def _alternatives(packed: list[dict[str, Any]]) -> list[Alternative]:
    alternatives = [
        Alternative(
            _strategy(one), _count(one["disk_bytes"]), _number(one["run_s"]), _number(one["query_s"])
        )
        for one in packed
    ]  # fmt: skip
    if len({one.strategy for one in alternatives}) < len(alternatives):
        raise ValueError("a strategy stands twice at a step")
    return alternatives


def _strategy(packed: dict[str, Any]) -> Strategy:
    return Strategy(
        Mode(packed["mode"]), Encoding(packed["encoding"]), Orientation(packed["orientation"])
    )


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
