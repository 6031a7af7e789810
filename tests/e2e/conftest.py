"""Captures on the SparkContext of the whole run; the flights, captured once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess
from lineage_emitter import LineageContext
from lineage_store.url import open_store
from tests.support.flights_demo import Demo, run_demo
from tests.support.job_runs import STORE, Begin

Capture = Callable[..., LineageContext]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo, run once; tests may read its lineage and add to its store."""
    return run_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def spark(spark_context: SparkContext) -> SparkSession:
    """A session of its own, in which little is shuffled."""
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the module, with a store in it."""
    return tmp_path_factory.mktemp("module")


@pytest.fixture(scope="module")
def begin(spark_context: SparkContext, folder: Path) -> Begin:
    """Begins an application; all of a module are in one store."""
    url = f"sqlite:///{folder / STORE}"
    return lambda **settings: LineageContext(spark_context, store=url, link=True, **settings)


@pytest.fixture
def access(folder: Path, spark: SparkSession) -> Iterator[StoredAccess]:
    """Asks the store of the module in this process, on the Spark that runs in it."""
    spark.sql("select 1").collect()
    url = f"sqlite:///{folder / STORE}"
    with open_store(url, create=True) as store:
        yield StoredAccess(store, url)


@pytest.fixture
def capture(spark_context: SparkContext, tmp_path: Path) -> Capture:
    """Begins a capture of its own on the one SparkContext; end it by ``with``."""

    def begin(**settings: Any) -> LineageContext:
        settings = {"store": f"sqlite:///{tmp_path / STORE}", "link": True} | settings
        return LineageContext(spark_context, **settings)

    return begin
