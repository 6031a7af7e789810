"""Generated RDD programs on Spark: in calm, with tasks that fail and files that vanish, with executors killed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from hypothesis import strategies as st
from pyspark import SparkConf, SparkContext

from tests.hunt.application import Attempt, applications
from tests.hunt.claims import Finding
from tests.hunt.harm import CALM, Harm
from tests.hunt.hunting import Kind
from tests.hunt.identity import numbered
from tests.hunt.shapes import SHAPES
from tests.oracle.model import Program, Sink, Source, Step
from tests.oracle.program import programs, sources
from tests.support import jvm
from tests.support.two_hosts import two_hosts

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS_EACH = 40
"""Programs of one application: its graph grows with them."""
LOCAL = "local[2,4]"
CLUSTER = "local-cluster[2,1,1024]"
OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.daemon.module": "lineage_emitter.daemon",
    "spark.excludeOnFailure.enabled": "false",
    "spark.stage.maxConsecutiveAttempts": "20",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.task.maxFailures": "8",
}
SPECULATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "10ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    # Where all tasks have room at once no other one need be done.
    "spark.speculation.task.duration.threshold": "200ms",
}
TASK_STRIKES = ("raise", "exit", "files", "files", "files", "full", "full")
BEFORE = (
    ("", "", None),
    ("cache", "", None),
    ("partitionBy", "", 2),
    ("repartition", "", 2),
    ("groupByKey", "", 2),
    ("sortByKey", "", 2),
)
"""Operators before the last keys are given: some number their rows anew in each attempt."""
BY_KEY = (("reduceByKey", "larger", 3), ("groupByKey", "", 3), ("partitionBy", "", 3))
Running = Callable[[Attempt], Finding]
ApplicationSnapshot = Callable[[Path], AbstractContextManager[Running]]


def _source(name: str) -> st.SearchStrategy[Source]:
    return sources(name).map(numbered)


def generated() -> st.SearchStrategy[Program]:
    """Programs whose source rows hold ids."""
    return programs(steps_max=5, source=_source)


def calm() -> st.SearchStrategy[Attempt]:
    """Programs to which nothing happens."""
    return st.builds(Attempt, generated(), st.just(CALM), st.booleans())


@st.composite
def shaped(draw: st.DrawFn) -> Attempt:
    """Functions over partitions that keep records, side by side over one text."""
    program = Program((draw(_rows("s")),), (Step("source", (0,)),), (Sink("save", 0),))
    shapes = draw(st.lists(st.sampled_from(sorted(SHAPES)), min_size=3, max_size=8, unique=True))
    return Attempt(program, shapes=tuple(shapes), detailed=draw(st.booleans()))


@st.composite
def _rows(draw: st.DrawFn, name: str) -> Source:
    """A text of enough rows that a harm in the midst of them leaves some before and some behind."""
    rows, partitions = draw(st.integers(8, 20)), draw(st.integers(2, 3))
    words = draw(st.lists(st.sampled_from(("a", "b", "c d", "")), min_size=rows, max_size=rows))
    text = "".join(f"{word}\n" for word in words).encode()
    return numbered(Source(name, "text", partitions, files=((f"{name}.txt", text),)))


@st.composite
def harmed(draw: st.DrawFn, strikes: tuple[str, ...]) -> Attempt:
    """Programs with a harm behind one of their operators, mostly behind a last shuffle."""
    program = _shuffled_once_more(draw, draw(programs(steps_max=2, sinks_max=1, source=_rows)))
    last = len(program.steps) - 1
    harm = Harm(
        strike=draw(st.sampled_from(strikes)),
        operator=draw(st.integers(last - 1, last + 1) | st.integers(0, last)),
        record=draw(st.integers(0, 1)),
        unsteady=draw(st.integers(0, 3)) > 0,
        arrival=draw(st.booleans()),
        evict=draw(st.booleans()),
    )
    return Attempt(program, harm)


def _shuffled_once_more(draw: st.DrawFn, program: Program) -> Program:
    """The program with new keys and a shuffle behind its first sink: a harm there makes map tasks run again."""
    steps, end = list(program.steps), program.sinks[0].step
    for op, function, partitions in (
        draw(st.sampled_from((("map", "pair_skewed", None), ("map", "pair_small", None)))),
        draw(st.sampled_from(BEFORE)),
        draw(st.sampled_from((("map", "pair_small", None), ("map", "pair_skewed", None)))),
        draw(st.sampled_from((("cache", "", None), ("values", "", None), ("", "", None)))),
        ("map", "pair_small", None),
        draw(st.sampled_from(BY_KEY)),
        ("map", "tag", None),
    ):
        if op:
            steps.append(Step(op, (end,), function, partitions))
            end = len(steps) - 1
    return replace(program, steps=tuple(steps), sinks=(replace(program.sinks[0], step=end),))


@contextmanager
def spark(
    folder: Path, master: str, options: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkContext]:
    """A SparkContext whose files lie below ``folder``. ``options``: beside those of all."""
    for name, value in jvm.quick().items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYTHONPATH"] = _packages()
    conf = (
        SparkConf()
        .setMaster(master)
        .setAppName("hunt")
        .set("spark.local.dir", str(folder / "local"))
    )
    for name, value in {**OPTIONS, **options}.items():
        conf.set(name, value)
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    sc.setCheckpointDir(str(folder / "checkpoints"))
    try:
        yield sc
    finally:
        sc.stop()


def _packages() -> str:
    """Where workers find packages: these, and where this process was told to."""
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([str(ROOT), *filter(None, told)]))


def opened(master: str) -> ApplicationSnapshot:
    """What tries attempts on a master."""

    @contextmanager
    def opening(folder: Path) -> Iterator[Running]:
        folder.mkdir(parents=True)
        with _running(folder, master) as run:
            yield run

    return opening


@contextmanager
def _speculating(folder: Path) -> Iterator[Running]:
    """What tries attempts where Spark runs slow tasks twice."""
    (folder / "cluster").mkdir(parents=True)
    options = SPECULATION | {"spark.executorEnv.PYTHONPATH": _packages()}
    with two_hosts(folder / "cluster") as master, _running(folder, master, options) as run:
        yield run


@contextmanager
def _running(
    folder: Path, master: str, options: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Running]:
    with spark(folder, master, options) as sc, applications(sc, folder, PROGRAMS_EACH) as run:
        local = str(folder / "local")
        yield lambda one: run(replace(one, harm=replace(one.harm, local=local)))


SPARK_KINDS = (
    Kind("plain", calm, opened("local[2]"), batch=40),
    Kind("functions", shaped, opened("local[2]"), batch=40),
    Kind("tasks", lambda: harmed(TASK_STRIKES), opened(LOCAL)),
    Kind("executors", lambda: harmed(("kill",)), opened(CLUSTER), batch=10),
    Kind("speculation", lambda: harmed(("wait",)), _speculating, batch=20),
)
