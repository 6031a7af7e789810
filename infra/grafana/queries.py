"""PromQL as the dashboards use it: every query may be narrowed to a namespace and a job."""

from __future__ import annotations

SELECTED = 'namespace=~"$namespace",job=~"$job"'
"""What the two variables at the top of each dashboard choose; All also matches where there is none."""
RATE_S = "$__rate_interval"
"""Grafana's own choice: never shorter than four scrapes."""


def series(metric: str, where: str = "") -> str:
    """A metric of what is chosen."""
    return f"{metric}{{{SELECTED}{',' if where else ''}{where}}}"


def total(metric: str, by: str = "", where: str = "") -> str:
    """The sum of a gauge."""
    return f"sum{_by(by)}({series(metric, where)})"


def highest(metric: str, by: str = "", where: str = "") -> str:
    """The highest value of a gauge: of instances that report the same, the value of one of them."""
    return f"max{_by(by)}({series(metric, where)})"


def lowest(metric: str, by: str = "") -> str:
    """The lowest of a gauge."""
    return f"min{_by(by)}({series(metric)})"


def rate(counter: str, by: str = "", where: str = "") -> str:
    """A second."""
    return f"sum{_by(by)}(rate({series(counter, where)}[{RATE_S}]))"


def increase(counter: str, by: str = "", where: str = "") -> str:
    """How many in all that is shown."""
    return f"sum{_by(by)}(increase({series(counter, where)}[$__range]))"


def quantile(
    share: float, histogram: str, by: str = "", where: str = "", over: str = RATE_S
) -> str:
    """The value that a share of the observations stays below."""
    group = f" by (le{', ' if by else ''}{by}) "
    rates = f"sum{group}(rate({series(f'{histogram}_bucket', where)}[{over}]))"
    return f"histogram_quantile({share:g}, {rates})"


def cores(marker: str) -> str:
    """Processor time of the processes that have a metric, by instance."""
    return _of_marked_processes(f"rate({series('process_cpu_seconds_total')}[{RATE_S}])", marker)


def memory(marker: str) -> str:
    """Resident bytes of the processes that have a metric, by instance."""
    return _of_marked_processes(series("process_resident_memory_bytes"), marker)


def _of_marked_processes(samples: str, marker: str) -> str:
    own = f"{samples} and on (namespace, job, instance) {series(marker)}"
    return f"sum by (job, instance) ({own})"


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else ""
