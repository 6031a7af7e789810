"""The counts of the lake for the completeness verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Register
from lineage_core.contract.verdict import StoreCounts
from lineage_store.inexact_reasons import REASON_CHARS_MAX, REASONS_MAX, Reasons, read_reasons
from lineage_store.lake.application import (
    blocks_table,
    messages_of,
    reasons_of,
    recipe_bodies,
    summary_of,
    tasks_of,
    unmatched_of,
    visible,
)
from lineage_store.lake.arrivals import arrivals_of
from lineage_store.lake.arrow import int64_of, mask_of, pc
from lineage_store.lake.columns import BLOCK_ID, Kind
from lineage_store.lake.files import Files, LakeReader, Lookup, rows_of
from lineage_store.records import NodeCounts
from lineage_store.rooting import is_root

_LOW_BITS = (1 << 32) - 1


def count_nodes(reader: LakeReader, files: Files) -> Mapping[str, NodeCounts]:
    """What the blocks of each node hold."""

    def compute(of: Files) -> dict[str, NodeCounts]:
        rows = blocks_table(reader, of, ("rows", "associations"))
        if not rows.num_rows:
            return {}
        # Arrow's groups would import pandas.
        nodes = rows["node"].combine_chunks().dictionary_encode()
        codes = np.from_dlpack(nodes.indices)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        associations = int64_of(rows["associations"])[order]
        # A sum of 64-bit integers may overflow: it is taken in two halves.
        halves = (
            np.add.reduceat(half, starts).tolist()
            for half in (associations >> 32, associations & _LOW_BITS)
        )
        flows = np.add.reduceat(int64_of(rows["rows"])[order], starts).tolist()
        blocks = np.diff(starts, append=len(codes)).tolist()
        names = (nodes.dictionary[code].as_py() for code in codes[order][starts].tolist())
        return {
            node: NodeCounts(of_node, its_flows, (high << 32) + low)
            for node, of_node, its_flows, high, low in zip(
                names, blocks, flows, *halves, strict=True
            )
        }

    return reader.remember("nodes", files, compute)


def count_store(reader: LakeReader, files: Files, now: float) -> StoreCounts:
    """The counts of one application. ``now``: by the store's clock."""
    counts = count_nodes(reader, files).values()
    claimed = _claimed(reader, files)
    unlinked = _unlinked(reader, files)
    arrivals = arrivals_of(reader, files)
    return StoreCounts(
        received=sum(count.blocks for count in counts),
        unlinked=len(unlinked),
        unmatched=sum(unlinked.values()),
        flows=sum(count.flows for count in counts),
        claimed=frozenset((node, partition) for node, partition, _ in claimed),
        claimed_blocks=len(claimed),
        inexact=_inexact(reader, files),
        problems=problems_of(reader, files),
        written=arrivals.written,
        stubs=len(arrivals.stubs),
        recipes=frozenset(recipe_bodies(reader, files)),
        silent_s=now - summary_of(reader, files).seen_at,
    )


def _claimed(reader: LakeReader, files: Files) -> list[tuple[str, int, int]]:
    """The tasks without a commit, of each visible block that is of one."""
    tasks = set(tasks_of(reader, files).claimed)
    if not tasks:
        return []
    rows = blocks_table(reader, files, ("task_node", "task_partition", "task_attempt"))
    of_tasks = rows.select(["task_node", "task_partition", "task_attempt"])
    return [task for task in rows_of(of_tasks) if task in tasks]


def _inexact(reader: LakeReader, files: Files) -> Reasons:
    reasons, hidden = reasons_of(reader, files), arrivals_of(reader, files).hidden
    rows = blocks_table(reader, files, ("exact", "reason"))
    listed: dict[str, set[str]] = {}
    for node, reason in _stored_reasons(rows, reasons):
        listed.setdefault(node, set()).add(reason)
    for block_id, reason in reasons.items():
        if reason and block_id not in hidden:
            listed.setdefault(block_id.node, set()).add(reason[:REASON_CHARS_MAX])
    rows_listed = [
        (node, reason, len(of_node))
        for node, of_node in sorted(listed.items())
        for reason in sorted(of_node)[:REASONS_MAX]
    ]
    return read_reasons(
        lambda: sum(len(node.encode()) + len(reason.encode()) for node, reason, _ in rows_listed),
        lambda: rows_listed,
    )


def _stored_reasons(rows: pa.Table, decided: Mapping[BlockId, str]) -> set[tuple[Any, ...]]:
    """Node and reason of blocks that were stored as inexact, each pair once; without those that were decided since."""
    inexact = rows.filter(pc.invert(rows["exact"]))
    if decided:
        ids = rows_of(inexact.select(list(BLOCK_ID)))
        inexact = inexact.filter(mask_of(BlockId(*key) not in decided for key in ids))
    cut = pc.utf8_slice_codeunits(inexact["reason"], 0, REASON_CHARS_MAX)
    return set(rows_of(inexact.select(["node"]).append_column("reason", cut)))


def problems_of(reader: LakeReader, files: Files) -> dict[str, str]:
    """What could not be read of an application, by place."""
    rows = sorted(rows_of(reader.read(files, Kind.PROBLEMS, ("number", "body"))))
    return dict(json.loads(rows[-1][1])) if rows else {}


def _unlinked(reader: LakeReader, files: Files) -> dict[BlockId, int]:
    """Input positions that no block puts out, by block, where those are no roots."""
    unmatched = unmatched_of(reader, files)
    if not unmatched:
        return {}
    rows = blocks_table(reader, files, ("in_space",))
    spaces: dict[BlockId, str] = {}
    for *key, in_space in rows_of(rows.select([*BLOCK_ID, "in_space"])):
        if (block_id := BlockId(*key)) in unmatched:
            spaces[block_id] = in_space
    lookup = Lookup.of_texts("space", spaces.values())
    sections = reader.read(files, Kind.SECTION, ("space", *BLOCK_ID), lookup)
    produced = set(pc.unique(visible(reader, files, sections)["space"]).to_pylist())
    nodes = messages_of(reader, files, ("register",))
    sources = {node.node for node in nodes if isinstance(node, Register) and node.kind == "source"}
    return {
        block_id: unmatched[block_id]
        for block_id, space in spaces.items()
        if not is_root(space, space in produced, sources)
    }
