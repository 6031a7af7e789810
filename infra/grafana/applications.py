"""How complete the latest applications are (LINEAGE_API_METRICS_APPLICATIONS of the query API)."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana.panels import Column, Limits, Query, board, graph, number, rows
from infra.grafana.queries import highest

APP = "lineage_api_application"
KEYS = ("app", "name")
BY = ", ".join(KEYS)


def dashboard() -> Dashboard:
    """Several query APIs over one store tell the same: of each number the highest is shown."""
    return board(
        "lineage-applications",
        "Applications",
        "The completeness of the latest applications.",
        number("Shown", "The latest applications.", "short", f"count({_of('complete')})", span=6),
        number(
            "Complete", "All of their lineage is there.", "short", _count("complete", 1), span=6
        ),
        number(
            "Running",
            "More of their lineage is on its way.",
            "short",
            _count("final", 0),
            span=6,
        ),
        number(
            "Incomplete",
            "Nothing is on its way any more, and something is missing: `lineage verify`.",
            "short",
            f"sum({_of('final')} * (1 - {_of('complete')}))",
            Limits(1, 5),
            span=6,
        ),
        rows("Applications", "`lineage verify APP` gives the reasons.", KEYS, _columns()),
        graph(
            "Blocks that are linked",
            "Share of the blocks that an application announced.",
            "percentunit",
            Query(_share("blocks", "linked"), "{{name}} {{app}}"),
            span=12,
        ),
        graph(
            "Tasks that committed",
            "Share of the tasks that ran.",
            "percentunit",
            Query(_share("tasks", "committed"), "{{name}} {{app}}"),
            span=12,
        ),
    )


def _columns() -> list[Column]:
    return [
        Column("Began", f"{_of('started_timestamp_seconds')} * 1000", "dateTimeFromNow"),
        Column("Complete", _of("complete"), words=("no", "yes")),
        Column("Final", _of("final"), words=("no", "yes")),
        Column("Tasks expected", _of("tasks", 'state="expected"')),
        Column("committed", _of("tasks", 'state="committed"')),
        Column("Blocks expected", _of("blocks", 'state="expected"')),
        Column("written", _of("blocks", 'state="written"')),
        Column("linked", _of("blocks", 'state="linked"')),
        Column("Flows", _of("flows")),
        Column("Unmatched positions", _of("unmatched_positions")),
        Column("Dead letters", _of("dead_letters")),
    ]


def _of(metric: str, where: str = "") -> str:
    return highest(f"{APP}_{metric}", BY, where)


def _count(metric: str, value: int) -> str:
    return f"sum({_of(metric)} == bool {value})"


def _share(metric: str, state: str) -> str:
    done, expected = (_of(metric, f'state="{one}"') for one in (state, "expected"))
    # An action over no partition expects none, and has all of them.
    return f"{done} / clamp_min({expected}, 1)"
