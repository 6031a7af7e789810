"""What docs/reference says, to be held against the code."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

REFERENCE = Path(__file__).resolve().parents[2] / "docs/reference"


def section(page: str, title: str) -> list[str]:
    """Rows of the table below a heading of a page."""
    text = (REFERENCE / page).read_text(encoding="utf-8")
    (found,) = (part for part in text.split("\n## ") if part.startswith(title))
    return [line for line in found.splitlines() if line.startswith("| `")]


def documented_metrics(title: str) -> set[str]:
    """Names of the metrics below a heading."""
    return {line.split("`")[1] for line in section("metrics.md", title)}


def metric_names(registry: CollectorRegistry) -> set[str]:
    """Names of all metrics of ours, as a scrape shows them."""
    names = {
        metric.name + ("_total" if metric.type == "counter" else "")
        for metric in registry.collect()
    }
    return {name for name in names if not name.startswith("process_")}
