"""The writer's settings, metrics and probes: as documented, and without secrets."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest

from lineage_kafka.settings import KafkaSettings
from lineage_openlineage.settings import OpenLineageSettings
from lineage_service.probes import Probes
from lineage_writer.errors import SettingsError
from lineage_writer.health import Health
from lineage_writer.metrics import Metrics
from lineage_writer.settings import WriterSettings, read_settings
from tests.support.reference_pages import documented_metrics, metric_names, section

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WriterSettings.model_fields:
        monkeypatch.delenv(f"LINEAGE_{name.upper()}", raising=False)


def test_the_table_of_the_documentation_is_the_settings() -> None:
    own = {
        name: field
        for name, field in WriterSettings.model_fields.items()
        if name not in {*KafkaSettings.model_fields, *OpenLineageSettings.model_fields, "store"}
    }
    assert section("settings.md", "Settings of the writer") == [
        f"| `LINEAGE_{name.upper()}` | `{field.default}` | {field.description} |"
        for name, field in own.items()
    ]


def test_the_table_of_the_documentation_is_the_metrics() -> None:
    assert documented_metrics("Writer") == metric_names(Metrics().registry)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "there:9092")
    monkeypatch.setenv("LINEAGE_STORE", "neo4j://there:7687")
    monkeypatch.setenv("LINEAGE_WRITER_GROUP", "another")
    monkeypatch.setenv("LINEAGE_WRITER_BATCH_BYTES", "1000")
    monkeypatch.setenv("LINEAGE_TOPIC_PREFIX", "x.")
    settings = read_settings()
    assert (settings.writer_group, settings.writer_batch_bytes) == ("another", 1000)
    assert settings.topics.edge == "x.lineage-edge"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LINEAGE_KAFKA", ""),
        ("LINEAGE_STORE", ""),
        ("LINEAGE_WRITER_PARALLEL", "none"),
        ("LINEAGE_OPENLINEAGE_URL", "there:5000"),
    ],
)
def test_what_is_missing_or_wrong_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "there:9092")
    monkeypatch.setenv("LINEAGE_STORE", "neo4j://there:7687")
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=name):
        read_settings()


def test_secrets_are_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA_SASL_PASSWORD", "s3cret")
    monkeypatch.setenv("LINEAGE_KAFKA_SECURITY_PROTOCOL", "s3cret")
    with pytest.raises(SettingsError) as caught:
        read_settings()
    assert "s3cret" not in str(caught.value)
    monkeypatch.delenv("LINEAGE_KAFKA_SECURITY_PROTOCOL")
    assert "s3cret" not in repr(WriterSettings())


def test_probes() -> None:
    metrics = Metrics()
    health = Health(metrics)

    async def ask() -> list[tuple[int, str]]:
        async def problems() -> dict[str, str]:
            return health.problems

        probes = Probes(metrics.registry, problems)
        port = await probes.start("127.0.0.1", 0)
        found = []
        async with aiohttp.ClientSession() as session:
            for path in ("healthz", "readyz", "metrics"):
                async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
                    found.append((answer.status, await answer.text()))
            for server in ("kafka", "store"):
                health.answers(server)
            async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                found.append((answer.status, await answer.text()))
        await probes.stop()
        return found

    healthy, unready, scraped, ready = asyncio.run(ask())
    assert healthy[0] == 200
    assert unready[0] == 503
    assert set(json.loads(unready[1])["problems"]) == {"kafka", "store"}
    assert "lineage_writer_ready 0.0" in scraped[1]
    assert ready == (200, '{"ready": true, "problems": {}}')
