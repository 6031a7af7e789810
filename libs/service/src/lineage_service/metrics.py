"""The registry that a service's metrics are in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector


def new_registry() -> CollectorRegistry:
    """A registry of its own, which tells of the process (``process_*``), too."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry
