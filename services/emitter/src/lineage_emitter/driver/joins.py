"""Joins: PySpark's own composition, with the position of each value beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.worker.join_by_key import JoinSidesByKey
from lineage_emitter.worker.operators import JoinSides, SubtractSides, TagSide

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node


def join(
    left: CapturedRDD,
    right: CapturedRDD,
    num_partitions: int | None,
    left_outer: bool,
    right_outer: bool,
) -> RDD[Any]:
    """Tag both sides, unite, group by key, pair up (``pyspark.join``)."""
    session = left.session
    grouped, left_node, right_node = _tagged(left, right, num_partitions, "join")
    node = session.nodes.register("operator", "join", [left_node, right_node])
    sides = JoinSidesByKey if node.detail.by_key else JoinSides
    read = sides(
        session.config, node.name, left_node.name, right_node.name, left_outer, right_outer
    )
    return left.piped(grouped, node.detail.observe(read), True, node)


def subtract_by_key(left: CapturedRDD, right: CapturedRDD, num_partitions: int | None) -> RDD[Any]:
    """``subtractByKey``: as a join, of which the left rows without a partner stay."""
    session = left.session
    grouped, left_node, right_node = _tagged(left, right, num_partitions, "subtractByKey")
    node = session.nodes.register("operator", "subtractByKey", [left_node, right_node])
    read = SubtractSides(session.config, node.name, left_node.name)
    return left.piped(grouped, node.detail.observe(read), True, node)


def _tagged(
    left: CapturedRDD, right: CapturedRDD, num_partitions: int | None, op: str
) -> tuple[RDD[Any], Node, Node]:
    """Both sides' records by key, each with its side and position; the sides' nodes."""
    session, sc = left.session, left.ctx
    sides = []
    for number, (name, rdd) in enumerate((("left", left), ("right", right)), start=1):
        node = session.nodes.register("shuffle", op, [rdd.node], description=f"{name} side")
        tagged = rdd.pipe_function(TagSide(node.name, number), True, node).ending(sc.serializer)
        node.map_side = tagged
        sides.append((node, tagged))
    (left_node, left_side), (right_node, right_side) = sides
    with scope.suspended():
        united = RDD.union(left_side, right_side)
        return united.groupByKey(num_partitions), left_node, right_node
