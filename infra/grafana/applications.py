"""How complete the latest applications are (LINEAGE_API_METRICS_APPLICATIONS of the query API)."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana.panels import (
    Column,
    Limits,
    Query,
    build_dashboard,
    graph_panel,
    label_table,
    number_panel,
)
from infra.grafana.queries import highest

APP = "lineage_api_application"
KEYS = ("app", "name")
LABELS = ", ".join(KEYS)


def dashboard() -> Dashboard:
    """Several query APIs over one store tell the same: of each number the highest is shown."""
    return build_dashboard(
        "lineage-applications",
        "Applications",
        "The completeness of the latest applications.",
        number_panel(
            "Shown",
            "The latest applications.",
            "short",
            f"count({_application_metric('complete')})",
            span=6,
        ),
        number_panel(
            "Complete", "All of their lineage is there.", "short", _count("complete", 1), span=6
        ),
        number_panel(
            "Running",
            "More of their lineage is on its way.",
            "short",
            _count("final", 0),
            span=6,
        ),
        number_panel(
            "Incomplete",
            "Nothing is on its way any more, and something is missing: `lineage verify`.",
            "short",
            f"sum({_application_metric('final')} * (1 - {_application_metric('complete')}))",
            Limits(1, 5),
            span=6,
        ),
        label_table("Applications", "`lineage verify APP` gives the reasons.", KEYS, _columns()),
        graph_panel(
            "Blocks that are linked",
            "Share of the blocks that an application announced.",
            "percentunit",
            Query(_share("blocks", "linked"), "{{name}} {{app}}"),
            span=12,
        ),
        graph_panel(
            "Tasks that committed",
            "Share of the tasks that ran.",
            "percentunit",
            Query(_share("tasks", "committed"), "{{name}} {{app}}"),
            span=12,
        ),
    )


def _columns() -> list[Column]:
    return [
        Column(
            "Began", f"{_application_metric('started_timestamp_seconds')} * 1000", "dateTimeFromNow"
        ),
        Column("Complete", _application_metric("complete"), words=("no", "yes")),
        Column("Final", _application_metric("final"), words=("no", "yes")),
        Column("Tasks expected", _application_metric("tasks", 'state="expected"')),
        Column("committed", _application_metric("tasks", 'state="committed"')),
        Column("Blocks expected", _application_metric("blocks", 'state="expected"')),
        Column("written", _application_metric("blocks", 'state="written"')),
        Column("linked", _application_metric("blocks", 'state="linked"')),
        Column("Flows", _application_metric("flows")),
        Column("Unmatched positions", _application_metric("unmatched_positions")),
        Column("Dead letters", _application_metric("dead_letters")),
    ]


def _application_metric(metric: str, where: str = "") -> str:
    return highest(f"{APP}_{metric}", LABELS, where)


def _count(metric: str, value: int) -> str:
    return f"sum({_application_metric(metric)} == bool {value})"


def _share(metric: str, state: str) -> str:
    reached, expected = (
        _application_metric(metric, f'state="{state_label}"') for state_label in (state, "expected")
    )
    # An action over no partition expects none, and has all of them.
    return f"{reached} / clamp_min({expected}, 1)"
