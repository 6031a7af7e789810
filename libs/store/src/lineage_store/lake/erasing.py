"""Replaces texts of an application in a lake: its files are written again without them, in one commit, and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lineage_core.codec.columns import pack_block, unpack_block
from lineage_core.contract.message import Message, Recipe, dump_message
from lineage_store.errors import StoreUnavailableError
from lineage_store.lake.arrow import pc
from lineage_store.lake.columns import USED, Kind
from lineage_store.lake.file_writing import write_file
from lineage_store.lake.files import Files
from lineage_store.lake.table import LakeFile, ReplacedError
from lineage_store.port import Rewrite

if TYPE_CHECKING:
    from lineage_store.lake.store import LakeStore


@dataclass
class _Rewriting:
    """Files that take the place of others, and how many blocks were changed in them."""

    added: list[LakeFile] = field(default_factory=list)
    removed: list[LakeFile] = field(default_factory=list)
    replaced: int = 0


def erase_application(
    store: LakeStore, app: str, rewrite: Rewrite, messages: Iterable[Message]
) -> int:
    """As :meth:`lineage_store.port.ErasableStore.erase`."""
    silent_s = store.counts(app).silent_s or 0.0
    key, all_messages = store.reader.key_of(app), list(messages)
    recipes = {
        message.node: dump_message(message)
        for message in all_messages
        if isinstance(message, Recipe)
    }
    while True:
        store.table.snapshot(newest=True)
        files = store.reader.answer(key, lambda files: _rewritten(store, files, rewrite, recipes))
        # Replacing texts is no sign of life.
        writer = store.writer(app, store.now() - silent_s)
        for message in all_messages:
            writer.message(message)
        try:
            writer.commit(files.added, files.removed)
        except ReplacedError:
            store.table.erase(files.added)
            continue
        # Also what an erasure that was interrupted left; what somebody may commit at this moment stays until it is a week old.
        dead = store.table.removed_files(key, unfinished=True)
        store.table.erase([*files.removed, *dead])
        return files.replaced


def _rewritten(
    store: LakeStore, files: Files, rewrite: Rewrite, recipes: Mapping[str, str]
) -> _Rewriting:
    """Write the files again that have something to replace; nothing stays of them where that fails."""
    done = _Rewriting()
    try:
        for file in files:
            tables = {kind: store.reader.read((file,), kind, USED[kind]) for kind in Kind}
            blocks, changed = _blocks(tables[Kind.BLOCK], rewrite)
            kept = _messages(tables[Kind.MESSAGE], recipes)
            if not changed and kept.num_rows == tables[Kind.MESSAGE].num_rows:
                continue
            new = write_file(
                store.table, file.key, {**tables, Kind.BLOCK: blocks, Kind.MESSAGE: kept}
            )
            done.added += [] if new is None else [new]
            done.removed.append(file)
            done.replaced += changed
    except BaseException:
        with suppress(StoreUnavailableError):
            store.table.erase(done.added)
        raise
    return done


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
