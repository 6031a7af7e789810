"""Hypothesis profiles, chosen by HYPOTHESIS_PROFILE: `ci` (the default) or `deep`."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from lineage_core.answers import ANSWERS

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_kafka.topics import Topics
    from tests.support.servers import (
        KafkaUnderTest,
        Neo4jUnderTest,
        RedisUnderTest,
        ServersOfTheRun,
    )

# The same examples on every run and every machine: a red build is never a matter of luck. No deadline,
# and no check of how long examples take to draw, because a busy machine is slow, not wrong.
settings.register_profile(
    "ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# For a night: new examples each time, many of them.
settings.register_profile(
    "deep",
    deadline=None,
    max_examples=5_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# Commands that tests run keep no Spark in the background; tests of that say so themselves.
os.environ["LINEAGE_SESSION_S"] = "0"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption(
        "--soak", type=float, default=0, metavar="SECONDS", help="kill parts of a pipeline so long"
    )
    group.addoption(
        "--fault-seed", type=int, default=1, help="decides what is killed, and when (default: 1)"
    )


@pytest.fixture(autouse=True)
def answers_of_its_own() -> Iterator[None]:
    """Each test is a program of its own: what actions gave to others is not in its arrays."""
    ANSWERS.reset()
    yield
    ANSWERS.reset()


@pytest.fixture(scope="session")
def spark_context() -> Iterator[SparkContext]:
    """One plain SparkContext for the whole run: two cores, quick at tiny queries, functions of the tests importable."""
    from pyspark import SparkConf, SparkContext

    from tests.support import jvm

    for name, value in jvm.quick().items():
        os.environ.setdefault(name, value)
    root = str(Path(__file__).resolve().parents[1])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = root if before is None else os.pathsep.join((root, before))
    conf = SparkConf().setMaster("local[2]").setAppName("tests")
    conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    # Tiny queries then take a third of the time. It changes no plan that a recipe notes.
    conf.set("spark.sql.adaptive.enabled", "false").set("spark.sql.codegen.wholeStage", "false")
    conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    # A task takes 0.1 s less: its worker reads no archives of PySpark's again. It runs in this very Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf.set("spark.python.daemon.module", "lineage_emitter.daemon")
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as checkpoints:
        sc.setCheckpointDir(checkpoints)
        yield sc
        sc.stop()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def servers_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServersOfTheRun]:
    """Ends what the fixtures below start, and removes its files."""
    from tests.support.servers import guarded

    with guarded(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture(scope="session")
def kafka(servers_of_the_run: ServersOfTheRun) -> KafkaUnderTest:
    """One Kafka for the whole run. It has no topics: see kafka_topics."""
    return servers_of_the_run.kafka()


@pytest.fixture
def kafka_topics(kafka: KafkaUnderTest) -> Iterator[Topics]:
    """The pipeline's topics under a prefix of this test's own."""
    topics = kafka.create_topics()
    yield topics
    kafka.delete_topics(topics.prefix)


@pytest.fixture(scope="session")
def redis_server(servers_of_the_run: ServersOfTheRun) -> RedisUnderTest:
    """One Redis for the whole run; its clear() removes what earlier tests left."""
    return servers_of_the_run.redis()


@pytest.fixture(scope="session")
def neo4j(servers_of_the_run: ServersOfTheRun) -> Neo4jUnderTest:
    """One Neo4j for the whole run; its clear() removes what earlier tests left."""
    return servers_of_the_run.neo4j()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell a failure when it happens, too: a run may be ended before it has told all."""
    running_alone = "PYTEST_XDIST_WORKER" not in os.environ
    if report.failed and running_alone:
        print(f"\n{report.nodeid} ({report.when}): {report.longreprtext}", file=sys.__stderr__)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Tell how a process with tests ended that should not have."""
    if error:
        process = node.gateway._io.popen
        print(f"\n{node.gateway.id} ended with {process.wait(10)}", file=sys.__stderr__)
