"""Replaces texts of an application in a lake: its files are written again without them, in one commit, and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lineage_core.codec.columns import pack_block, unpack_block
from lineage_core.contract.message import Message, Recipe, dump_message
from lineage_store.lake.arrow import pc
from lineage_store.lake.columns import USED, Kind, application_key
from lineage_store.lake.file_writing import write_file
from lineage_store.lake.table import LakeFile, ReplacedError
from lineage_store.port import Rewrite

if TYPE_CHECKING:
    from lineage_store.lake.store import LakeStore


def erase_application(
    store: LakeStore, app: str, rewrite: Rewrite, messages: Iterable[Message]
) -> int:
    """As :meth:`lineage_store.port.ErasableStore.erase`."""
    silent_s = store.counts(app).silent_s or 0.0
    key, all_messages = application_key(app), list(messages)
    recipes = {
        message.node: dump_message(message)
        for message in all_messages
        if isinstance(message, Recipe)
    }
    while True:
        files = store.table.snapshot(newest=True).files.get(key, ())
        replaced, added, removed = 0, list[LakeFile](), list[LakeFile]()
        for file in files:
            tables = {kind: store.reader.read((file,), kind, USED[kind]) for kind in Kind}
            blocks, changed = _blocks(tables[Kind.BLOCK], rewrite)
            kept = _messages(tables[Kind.MESSAGE], recipes)
            if not changed and kept.num_rows == tables[Kind.MESSAGE].num_rows:
                continue
            new = write_file(store.table, key, {**tables, Kind.BLOCK: blocks, Kind.MESSAGE: kept})
            added += [] if new is None else [new]
            removed.append(file)
            replaced += changed
        # Replacing texts is no sign of life.
        writer = store.writer(app, store.now() - silent_s)
        for message in all_messages:
            writer.message(message)
        try:
            writer.commit(added, removed)
        except ReplacedError:
            store.table.erase(added)
            continue
        # Also what an erasure that was interrupted left; what somebody may commit at this moment stays until it is a week old.
        store.table.erase([*removed, *store.table.dead_files(key)])
        return replaced


def _blocks(rows: pa.Table, rewrite: Rewrite) -> tuple[pa.Table, int]:
    changed, all_data = 0, list[bytes]()
    stored: list[Any] = rows["data"].to_pylist()
    for data in stored:
        block = rewrite(unpack_block(data))
        changed += block is not None
        all_data.append(data if block is None else pack_block(block))
    if changed:
        at = rows.schema.get_field_index("data")
        rows = rows.set_column(at, "data", pa.array(all_data, pa.binary()))
    return rows, changed


def _messages(rows: pa.Table, recipes: Mapping[str, str]) -> pa.Table:
    """Messages without the recipes that others take the place of."""
    columns = (rows[name].to_pylist() for name in ("type", "node", "body"))
    kept = [
        kind != "recipe" or node not in recipes or body == recipes[node]
        for kind, node, body in zip(*columns, strict=True)
    ]
    return rows if all(kept) else rows.filter(pc.equal(pa.array(kept), True))
