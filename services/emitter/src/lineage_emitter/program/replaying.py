"""Running a program again from chosen rows of its sources, in the partitions where they were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark import RDD

from lineage_core.contract.region import Region
from lineage_emitter import scope
from lineage_emitter.errors import TracingError
from lineage_emitter.program.recipes import Source, made_again
from lineage_emitter.worker.record_selection import OrdinalsBySplit, RecordsAtOrdinals

Rows = Mapping[str, OrdinalsBySplit]
"""Rows by source node."""


def rows_alone(source: Source, kept: OrdinalsBySplit) -> RDD[Any]:
    """Some rows of a source, in its partitions, as PySpark's own RDD.

    Partitions without any end at once.

    Raises:
        TracingError: the source gives its rows in another order each time.
    """
    _refuse_unlasting(source)
    with scope.suspended():
        return source.plain.mapPartitionsWithIndex(RecordsAtOrdinals(kept), True)


def replayed(goal: RDD[Any], rows: Rows) -> RDD[Any]:
    """``goal`` as plain PySpark makes it when the sources in ``rows`` hold just those rows.

    Other sources keep all of theirs.

    Raises:
        TracingError: it is not known how an RDD on the way was made, or a source that is to be cut
            down gives its rows in another order each time.
    """

    def cut(rdd: RDD[Any], source: Source) -> RDD[Any]:
        kept = rows.get(source.node, source.kept)
        return source.plain if kept is None else rows_alone(source, kept)

    with scope.suspended():
        return made_again(goal, cut)


def replayed_with_lineage(goal: RDD[Any], rows: Rows) -> RDD[Any]:
    """As :func:`replayed`, captured: its rows trace to those of the very sources.

    Raises:
        TracingError: it is not known how an RDD on the way was made, or a source that is to be cut
            down gives its rows in another order each time.
    """

    def cut(rdd: RDD[Any], source: Source) -> RDD[Any]:
        whole = source.whole or rdd
        kept = rows.get(source.node, source.kept)
        return whole if kept is None else _captured(whole, replace(source, kept=kept, whole=whole))

    return made_again(goal, cut)


def _captured(whole: Any, cut: Source) -> RDD[Any]:
    assert cut.kept is not None
    _refuse_unlasting(cut)
    with scope.operator("replay"):
        node = whole.session.nodes.register("operator", "replay", [whole.node])
        rdd: RDD[Any] = whole.pipe_function(RecordsAtOrdinals(cut.kept), True, node)
        rdd.recipe = cut  # type: ignore[attr-defined]
        return rdd


def _refuse_unlasting(source: Source) -> None:
    if not source.lasting:
        raise TracingError(
            f"node {source.node} may give its rows in another order each time: the very rows can't "
            "be read again; name another source (goBackAll) and this one is read whole"
        )


def without(rows: Rows, left_out: Rows) -> dict[str, dict[int, Region]]:
    """Rows but for those that are left out."""
    return {
        node: {
            split: region - left_out.get(node, {}).get(split, Region())
            for split, region in kept.items()
        }
        for node, kept in rows.items()
    }
