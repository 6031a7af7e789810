"""What can be said of infra/compose without a container engine."""

import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml  # type: ignore[import-untyped]

from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from lineage_query_api.settings import read_settings

COMPOSE = Path(__file__).resolve().parents[3] / "infra" / "compose"
NATIVE = COMPOSE.parent / "native"
KNOWN_KEYS = {
    *(
        "image",
        "environment",
        "command",
        "entrypoint",
        "ports",
        "volumes",
        "secrets",
        "healthcheck",
    ),
    *("depends_on", "mem_limit", "cap_drop", "security_opt", "restart", "stop_grace_period"),
    *("build", "user", "read_only", "tmpfs"),
}
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period", "start_interval"}

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def test_keys_are_those_of_the_compose_specification(compose: dict[str, Any]) -> None:
    assert set(compose) == {"name", "services", "secrets", "volumes"}
    for service in compose["services"].values():
        assert set(service) <= KNOWN_KEYS
        assert set(service.get("healthcheck", {})) <= HEALTH_KEYS
        # Compose takes text only: a bare number or truth value reads differently from what is meant.
        for value in service.get("environment", {}).values():
            assert isinstance(value, str)


def test_servers_are_bounded_checked_and_on_loopback(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        of_others = re.fullmatch(r"[a-z/0-9]+:\d+\.\d+\.\d+(-\w+)?@sha256:\w+", service["image"])
        assert of_others or "build" in service
        assert service["mem_limit"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        if name == "topics":
            assert service["depends_on"] == {"kafka": {"condition": "service_healthy"}}
            continue
        assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
        assert [port.split(":")[0] for port in service["ports"]] == ["127.0.0.1"]
        (volume,) = service["volumes"]
        assert volume.split(":")[0] in compose["volumes"] or volume.endswith(":ro")
        assert set(service.get("secrets", ())) <= set(compose["secrets"])


def test_versions_are_the_same_wherever_they_are_pinned(compose: dict[str, Any]) -> None:
    images = {
        name: service["image"].partition("@")[0]
        for name, service in compose["services"].items()
        if "build" not in service
    }
    assert images["topics"] == images["kafka"]
    assert images["kafka"] == f"apache/kafka:{_version('kafka', 'kafka_2.13')}"
    assert images["neo4j"] == f"neo4j:{_version('neo4j', 'neo4j')}-community"


def test_the_api_is_built_from_here_and_starts_with_what_it_is_given(
    compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = compose["services"]["query-api"]
    context = (COMPOSE / api["build"]["context"]).resolve()
    assert (context / "services" / "query-api" / "pyproject.toml").exists()
    assert api["build"]["dockerfile"] == "services/query-api/Dockerfile"
    assert not api["user"].startswith(("0", "root"))
    assert api["read_only"]
    assert api["cap_drop"] == ["ALL"]
    assert {"neo4j", "kafka"} == set(api["depends_on"])
    given = api["environment"]
    for name in list(os.environ):
        if name.startswith("LINEAGE_"):
            monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = read_settings()
    assert (settings.on_loopback, settings.is_open, settings.api_port) == (False, False, 8484)
    for path in (given["LINEAGE_API_TOKENS"], given["LINEAGE_NEO4J_PASSWORD_FILE"]):
        assert path.removeprefix("/run/secrets/") in api["secrets"]
    program = api["healthcheck"]["test"]
    assert program[:3] == ["CMD", "python", "-c"]
    compile(program[3], "healthcheck", "exec")


def test_topics_are_those_of_the_pipeline(compose: dict[str, Any]) -> None:
    (script,) = compose["services"]["topics"]["command"]
    made = re.findall(r"^make (\S+) (\S+)$", script, re.MULTILINE)
    topics = Topics()
    assert {name for name, _ in made} == set(topics.all())
    assert dict(made)[topics.flow] == dict(made)[topics.edge] == "${PARTITIONS:-4}"
    assert f"max.message.bytes={RECORD_BYTES_MAX}" in script
    environment = compose["services"]["kafka"]["environment"]
    assert environment["KAFKA_MESSAGE_MAX_BYTES"] == str(RECORD_BYTES_MAX)


def _version(name: str, artifact: str) -> str:
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    pom = ElementTree.parse(NATIVE / name / "pom.xml")
    (found,) = [
        dependency.findtext("m:version", namespaces=space)
        for dependency in pom.iterfind("m:dependencies/m:dependency", space)
        if dependency.findtext("m:artifactId", namespaces=space) == artifact
    ]
    assert found
    return found
