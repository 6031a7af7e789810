"""How a program is run again: which rows its sources give, and where its outputs go.

``lineage replay`` and ``lineage sift`` write the plan for the process that runs the program, which reports what it met, one line of JSON each.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lineage_core.contract.region import Region

PLAN_FILE, OUTPUT_LOG = "plan.json", "output.log"
"""Of programs that run again and again: the plan in the folder of a run, and what they print, in the folder of all."""


@dataclass(frozen=True, slots=True)
class RerunSource:
    """The rows of a source in the rerun, by split and ordinal.

    ``kept``: just these; None: all but those ``left_out``. ``repaired``: of all, those that the plan's function gives anew.
    """

    kept: Mapping[int, Region] | None = None
    left_out: Mapping[int, Region] = field(default_factory=dict)
    repaired: Mapping[int, Region] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all rows are read."""
        return self.kept is None and not self.left_out and not self.repaired


@dataclass(frozen=True, slots=True)
class RerunPlan:
    """``sources``: in the order in which the program makes them.

    ``folder``: takes all that is written. ``kept_paths``: local paths of what the job read or wrote, which is not changed. ``report``: the file
    for what the rerun meets. ``repair``: the function (``FILE.py:function``) that repairs rows; empty: none are. ``counts``: the rows of sources
    are counted. ``expected``: what the sources are, as an earlier rerun reported them; empty: not known.
    """

    sources: Sequence[RerunSource]
    folder: Path
    kept_paths: Sequence[str]
    report: Path
    repair: str = ""
    counts: bool = False
    expected: Sequence[str] = ()

    def write(self, path: Path) -> None:
        """Write the plan to a file.

        Raises:
            OSError: it can't be written.
        """
        document = {
            "sources": [_source_to_json(source) for source in self.sources],
            "folder": str(self.folder),
            "kept_paths": list(self.kept_paths),
            "report": str(self.report),
            "repair": self.repair,
            "counts": self.counts,
            "expected": list(self.expected),
        }
        path.write_text(json.dumps(document), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> RerunPlan:
        """Read a plan that :meth:`write` wrote."""
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            sources=[_source_from_json(source) for source in document["sources"]],
            folder=Path(document["folder"]),
            kept_paths=document["kept_paths"],
            report=Path(document["report"]),
            repair=document["repair"],
            counts=document["counts"],
            expected=document["expected"],
        )


@dataclass(frozen=True, slots=True)
class RaisedError:
    """An error: its type, with the module unless it is Python's own, and what it says."""

    type: str
    message: str

    @property
    def line(self) -> str:
        """The error as Python prints it."""
        return f"{self.type}: {self.message}" if self.message else self.type

    def is_named(self, text: str) -> bool:
        """Whether a text is its type, with the module or without, or a part of what it says; ``Type: text`` is how its line begins."""
        short = self.type.rpartition(".")[2].rpartition("$")[2]
        if text in (self.type, short):
            return True
        lines = (self.line, f"{short}: {self.message}")
        return text in self.message or (
            ":" in text and any(line.startswith(text) for line in lines)
        )


@dataclass(frozen=True, slots=True)
class RerunReport:
    """What a rerun met.

    ``sources``: their nodes, in the order of the plan, and ``described``: what these are. ``counts``: of their rows, by split, where they were counted;
    None for one that can't be cut down. ``outputs``: the folders of its outputs, in the order in which they were written. ``problems``: what it did
    otherwise than the job. ``errors``: the error that ended it, and those that it came from.
    """

    sources: Sequence[str]
    described: Sequence[str]
    counts: Sequence[Mapping[int, int] | None]
    outputs: Sequence[str]
    problems: Sequence[str]
    errors: Sequence[RaisedError]


def report_fact(path: Path, kind: str, fact: Any) -> None:
    """Report a ``source``, what it is (``described``), its ``counts``, an ``output``, a ``problem`` or an ``error``."""
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps({kind: fact}) + "\n")


def report_errors(path: Path, errors: Sequence[RaisedError]) -> None:
    """Report the error that ended a program, and those that it came from."""
    for error in errors:
        report_fact(path, "error", [error.type, error.message])


def read_report(path: Path) -> RerunReport:
    """All that was reported; nothing where there is no report."""
    facts: dict[str, list[Any]] = defaultdict(list)
    if os.path.exists(path):
        for line in path.read_text(encoding="utf-8").splitlines():
            for kind, fact in json.loads(line).items():
                facts[kind].append(fact)
    counts = [
        None if of is None else {int(split): count for split, count in of.items()}
        for of in facts["counts"]
    ]
    return RerunReport(
        sources=facts["source"],
        described=facts["described"],
        counts=counts,
        outputs=facts["output"],
        problems=list(dict.fromkeys(facts["problem"])),
        errors=[RaisedError(*error) for error in facts["error"]],
    )


def _source_to_json(source: RerunSource) -> dict[str, Any]:
    return {
        "kept": None if source.kept is None else _to_texts(source.kept),
        "left_out": _to_texts(source.left_out),
        "repaired": _to_texts(source.repaired),
    }


def _source_from_json(document: Mapping[str, Any]) -> RerunSource:
    kept = document["kept"]
    return RerunSource(
        kept=None if kept is None else _from_texts(kept),
        left_out=_from_texts(document["left_out"]),
        repaired=_from_texts(document["repaired"]),
    )


def _to_texts(rows: Mapping[int, Region]) -> dict[str, str]:
    return {str(split): region.to_text() for split, region in rows.items()}


def _from_texts(texts: Mapping[str, str]) -> dict[int, Region]:
    return {int(split): Region.from_text(text) for split, text in texts.items()}
