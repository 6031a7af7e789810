"""Figures of the published evaluation, as published: on 32 CPUs, not measured here."""

from __future__ import annotations

from dataclasses import dataclass

MACHINE = "32 CPUs"


@dataclass(frozen=True)
class Published:
    """A figure of a captured job; ``field`` is the field of our rows that says the same."""

    benchmark: str
    input_bytes: int
    field: str
    value: float


PUBLISHED = (
    Published("wordcount", 500_000_000, "jobs_ratio", 4.0),
    Published("wordcount", 1_000_000_000, "jobs_ratio", 6.0),
    Published("wordcount", 500_000_000, "queryable_s", 2.4 * 3600),
    Published("wordcount", 500_000_000, "store_ratio", 42.0),
)
"""Times the job's own time; seconds of loading and linking; times the input's size."""
