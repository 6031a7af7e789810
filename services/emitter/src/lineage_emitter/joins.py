"""Joins: PySpark's own composition, with the position of each value beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.operators import JoinSides, TagSide

if TYPE_CHECKING:
    from lineage_emitter.rdd import LineageRDD


def join(
    left: LineageRDD,
    right: LineageRDD,
    num_partitions: int | None,
    left_outer: bool,
    right_outer: bool,
) -> RDD[Any]:
    """Tag both sides, unite, group by key, pair up (``pyspark.join``)."""
    from lineage_emitter.rdd import LineagePipelinedRDD

    session, sc = left.session, left.ctx
    sides = []
    for number, (name, rdd) in enumerate((("left", left), ("right", right)), start=1):
        node = session.register("shuffle", "join", [rdd.node], description=f"{name} side")
        tagged = rdd.pipe_function(TagSide(node.name, number), True, node).ending(sc.serializer)
        node.map_side = tagged
        sides.append((node, tagged))
    (left_node, left_side), (right_node, right_side) = sides
    with scope.suspended():
        united = RDD.union(left_side, right_side)
        grouped = united.groupByKey(num_partitions)
    node = session.register("operator", "join", [left_node, right_node])
    read = JoinSides(
        session.config, node.name, left_node.name, right_node.name, left_outer, right_outer
    )
    return LineagePipelinedRDD(grouped, read, True, session, node)
