"""Estimates what capture would record of a program, from its text alone: the names that it imports, calls and reads."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lineage_core.errors import LineageError

Share = Literal["captured", "recorded", "superset", "not captured"]
"""Of RDDs: captured, by the row or as a superset. Of DataFrames: recorded by a recipe."""

LINES_SHOWN = 3
PROGRAM_BYTES_MAX = 8 << 20

SHARES: dict[Share, frozenset[str]] = {
    "captured": frozenset(
        [
            "textFile",
            "wholeTextFiles",
            "binaryFiles",
            "binaryRecords",
            "sequenceFile",
            "pickleFile",
            "hadoopFile",
            "hadoopRDD",
            "newAPIHadoopFile",
            "newAPIHadoopRDD",
            "parallelize",
            "saveAsTextFile",
            "saveAsPickleFile",
            "saveAsSequenceFile",
            "saveAsHadoopFile",
            "saveAsNewAPIHadoopFile",
            "reduceByKey",
            "groupByKey",
            "aggregateByKey",
            "combineByKey",
            "foldByKey",
            "flatMap",
            "mapValues",
            "sortByKey",
            "sortBy",
            "keyBy",
            "cogroup",
            "cartesian",
            "zipWithIndex",
            "toDF",
            "rdd",
            "textFileStream",
            "queueStream",
            "saveAsTextFiles",
            "foreachRDD",
        ]
    ),
    "recorded": frozenset(
        [
            "createDataFrame",
            "readStream",
            "writeStream",
            "foreachBatch",
            "sql",
            "parquet",
            "csv",
            "json",
            "orc",
            "jdbc",
            "load",
            "table",
            "saveAsTable",
            "insertInto",
            "save",
            "writeTo",
            "toPandas",
            "select",
            "withColumn",
            "groupBy",
            "agg",
        ]
    ),
    "superset": frozenset(
        {"mapPartitions", "mapPartitionsWithIndex", "mapPartitionsWithSplit", "pipe", "barrier"}
    ),
    "not captured": frozenset(
        [
            "remote",
            "_jvm",
            "_jdf",
            "_jrdd",
            "_jsc",
            "broadcast",
            "accumulator",
            "socketTextStream",
            "binaryRecordsStream",
            "updateStateByKey",
            "countByWindow",
            "countByValueAndWindow",
            "groupByKeyAndWindow",
        ]
    ),
}
"""Names that a program may use, by what lineage has of them."""
_BY_READER = frozenset(["parquet", "csv", "json", "orc", "text", "jdbc", "load", "table", "save"])
"""Names that much else has, too: they count behind a reader or a writer alone."""
_READERS = frozenset({"read", "write"})
_WHY = {
    "mapPartitions": "unless its function's code proves that it keeps nothing, or lineage_emitter.exact declares it",
    "pipe": "the program may keep records back",
    "barrier": "as mapPartitions, which is all that it offers",
    "remote": "a session of Spark Connect has no JVM to read from",
    "broadcast": "what goes through the driver's memory is not lineage",
    "accumulator": "what goes through the driver's memory is not lineage",
    "_jvm": "what Java is called for directly is not seen",
}
_WHY |= dict.fromkeys(
    ("readStream", "writeStream", "foreachBatch"),
    "batch by batch; batches with state, or of streams of other than files, Kafka and tables, are named and not traced",
)
_WHY |= dict.fromkeys(
    ("socketTextStream", "binaryRecordsStream"), "its records have no places in files"
)
_WHY |= dict.fromkeys(
    ("updateStateByKey", "countByWindow", "countByValueAndWindow", "groupByKeyAndWindow"),
    "what keeps a state has plain records in checkpoints: lineage ends there",
)
_WHY |= dict.fromkeys(("mapPartitionsWithIndex", "mapPartitionsWithSplit"), _WHY["mapPartitions"])
_WHY |= dict.fromkeys(("_jdf", "_jrdd", "_jsc"), _WHY["_jvm"])
_MODULES = {
    "pyspark.ml": "models are fitted in Java: what is written by them is named as a gap",
    "pyspark.mllib": "models are fitted in Java: what is written by them is named as a gap",
    "graphframes": "graphs are computed in Java: what is written by them is named as a gap",
}


class ProgramError(LineageError):
    """A program that can't be read."""


@dataclass(frozen=True, slots=True)
class Used:
    """A name that a program uses, on which lines, and what lineage has of it. ``why`` may be empty."""

    share: Share
    name: str
    lines: tuple[int, ...]
    why: str = ""

    def words(self) -> str:
        """In one line."""
        first = ", ".join(map(str, self.lines[:LINES_SHOWN]))
        more = ", ..." if self.lines[LINES_SHOWN:] else ""
        line = "line" if len(self.lines) == 1 else "lines"
        return f"{self.name} ({line} {first}{more}){': ' if self.why else ''}{self.why}"


def check_program(job: Path) -> list[Used]:
    """What a program uses of Spark. Nothing of it is run or imported.

    Raises:
        ProgramError: it can't be read, is too large, or is no Python.
    """
    try:
        with job.open("rb") as file:
            text = file.read(PROGRAM_BYTES_MAX + 1)
    except OSError as error:
        raise ProgramError(f"can't read {job}: {error.strerror}") from error
    if len(text) > PROGRAM_BYTES_MAX:
        raise ProgramError(f"{job} has more than {PROGRAM_BYTES_MAX >> 20} MiB")
    try:
        tree = ast.parse(text, str(job))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ProgramError(f"{job} is no Python of this version: {error}") from error
    shares = {name: share for share, names in SHARES.items() for name in names}
    lines: dict[tuple[Share, str], list[int]] = defaultdict(list)
    for name, line in _names(tree):
        share = shares.get(name)
        if share is None and name in _MODULES:
            share = "not captured"
        if share is not None:
            lines[share, name].append(line)
    order = list(SHARES)
    return [
        Used(share, name, tuple(sorted(set(where))), _WHY.get(name, _MODULES.get(name, "")))
        for (share, name), where in sorted(
            lines.items(), key=lambda one: (order.index(one[0][0]), min(one[1]))
        )
    ]


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Attributes and imported modules, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            if node.attr not in _BY_READER or _is_behind_reader(node.value):
                yield node.attr, node.end_lineno or node.lineno
        elif isinstance(node, ast.Import):
            yield from ((name, node.lineno) for name in _modules(a.name for a in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from ((name, node.lineno) for name in _modules([node.module, *inner]))


def _is_behind_reader(node: ast.expr) -> bool:
    """Whether a chain of calls has a reader or writer in it, as ``spark.read.option(...)``."""
    while isinstance(node, ast.Attribute | ast.Call):
        if isinstance(node, ast.Attribute) and node.attr in _READERS:
            return True
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return False


def _modules(names: Iterable[str]) -> list[str]:
    """The known modules that some lie in."""
    return sorted(
        {module for name in names for module in _MODULES if f"{name}.".startswith(f"{module}.")}
    )
