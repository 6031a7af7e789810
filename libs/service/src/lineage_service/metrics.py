"""The registry that a service's metrics are in."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, ProcessCollector


def new_registry() -> CollectorRegistry:
    """A new registry, which includes metrics of the process (``process_*``)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry
