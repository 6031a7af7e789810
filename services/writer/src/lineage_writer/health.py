"""Whether the servers that the writer needs answer, as last seen."""

from __future__ import annotations

from lineage_writer.metrics import Metrics


class Health:
    """The state that /readyz reports. Not ready until both servers have answered."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._problems = {"kafka": "not connected yet", "store": "not connected yet"}

    def answers(self, server: str) -> None:
        """``kafka`` or ``store`` works."""
        self._problems.pop(server, None)
        self._metrics.ready.set(self.ready)

    def fails(self, server: str, problem: str) -> bool:
        """It does not; True when that is news."""
        news = server not in self._problems
        self._problems[server] = problem
        self._metrics.ready.set(False)
        return news

    @property
    def ready(self) -> bool:
        """Whether records can be taken and stored."""
        return not self._problems

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong, by server."""
        return dict(self._problems)
