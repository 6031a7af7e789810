"""The HTTP API: how much is asked, how long answers take, and which are errors."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana.panels import (
    Limits,
    Query,
    build_dashboard,
    graph_panel,
    number_panel,
    quantile_panel,
)
from infra.grafana.queries import cores, increase, memory, quantile, rate

API = "lineage_api"
API_ROUTES = 'route!~"/(healthz|readyz|metrics)"'
"""What people and tools ask for, not what watches the service."""
FAILURES = 'status=~"5.."'
MARKER = f"{API}_errors_total"
"""A metric that every query API has."""


def dashboard() -> Dashboard:
    """Of all replicas together."""
    return build_dashboard(
        "lineage-query-api",
        "Query API",
        "Requests, answers and errors of the query API.",
        number_panel(
            "Requests",
            "A second.",
            "reqps",
            rate(f"{API}_requests_total", where=API_ROUTES),
            span=8,
        ),
        number_panel(
            "Answer, p95",
            "Of all routes.",
            "s",
            quantile(0.95, f"{API}_request_seconds", where=API_ROUTES),
            Limits(0.5, 2),
            span=8,
        ),
        number_panel(
            "Failed",
            "Answers that are the service's own fault, in all that is shown.",
            "short",
            increase(f"{API}_errors_total", where=FAILURES),
            Limits(1, 10),
            span=8,
        ),
        "Requests",
        graph_panel(
            "Requests",
            "A second, by route.",
            "reqps",
            Query(
                rate(f"{API}_requests_total", "method, route", API_ROUTES), "{{method}} {{route}}"
            ),
            span=12,
        ),
        graph_panel(
            "Errors",
            "Answers a second. 413: too wide a question; 429: too many of one caller; 5xx: the service.",
            "reqps",
            Query(rate(f"{API}_errors_total", "status"), "{{status}}"),
            span=12,
        ),
        "Time",
        quantile_panel("Answers", "Of all routes.", f"{API}_request_seconds", API_ROUTES, span=12),
        graph_panel(
            "Answers by route, p95",
            "The routes whose answers take longest.",
            "s",
            Query(quantile(0.95, f"{API}_request_seconds", "route", API_ROUTES), "{{route}}"),
            span=12,
        ),
        "Processes",
        graph_panel(
            "Processor", "Cores in use.", "short", Query(cores(MARKER), "{{instance}}"), span=12
        ),
        graph_panel("Memory", "Resident.", "bytes", Query(memory(MARKER), "{{instance}}"), span=12),
    )
