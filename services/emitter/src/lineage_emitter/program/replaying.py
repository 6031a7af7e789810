"""Running a program again from chosen rows of its sources, in the partitions where they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pyspark import RDD

from lineage_core.contract.region import Region
from lineage_emitter import scope
from lineage_emitter.errors import TracingError
from lineage_emitter.program.recipes import SourceRecipe, rebuild
from lineage_emitter.program.source_lines import LinesBySplit, rdd_of_lines
from lineage_emitter.worker.record_selection import (
    OrdinalsBySplit,
    RecordsAtOrdinals,
    RepairedRecords,
)

OrdinalsBySource = Mapping[str, OrdinalsBySplit]
"""Rows by source node."""


def select_rows(source: SourceRecipe, ordinals: OrdinalsBySplit) -> RDD[Any]:
    """Some rows of a source, in its partitions, as PySpark's own RDD.

    Partitions without any end at once.

    Raises:
        TracingError: the source gives its rows in another order each time.
    """
    _refuse_unrepeatable(source)
    with scope.suspended():
        return source.plain.mapPartitionsWithIndex(RecordsAtOrdinals(ordinals), True)


def replay_plain(
    goal: RDD[Any], rows: OrdinalsBySource, lines: Mapping[str, LinesBySplit]
) -> RDD[Any]:
    """``goal`` as plain PySpark makes it when the sources in ``rows`` hold just those rows.

    Other sources give all of their rows. ``lines``: of sources in ``rows``, whose rows are known, the rows themselves.

    Raises:
        TracingError: it is not known how an RDD on the way was made, or a source that is to be cut
            down gives its rows in another order each time.
    """

    def cut(rdd: RDD[Any], source: SourceRecipe) -> RDD[Any]:
        ordinals = rows.get(source.node, source.ordinals)
        if ordinals is None:
            return source.plain
        if source.node in lines:
            return rdd_of_lines(source.plain, lines[source.node])
        return select_rows(source, ordinals)

    with scope.suspended():
        return rebuild(goal, cut)


def replay_captured(goal: RDD[Any], rows: OrdinalsBySource) -> RDD[Any]:
    """As :func:`replay_plain`, captured: its rows trace to those of the very sources.

    Raises:
        TracingError: it is not known how an RDD on the way was made, or a source that is to be cut
            down gives its rows in another order each time.
    """

    def cut(rdd: RDD[Any], source: SourceRecipe) -> RDD[Any]:
        full_rdd = source.full_rdd or rdd
        ordinals = rows.get(source.node, source.ordinals)
        return (
            full_rdd
            if ordinals is None
            else cut_source(full_rdd, replace(source, ordinals=ordinals, full_rdd=full_rdd))
        )

    return rebuild(goal, cut)


def cut_source(full_rdd: Any, cut: SourceRecipe) -> RDD[Any]:
    """A captured source with the rows at ``cut.ordinals`` alone; they trace to those of ``full_rdd``.

    Raises:
        TracingError: the source gives its rows in another order each time.
    """
    assert cut.ordinals is not None
    _refuse_unrepeatable(cut)
    with scope.operator("replay"):
        node = full_rdd.session.nodes.register("operator", "replay", [full_rdd.node])
        rdd: RDD[Any] = full_rdd.pipe_function(RecordsAtOrdinals(cut.ordinals), True, node)
        rdd.recipe = cut  # type: ignore[attr-defined]
        return rdd


def repair_source(
    full_rdd: Any, source: SourceRecipe, ordinals: OrdinalsBySplit, function: Callable[[Any], Any]
) -> RDD[Any]:
    """A captured source with what a function gives in the place of the rows at ``ordinals`` (None: nothing).

    Raises:
        TracingError: the source gives its rows in another order each time.
    """
    _refuse_unrepeatable(source)
    with scope.operator("replay"):
        node = full_rdd.session.nodes.register("operator", "replay", [full_rdd.node])
        rdd: RDD[Any] = full_rdd.pipe_function(RepairedRecords(ordinals, function), True, node)
        return rdd


def _refuse_unrepeatable(source: SourceRecipe) -> None:
    if not source.repeatable:
        raise TracingError(
            f"node {source.node} may give its rows in another order each time: the very rows can't "
            "be read again; name another source (goBackAll) and this one is read whole"
        )


def exclude_rows(
    rows: OrdinalsBySource, excluded: OrdinalsBySource
) -> dict[str, dict[int, Region]]:
    """The rows without the excluded ones."""
    return {
        node: {
            split: region - excluded.get(node, {}).get(split, Region())
            for split, region in ordinals.items()
        }
        for node, ordinals in rows.items()
    }
