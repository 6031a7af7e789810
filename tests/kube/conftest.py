"""Tests on a cluster: `make test-kube`. They take kubectl's current context, and its images must be there."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from tests.kube.cluster import Namespace, namespace
from tests.kube.release import Release, installed

_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cluster")
    group.addoption("--kills", type=int, default=6, help="pods that the soak kills (default: 6)")
    group.addoption("--upgrades", type=int, default=1, help="upgrades among them (default: 1)")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Beside a failure stands what its pods said, before their namespace goes."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            space = value.namespace if isinstance(value, Release) else value
            if isinstance(space, Namespace):
                report.sections.append((f"namespace {space.name}", space.report()))
    return report  # type: ignore[return-value]


def _new_namespace(name: str) -> Iterator[Namespace]:
    # The number of the process: what a run that was killed left behind is in nobody's way.
    with namespace(f"test-{name}-{os.getpid()}-{next(_numbers)}") as made:
        yield made


@pytest.fixture
def space() -> Iterator[Namespace]:
    """A namespace of this test's own."""
    yield from _new_namespace("own")


@pytest.fixture(scope="session")
def release() -> Iterator[Release]:
    """The chart with its try-out servers, one for the whole run."""
    for made in _new_namespace("release"):
        with installed(made) as found:
            yield found
