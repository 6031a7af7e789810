"""Every query of dashboards and alerts, asked of a real Prometheus beside a pipeline at work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from lineage_emitter import LineageApi
from lineage_emitter.settings import read_settings as emitter_settings
from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from tests.support.api_server import running
from tests.support.grafana import RULES, Target, alerts, metrics_in, targets
from tests.support.pipeline import POLL_S, Pipeline, pipeline
from tests.support.prometheus import Prometheus, prometheus
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest

pytestmark = pytest.mark.integration

LIMIT_S = 240.0
"""A quiet machine needs a tenth of it."""
ROWS = 5
FLOWS = 2 * ROWS
"""Of one program."""
VARIABLES = {
    "$namespace": ".*",
    "$job": ".*",
    "$__rate_interval": "12s",
    "$__range": "5m",
}


@dataclass
class AtWork:
    """Programs that tell their lineage, and somebody who asks."""

    pipe: Pipeline
    client: httpx.Client
    told: list[str] = field(default_factory=list)

    def step(self) -> None:
        """One more program from its begin to its end, and some questions."""
        number = len(self.told)
        names = ("dispatcher", "kafka", "topic_prefix", "spool")
        found = {name: self.pipe.settings[f"LINEAGE_{name.upper()}"] for name in names}
        with LineageApi(f"program {number}", settings=emitter_settings(None, **found)) as api:
            api.register("kept", kind="operator")
            api.register("totals", kind="sink")
            api.link("kept", "totals")
            for node, source, out in (("kept", "in", "kept#0"), ("totals", "kept#0", "totals#0")):
                with api.task(node):
                    for row in range(ROWS):
                        begin = f"line {row}" if source == "in" else f"{source}#{row}"
                        api.capture(f"{node} {row}", begin, f"{out}#{row}")
            self.told.append(api.app)
        for path in ("/v1/me", f"/v1/applications/{self.told[0]}", "/v1/nothing"):
            assert self.client.get(path).status_code < 500


@contextmanager
def watched(pipe: Pipeline, folder: Path) -> Iterator[tuple[AtWork, Prometheus]]:
    """The pipeline with a query API over its store, and a Prometheus that asks all of them."""
    settings = read_settings(
        store=pipe.settings["LINEAGE_STORE"], api_metrics_applications=20, api_open=True
    )
    with pipe.store() as store, running(create_app(store, settings)) as address:
        ports = {one.name.split("-")[0]: one.port for one in pipe.services}
        ports["query-api"] = httpx.URL(address).port or 0
        with (
            prometheus(folder / "prometheus", ports, RULES) as asked,
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            yield AtWork(pipe, client), asked


def chosen(expression: str) -> str:
    """An expression as Grafana sends it when nothing is narrowed."""
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression


def without_data(asked: Prometheus, wanted: list[Target]) -> list[Target]:
    """Queries that have no number yet. One that is no query fails the test."""
    return [target for target in wanted if not asked.query(chosen(target.expr))]


@pytest.mark.long
def test_every_panel_has_data_and_every_alert_can_be_judged(
    tmp_path: Path, kafka: KafkaUnderTest, redis_server: RedisUnderTest, neo4j: Neo4jUnderTest
) -> None:
    with (
        pipeline(tmp_path, kafka, redis_server, neo4j) as pipe,
        watched(pipe, tmp_path) as (work, asked),
    ):
        deadline = time.monotonic() + LIMIT_S
        empty = list(targets())
        while empty and time.monotonic() < deadline:
            work.step()
            empty = without_data(asked, empty)
        assert empty == [], "\n".join(f"{one.dashboard}: {one.panel}: {one.expr}" for one in empty)
        assert_alerts_are_sound(asked)
        for app in (work.told[0], work.told[-1]):
            pipe.complete(app)
        assert_numbers_are_right(asked, FLOWS * len(work.told), deadline)


def assert_numbers_are_right(asked: Prometheus, flows: int, deadline: float) -> None:
    """What was told is what was counted, by each of the two."""
    wanted = {
        "sum(lineage_linker_flows_total)": flows,
        "sum(lineage_writer_flows_total)": flows,
        "min(lineage_linker_ready)": 1,
        "min(lineage_writer_ready)": 1,
        "max(lineage_linker_state_bytes_max)": 1 << 30,
        "sum(lineage_linker_dead_letters_total)": 0,
    }
    found: dict[str, list[float]] = {}
    while time.monotonic() < deadline:
        found = {expression: asked.query(expression) for expression in wanted}
        if found == {expression: [number] for expression, number in wanted.items()}:
            return
        time.sleep(POLL_S)
    pytest.fail(f"{found} is not {wanted}")


def assert_alerts_are_sound(asked: Prometheus) -> None:
    """Every rule is evaluated, over metrics that are there, and none fires where all is well.

    (One that waits is none: a job at work is not complete, and may have ended a moment ago.)
    """
    known = asked.metrics()
    for alert in alerts():
        assert metrics_in(alert["expr"]) <= known, alert["alert"]
        asked.query(alert["expr"])
    groups = asked.get("rules")["groups"]
    states = {
        rule["name"]: (rule["health"], rule["state"]) for one in groups for rule in one["rules"]
    }
    assert states.keys() == {alert["alert"] for alert in alerts()}
    assert set(states.values()) <= {("ok", "inactive"), ("ok", "pending")}, states
