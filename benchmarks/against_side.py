"""One side of ``benchmarks.against``: a process that stays, and does tasks as its standard input names them.

    python -m benchmarks.against_side SETUP.json

A line in is ``prepare NAME``, ``run NAME`` or ``check NAME``, a line out the answer in JSON. Only what ``run`` does is
measured. Which revision's capture and traces it runs, PYTHONPATH says.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import runpy
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import lineage_emitter
from benchmarks.catalog import WORKLOADS
from benchmarks.correctness import sample_rows
from benchmarks.frames_oracle import ParquetTables, recipe_of_frame
from benchmarks.spark_events import submit_arguments
from benchmarks.tpc import SETTINGS, queries
from benchmarks.workloads.cities import orders_by_city
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.spark.own_spark import start_spark
from lineage_dataframes.trace.backward import trace_backward
from lineage_emitter import autorun
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

JOBS, FRAMES, STARTED = "jobs", "frames", "started"
TEXT, FUNCTION = "text", "python function"
"""Tasks of `ColdFrames`, beside the queries."""
SHORT = Path(__file__).parent / "workloads" / "short.py"
STARTS: Mapping[str, str] = {"start and stop": "0", "short job": "1"}
"""How many jobs run in a context that does nothing else."""
BACK, FORWARD = "back", "forward"
DIRECTIONS = {BACK: Direction.BACKWARD, FORWARD: Direction.FORWARD}
LIMIT = 20
"""Items listed of an answer, with their texts, as on the page."""
SEED = 29


class Work(Protocol):
    """Tasks of a kind: what comes before a run and behind it is not measured."""

    def prepare(self, name: str) -> None: ...

    def run(self, name: str) -> None: ...

    def check(self, name: str) -> Mapping[str, Any]:
        """What must be the same on both sides."""
        ...


@dataclass
class Jobs:
    """Whole captured jobs, and traces over what the last run of each has left."""

    setup: Mapping[str, Any]
    answers: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = Path(self.setup["folder"])
        events = self.home / "events"
        events.mkdir(parents=True, exist_ok=True)
        os.environ["PYSPARK_SUBMIT_ARGS"] = submit_arguments(events, self.setup["cores"])
        os.environ["PYSPARK_PYTHON"] = sys.executable
        autorun.install()

    def prepare(self, name: str) -> None:
        job, _, direction = name.partition(": ")
        if direction:
            self.questions = self._questions(job, DIRECTIONS[direction])
            return
        shutil.rmtree(self.home / job, ignore_errors=True)
        os.environ["LINEAGE_STORE"] = f"sqlite:///{self.home / job / 'lineage' / 'lineage.db'}"

    def run(self, name: str) -> None:
        job, _, direction = name.partition(": ")
        if direction:
            for _ in range(self.setup["repeats"]):
                self.answers = self._asked(job)
            return
        if job in STARTS:
            sys.argv = [str(SHORT), STARTS[job]]
        else:
            source = Path(self.setup["sources"][job])
            output = self.home / job / "out"
            sys.argv = WORKLOADS[job].arguments(source, output, self.setup["partitions"])
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        except SystemExit as leaving:
            # A job may end as programs do; the side goes on to the next one.
            if leaving.code:
                raise

    def _asked(self, job: str) -> list[dict[str, Any]]:
        """Open the store, and ask; as a command does."""
        lineage = self.home / job / "lineage"
        store = SqliteStore(lineage / "lineage.db")
        try:
            query_engine = QueryEngine(store, RowReader(lineage / "index"))
            return [query_engine.ask(query).to_json() for query in self.questions]
        finally:
            store.close()

    def _questions(self, job: str, direction: Direction) -> list[TraceQuery]:
        """Rows of the output, or the lines of the input that a trace of these names."""
        rows = sample_rows(self.home / job / "out", self.setup["rows"])
        places = [place for place, _ in rows]
        if direction is Direction.FORWARD:
            self.questions = self._questions(job, Direction.BACKWARD)
            lines = {
                item["location"]
                for answer in self._asked(job)
                for source in answer["sources"]
                for item in source["items"]
            }
            places = random.Random(SEED).sample(sorted(lines), min(len(lines), len(rows)))
        return [TraceQuery(direction, (place,), limit=LIMIT) for place in places]

    def check(self, name: str) -> Mapping[str, Any]:
        job, _, direction = name.partition(": ")
        if direction:
            return {
                "found": _digest([_item_texts(answer) for answer in self.answers]),
                "exact": sum(answer["exact"] for answer in self.answers),
                "complete": all(answer["complete"] for answer in self.answers),
            }
        parts = sorted((self.home / job / "out").glob("part-*"))
        return {
            "output": _digest([hashlib.sha256(part.read_bytes()).hexdigest() for part in parts])
        }


def _item_texts(answer: Mapping[str, Any]) -> list[tuple[int, list[str]]]:
    """How many items of each end, and which are listed, without the folder that they are in."""
    ends = answer.get("sources", answer.get("sinks", ()))
    return [
        (
            end["count"],
            [f"{Path(item['location']).name} {item.get('text')}" for item in end["items"]],
        )
        for end in ends
    ]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@dataclass
class Frames:
    """Traces of a row of each TPC query, by its recipe."""

    setup: Mapping[str, Any]

    def __post_init__(self) -> None:
        self.spark = self.session()
        self.spark.sparkContext.setLogLevel("ERROR")
        folder = Path(self.setup["tables"])
        tables = ParquetTables(folder, tuple(sorted(path.name for path in folder.iterdir())))
        tables.views(self.spark)
        self.texts = queries(self.setup["suite"])
        self.kept: dict[str, tuple[Any, Any]] = {}

    def session(self) -> SparkSession:
        """Spark's session, as a program has it."""
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(f"local[{self.setup['cores']}]")
        quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        for option, value in {**SETTINGS, **quiet}.items():
            builder = builder.config(option, value)
        return builder.getOrCreate()

    def frame(self, name: str) -> DataFrame:
        """What a task traces a row of."""
        return self.spark.sql(self.texts[int(name.rpartition(" ")[2])])

    def prepare(self, name: str) -> None:
        if name not in self.kept:
            frame = self.frame(name)
            output = frame.collect()
            self.kept[name] = (
                recipe_of_frame(frame),
                tuple(output[len(output) // 2]) if output else None,
            )

    def run(self, name: str) -> None:
        recipe, row = self.kept[name]
        if row is not None:
            self.traced = trace_backward(self.spark, recipe, [row], is_in_output=True)

    def check(self, name: str) -> Mapping[str, Any]:
        if self.kept[name][1] is None:
            return {"empty": True}
        digest = _digest([Path(location).name for location in self.traced.locations()])
        return {"found": digest, "reasons": self.traced.reasons}


class ColdFrames(Frames):
    """The same in a Spark that is started as commands start theirs, and traces of more: text, and a Python function."""

    def session(self) -> SparkSession:
        """Spark's session, as a command has it."""
        session = start_spark(f"local[{self.setup['cores']}]", Path(self.setup["folder"]))
        for option, value in SETTINGS.items():
            session.conf.set(option, value)
        return session

    def frame(self, name: str) -> DataFrame:
        """What a task traces a row of."""
        if name == TEXT:
            return orders_by_city(self.spark, self.setup["orders"])
        if name == FUNCTION:
            from pyspark.sql import functions as F

            net = F.udf(lambda price, discount: float(price) * (1 - float(discount)), "double")
            sold = self.spark.table("lineitem").where("l_orderkey % 7 = 0")
            priced = sold.withColumn("net", net("l_extendedprice", "l_discount"))
            return priced.groupBy("l_shipmode", "l_returnflag").agg(F.max("net").alias("net"))
        return super().frame(name)


KINDS: Mapping[str, Callable[[Mapping[str, Any]], Work]] = {
    JOBS: Jobs,
    FRAMES: Frames,
    STARTED: ColdFrames,
}


def main() -> None:
    """Command line entry."""
    # What the jobs print goes to standard error.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    setup = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    work = KINDS[setup["kind"]](setup)
    say = partial(print, file=answers, flush=True)
    say(json.dumps({"code": str(Path(lineage_emitter.__file__).resolve())}))
    for line in sys.stdin:
        verb, _, name = line.rstrip("\n").partition(" ")
        started = time.perf_counter()
        result = getattr(work, verb)(name)
        say(json.dumps({"wall_s": time.perf_counter() - started, "found": result}))


if __name__ == "__main__":
    main()
