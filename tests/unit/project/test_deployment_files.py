"""The files of a deployment agree with each other: chart, schema of its values, skaffold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from lineage_linker.settings import LinkerSettings
from lineage_query_api.settings import QueryApiSettings
from lineage_writer.settings import WriterSettings

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts/lineage-master"


@pytest.fixture(scope="module")
def values() -> Any:
    return yaml.safe_load((CHART / "values.yaml").read_text())


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas of objects in a schema, with where they are."""
    if isinstance(schema, list):
        schema = dict(enumerate(schema))
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield path, schema
        for name, part in schema.items():
            yield from objects(part, f"{path}/{name}")


def test_every_object_of_the_values_is_closed() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    # Of labels and the like, names are free; what Kubernetes checks itself is passed on.
    open_ones = {path for path, one in objects(schema) if "additionalProperties" not in one}
    assert open_ones == {"/$defs/kubernetesObject", "/properties/global"}


def settings_of(model: type[LinkerSettings | WriterSettings | QueryApiSettings]) -> set[str]:
    return {f"LINEAGE_{name.upper()}" for name in model.model_fields}


def test_variables_of_the_chart_are_settings_of_the_services() -> None:
    """A name that is mistyped would be ignored, and the default would stand."""
    neo4j = {f"LINEAGE_NEO4J_{name}" for name in ("USER", "PASSWORD_FILE", "CA_FILE")}
    known = {
        "LINEAGE_CACHE",
        "LINEAGE_OPENLINEAGE_API_KEY_FILE",
        *neo4j,
        *settings_of(LinkerSettings),
        *settings_of(WriterSettings),
        *settings_of(QueryApiSettings),
    }
    names = set()
    for template in CHART.glob("templates/*"):
        if template.name != "test.yaml":
            for words in template.read_text().split("name: LINEAGE_")[1:]:
                names.add("LINEAGE_" + words.partition(",")[0].split()[0])
    assert len(names) > 30
    assert names <= known


def test_skaffold_builds_what_the_chart_runs(values: Any) -> None:
    skaffold = yaml.safe_load((ROOT / "skaffold.yaml").read_text())
    assert skaffold["apiVersion"] == "skaffold/v4beta13"
    built = [one["image"] for one in skaffold["build"]["artifacts"]]
    run = [values[part]["image"]["repository"] for part in ("linker", "writer", "queryApi", "test")]
    assert sorted(built) == sorted(run)

    (release,) = skaffold["deploy"]["helm"]["releases"]
    for image in built:
        part = next(
            part
            for part, one in values.items()
            if part in {"linker", "writer", "queryApi", "test"}
            and one["image"]["repository"] == image
        )
        name = image.replace("/", "_").replace("-", "_")
        given = release["setValueTemplates"]
        assert given[f"{part}.image.repository"] == f"{{{{.IMAGE_REPO_{name}}}}}"
        assert given[f"{part}.image.tag"] == f"{{{{.IMAGE_TAG_{name}}}}}"


def test_skaffold_names_files_that_are_there() -> None:
    skaffold = yaml.safe_load((ROOT / "skaffold.yaml").read_text())
    (release,) = skaffold["deploy"]["helm"]["releases"]
    assert (ROOT / release["chartPath"] / "Chart.yaml").exists()
    for file in release["valuesFiles"]:
        assert (ROOT / file).exists(), file
    for artifact in skaffold["build"]["artifacts"]:
        assert (ROOT / artifact["docker"]["dockerfile"]).exists(), artifact
        for one in artifact.get("sync", {}).get("manual", ()):
            assert list(ROOT.glob(one["src"])), one["src"]
            assert one["src"].startswith(one["strip"]), one
    # The profiles take away the file of the development loop, and no other.
    assert release["valuesFiles"][1] == "infra/skaffold/dev.yaml"
    for profile in skaffold["profiles"]:
        assert profile["patches"] == [
            {"op": "remove", "path": "/deploy/helm/releases/0/valuesFiles/1"}
        ]


def test_the_development_loop_starts_each_service(values: Any) -> None:
    dev = yaml.safe_load((ROOT / "infra/skaffold/dev.yaml").read_text())
    modules = {part: one["extraEnv"][0]["value"] for part, one in dev.items()}
    assert modules == {
        "linker": LinkerSettings.__module__.split(".")[0],
        "writer": WriterSettings.__module__.split(".")[0],
        "queryApi": QueryApiSettings.__module__.split(".")[0],
    }
