"""What tasks report to an accumulator, without one."""

from __future__ import annotations

from typing import Any


class Added:
    """In the place of an accumulator."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def add(self, reports: list[dict[str, Any]]) -> None:
        self.reports.extend(reports)
