"""Dashboards and alerts as the repository holds them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

GRAFANA = Path(__file__).resolve().parents[2] / "infra" / "grafana"
RULES = sorted((GRAFANA / "alerts").glob("*.yaml"))
RULE_TESTS = sorted((GRAFANA / "alert-tests").glob("*.yaml"))
_METRIC = re.compile(r"\b(?:lineage|process)_[a-z_]+\b")


class Target(NamedTuple):
    """A query of a panel."""

    dashboard: str
    panel: str
    ref: str
    expr: str


def dashboards() -> list[dict[str, Any]]:
    """All of them as they are imported."""
    files = sorted((GRAFANA / "dashboards").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Panels that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def targets() -> Iterator[Target]:
    """Every query of every panel."""
    for dashboard in dashboards():
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Target(dashboard["uid"], panel["title"], target["refId"], target["expr"])


def alerts() -> list[dict[str, Any]]:
    """Every alerting rule."""
    loaded = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULES]
    return [rule for one in loaded for group in one["groups"] for rule in group["rules"]]


def metrics_in(expression: str) -> set[str]:
    """Names of our metrics in an expression."""
    return set(_METRIC.findall(expression))


def family(metric: str) -> str:
    """The name that the documentation has of it: a histogram's for its parts."""
    return re.sub(r"_(bucket|count|sum)$", "", metric)
