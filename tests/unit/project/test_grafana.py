"""Dashboards, alerts, runbooks and docs say the same, and the rules pass their own tests."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from infra.grafana import __main__ as dashboard_files
from infra.grafana.queries import SELECTED
from tests.support.grafana import (
    RULE_TESTS,
    RULES,
    alerts,
    dashboards,
    family,
    metrics_in,
    panels,
    targets,
)
from tests.support.prometheus import program
from tests.support.reference_pages import documented_metrics

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
DOCUMENTED = {
    name for title in ("Linker", "Writer", "Query API") for name in documented_metrics(title)
}


def test_the_files_are_what_the_code_makes() -> None:
    assert dashboard_files.stale(dashboard_files.files()) == [], "run `make dashboards`"


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda one: one["uid"])
def test_a_dashboard_asks_the_source_that_is_chosen(dashboard: dict[str, Any]) -> None:
    names = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert names == ["datasource", "namespace", "job"]
    shown = panels(dashboard)
    assert {panel["datasource"]["uid"] for panel in shown} == {"${datasource}"}
    assert all(panel["description"] for panel in shown)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_every_query_can_be_narrowed() -> None:
    for target in targets():
        parts = re.findall(r"(?:lineage|process)_[a-z_]+(\{[^}]*)?", target.expr)
        assert parts, target
        assert all(part.startswith("{" + SELECTED) for part in parts), target


def test_metrics_that_are_asked_for_are_documented() -> None:
    expressions = [target.expr for target in targets()] + [alert["expr"] for alert in alerts()]
    asked = {family(metric) for one in expressions for metric in metrics_in(one)}
    assert {one for one in asked if not one.startswith("process_")} <= DOCUMENTED


def test_every_alert_says_what_to_do() -> None:
    listed = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    guide = (ROOT / "docs" / "guide" / "monitoring.md").read_text(encoding="utf-8")
    used = set()
    for alert in alerts():
        name, notes = alert["alert"], alert["annotations"]
        assert alert["labels"]["severity"] in {"warning", "critical"}, name
        assert set(notes) == {"summary", "description", "runbook_url"}, name
        runbook = ROOT / notes["runbook_url"]
        assert runbook.parent == RUNBOOKS, name
        assert name in runbook.read_text(encoding="utf-8").splitlines()[0], name
        for page in (listed, guide):
            assert f"`{name}`" in page, name
        used.add(runbook.name)
    assert used == {path.name for path in RUNBOOKS.glob("*.md")} - {"README.md"}


def test_every_alert_is_tested_both_ways() -> None:
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for path in RULE_TESTS:
        for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]:
            for one in test["alert_rule_test"]:
                found["exp_alerts" in one].add(one["alertname"])
    names = {alert["alert"] for alert in alerts()}
    assert found == {True: names, False: names}


# It needs a program of the servers that tests start.
@pytest.mark.integration
@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", *RULES), ("test", "rules", *RULE_TESTS)],
    ids=lambda one: one[0],
)
def test_promtool_finds_nothing(arguments: tuple[str | Path, ...]) -> None:
    done = subprocess.run(
        [program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
