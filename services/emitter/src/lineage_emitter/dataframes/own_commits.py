"""Which commits to tables of Delta Lake and Iceberg an action made: observed in the thread that runs it.

Other programs, and other threads of this one, commit to the same tables meanwhile, and an action of no rows may commit nothing. What was
there before and after an action does not say which commits are its own: both libraries name a commit to an observer in its thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.clientserver import ClientServer
from pyspark import SparkContext

from lineage_emitter.dataframes.plan_text import compiled

_DELTA, _ICEBERG = "lineage.DeltaTransactions", "lineage.IcebergSnapshots"
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class OwnCommits:
    """What one thread did while it was observed.

    ``transactions``: the ids of the transactions of Delta Lake that it began, committed or not, by the table's path; None: not known.
    ``snapshots``: the ids of the snapshots of Iceberg that it made, in the table or not; None: not known.
    """

    transactions: Mapping[str, frozenset[str]] | None = None
    snapshots: frozenset[int] | None = None


@contextlib.contextmanager
def observed(*, with_delta: bool, with_iceberg: bool) -> Iterator[OwnCommits]:
    """What the body commits; all of it is known behind the body.

    Args:
        with_delta: whether to observe Delta Lake, if it is there.
        with_iceberg: the same of Iceberg.
    """
    commits = OwnCommits()
    # Without a thread of Java for each one of Python, others may run what this thread calls.
    is_possible = isinstance(_gateway(), ClientServer)
    transactions = _begun(_DELTA) if with_delta and is_possible else None
    snapshots = _begun(_ICEBERG) if with_iceberg and is_possible else None
    try:
        yield commits
    finally:
        if transactions is not None:
            with _suppressed():
                commits.transactions = transactions_of(transactions.end())
        if snapshots is not None:
            with _suppressed():
                commits.snapshots = frozenset(map(int, snapshots.end().split()))


def _gateway() -> Any:
    context = SparkContext._active_spark_context
    return None if context is None else context._gateway


def _begun(name: str) -> Any:
    """An observer of this thread, where it can be observed."""
    with _suppressed():
        helper = compiled(name)
        return helper.begin() or helper
    return None


@contextlib.contextmanager
def _suppressed() -> Iterator[None]:
    # The library may be missing, or another version: then it is not known which commits are the action's own.
    try:
        yield
    except Exception as problem:
        logger.debug("commits can't be observed: %s", problem)


def transactions_of(text: str) -> Mapping[str, frozenset[str]]:
    """The ids of transactions by the path of their table, of a line for each: the id, a blank and the path."""
    ids = defaultdict[str, set[str]](set)
    for line in filter(None, text.split("\n")):
        number, _, path = line.partition(" ")
        ids[path].add(number)
    return {path: frozenset(numbers) for path, numbers in ids.items()}
