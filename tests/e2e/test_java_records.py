"""Records that the program hands to the JVM by itself are plain, and the verdict names where."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD

from lineage_emitter import LineageContext
from tests.support.job_runs import judged

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]

RDDS: dict[str, Callable[[Any], Any]] = {
    "source": lambda ctx: ctx.parallelize(list("abcdef"), 3),
    "mapped": lambda ctx: ctx.range(6, numSlices=2).map(str),
    "cached": lambda ctx: ctx.range(6, numSlices=2).map(str).cache(),
    "united": lambda ctx: ctx.range(6, numSlices=2).map(str).union(ctx.range(3, numSlices=1)),
    "moved": lambda ctx: ctx.range(6, numSlices=2).map(str).repartition(2),
}


def read_in_the_jvm(ctx: Any, rdd: Any) -> Any:
    """What a library of the JVM would read."""
    jvm = ctx._jvm
    python_to_java = jvm.org.apache.spark.api.python.SerDeUtil.pythonToJava
    again: RDD[Any] = RDD(rdd._jrdd, getattr(ctx, "sc", ctx), rdd._jrdd_deserializer)
    return (
        sorted(map(str, python_to_java(rdd._jrdd, True).collect())),
        sorted(map(str, python_to_java(rdd._pickled()._jrdd, True).collect())),
        sorted(map(str, rdd._to_java_object_rdd().collect())),
        rdd._jrdd.count(),
        sorted(map(str, again.collect())),
    )


@pytest.mark.long
def test_the_jvm_reads_plain_records(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        for name, make in RDDS.items():
            assert read_in_the_jvm(lc, make(lc)) == read_in_the_jvm(lc.sc, make(lc.sc)), name
        app = lc.app
    reasons = "\n".join(judged(tmp_path, app).reasons)
    for what in ("RDD._jrdd", "RDD._pickled", "RDD._to_java_object_rdd"):
        assert what in reasons


def test_what_reads_no_records_is_no_end_of_lineage(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        rdd: Any = lc.range(6, numSlices=2).map(str).cache()
        assert rdd._jrdd.id() == rdd.id()
        assert rdd._jrdd.partitions().size() == 2
        assert rdd._jrdd.getStorageLevel().useMemory()
        assert rdd.count() == 6
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
