"""Lines of text files that a replay needs, read from the files by the program itself.

Spark would read whole partitions for them. They are the lines that the job read: their checksums say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

from pyspark import RDD
from pyspark.serializers import UTF8Deserializer

from lineage_core.tracing.trace_result import NodeItems
from lineage_emitter.program.lookups import LineageView
from lineage_emitter.program.recipes import SourceRecipe
from lineage_emitter.worker.record_selection import OrdinalsBySplit, records_of_lists
from lineage_query.rows.cut_texts import is_cut
from lineage_store.paths import RowsError

LinesBySplit: TypeAlias = Mapping[int, list[str]]

LINES_MAX = 20_000
"""More are read by Spark, in parallel."""
REPLACEMENT = "\ufffd"
"""What stands for bytes that are no text: Java and Python may take other numbers of them for one."""


def lines_of(
    view: LineageView, source: SourceRecipe, ordinals: OrdinalsBySplit
) -> LinesBySplit | None:
    """The rows of a source at some ordinals, by split; None where they are no lines of text that surely are those which the job read."""
    deserializer: Any = getattr(source.plain, "_jrdd_deserializer", None)
    if type(deserializer) is not UTF8Deserializer or not deserializer.use_unicode:
        return None
    if sum(region.count for region in ordinals.values()) > LINES_MAX:
        return None
    units = {split.unit for split in view.graph.splits(source.node)}
    if units != {"line"}:
        return None
    composer = view.composer()
    lines: dict[int, list[str]] = {}
    try:
        for split, region in ordinals.items():
            space = f"{source.node}#{split}"
            group = composer.group(NodeItems(source.node, {space: region}), None, texts=True)
            texts = [item.text for item in group.items if item.binding == "checksum"]
            lines[split] = [text for text in texts if _is_whole(text)]
            if len(lines[split]) != region.count:
                return None
    except RowsError:
        return None
    return lines


def _is_whole(text: str | None) -> TypeGuard[str]:
    return text is not None and not is_cut(text) and REPLACEMENT not in text


def rdd_of_lines(plain: RDD[Any], lines: LinesBySplit) -> RDD[Any]:
    """The lines as an RDD with the partitions of the source that gave them."""
    partitions = plain.getNumPartitions()
    # One list for each partition.
    slices = [lines.get(split, []) for split in range(partitions)]
    return plain.ctx.parallelize(slices, partitions).mapPartitions(records_of_lists, True)
