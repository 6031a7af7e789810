"""What a call gave, as text that is the same in two processes if what a user sees is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark import RDD, RDDBarrier
from pyspark.resultiterable import ResultIterable
from pyspark.sql import DataFrame, GroupedData, Row

TEXT_MAX = 4_000
_DIFFERENT = (
    (re.compile(r"0x[0-9a-f]+"), "0x"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\b(?:o|calling )\d+\b"), "object"),
    (re.compile(r"(Accumulator<id=)\d+"), r"\1"),
    (re.compile(r"(RDD)\[\d+\]"), r"\1[]"),
    (re.compile(r"([a-z]\w*)#\d+L?"), r"\1#"),
    (re.compile(r"attempt_\w+|_temporary/\S+"), "attempt"),
)
"""What differs from run to run for no reason of the program's."""


def same_text(text: str, folder: Path) -> str:
    """The text without what differs from run to run."""
    text = text.replace(str(folder), "FOLDER").replace(str(folder.parent), "WORK")
    for pattern, instead in _DIFFERENT:
        text = pattern.sub(instead, text)
    return text[:TEXT_MAX]


def shown(value: Any, folder: Path) -> Any:
    """A value as JSON has it. RDDs and DataFrames are computed, and shown as such, of whatever subclass they are."""
    if isinstance(value, RDD):
        return ["RDD", value.getNumPartitions(), shown(value.glom().collect(), folder)]
    if isinstance(value, RDDBarrier):
        return ["RDDBarrier", shown(value.mapPartitions(list), folder)]
    if isinstance(value, DataFrame):
        kind = value.schema.simpleString()
        return ["DataFrame", kind, shown([tuple(row) for row in value.collect()], folder)]
    if isinstance(value, GroupedData):
        return ["GroupedData", shown(value.count(), folder)]
    if isinstance(value, ResultIterable):
        return ["ResultIterable", shown(list(value), folder)]
    if isinstance(value, Mapping):
        entries = [[shown(key, folder), shown(value[key], folder)] for key in value]
        return [type(value).__name__, sorted(entries, key=str)]
    if isinstance(value, Row):
        return ["Row", list(value.__fields__), shown(list(value), folder)]
    if isinstance(value, list | tuple):
        return [type(value).__name__, *(shown(one, folder) for one in value)]
    if isinstance(value, set | frozenset):
        return [type(value).__name__, *sorted((shown(one, folder) for one in value), key=str)]
    if isinstance(value, Iterator):
        return ["iterator", *(shown(one, folder) for one in value)]
    return f"{type(value).__name__}: {same_text(repr(value), folder)}"


def failed(problem: BaseException, folder: Path) -> list[str]:
    """An error as the user sees it: its type, and what was said last in the worker or by Spark.

    Which of two failing tasks is named first is a matter of chance.
    """
    java = str(getattr(problem, "java_exception", "") or "")
    said = re.findall(r"^([\w.]*(?:Error|Exception|Exit|Iteration)\b.*)", java, re.M)
    in_python = sorted({one for one in said if not one.startswith(("org.", "java."))})
    text = "; ".join(in_python) or (said[0] if said else str(problem))
    return [type(problem).__name__, same_text(text, folder)[:500]]


def files(folder: Path) -> dict[str, str]:
    """The files that a call wrote: names without what Spark makes up, and contents where they are text."""
    found: dict[str, str] = {}
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        name = same_text(str(path.relative_to(folder)), folder)
        if path.name.startswith("."):
            continue
        content = path.read_bytes()
        known = name.endswith((".json", ".csv", ".txt")) or path.name.startswith("part-0000")
        # Hadoop's sequence files hold a mark by chance.
        plain = known and content[:3] not in {b"PAR", b"ORC", b"SEQ", b"\x1f\x8b\x08"}
        text = content.decode("utf-8", "replace")[:TEXT_MAX] if plain else ""
        found[_unused(name, found)] = same_text(text, folder)
    return found


def _unused(name: str, taken: Mapping[str, str]) -> str:
    return name if name not in taken else _unused(f"{name}+", taken)
