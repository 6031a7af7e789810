"""Names of variables of the environment, which all parts of the sandbox know. It imports nothing."""

from __future__ import annotations

SANDBOX, NETWORK, ROOTS = (
    "LINEAGE_TRACING_SANDBOX",
    "LINEAGE_TRACING_NETWORK",
    "LINEAGE_TRACING_ROOTS",
)
PORTS = "LINEAGE_TRACING_PORTS"
"""Ports that daemons of workers may listen on; with commas."""
WORKERS = "LINEAGE_TRACING_WORKERS"
"""The folder that workers may write to."""
NAMES = "LINEAGE_TRACING_WITHHELD"
"""Names of variables that workers are not given; with commas."""
LIBRARIES = "LINEAGE_TRACING_LIBRARIES"
"""Libraries that a daemon loads before it forks workers; with commas."""
