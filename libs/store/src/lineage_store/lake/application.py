"""What follows from the rows of one application: its state, its tasks, and which of its blocks are supersets.

Rows may come twice and in any order; these functions decide what they say together. All are computed of the files of one
version, and remembered, as files never change.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import BlockRef
from lineage_core.contract.message import Begin, End, Heartbeat
from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_store.lake.arrivals import arrivals_of
from lineage_store.lake.arrow import array_of, mask_of, pc, scalar_of
from lineage_store.lake.columns import BLOCK_ID, REF, Kind
from lineage_store.lake.files import Files, LakeReader, Lookup, rows_of
from lineage_store.recipes import MessageList, parse_body, read_messages
from lineage_store.recomputing import (
    NAMED,
    RECOMPUTED,
    UNCOMMITTED,
    may_differ,
    merges_by_key,
)
from lineage_store.signed import BIAS

FEW_ROWS: Final = 5_000
PYTHON_ROWS: Final = 100_000
"""Rows that Python groups: Arrow would import pandas, which takes a second."""
LIFE: Final = ("begin", "end", "heartbeat")
"""Types of the messages that say whether an application runs."""


@dataclass(frozen=True, slots=True)
class Summary:
    """An application as its messages describe it. ``seen_at``: of its last sign of life, by the store's clock."""

    app: str
    name: str
    started_at: float
    ended_at: float | None
    status: str
    seen_at: float

    def status_at(self, now: float) -> str:
        """The status; an application that was not heard of for long is abandoned."""
        is_abandoned = self.status == "running" and now - self.seen_at > ABANDONED_AFTER_S
        return "abandoned" if is_abandoned else self.status


class StoredMessage(NamedTuple):
    """A message without its text, which is read when it is needed. ``number``: messages were written in its order."""

    number: int
    type: str
    digest: bytes
    recorded_at: float


def summary_of(reader: LakeReader, files: Files) -> Summary:
    """An application's state."""
    return reader.remember("summary", files, lambda of: _summary(reader, of))


def _summary(reader: LakeReader, files: Files) -> Summary:
    first = min(rows_of(reader.read(files, Kind.APPLICATION, ("number", "recorded_at", "name"))))
    _, seen_at, app = first
    name, started_at, ended_at, status = "", 0.0, None, "running"
    latest: tuple[int, float] | None = None
    for stored, body in life_of(reader, files):
        match parse_body(body):
            case Begin() as begin:
                # One that comes again is no sign of life.
                seen_at = seen_at if begin.started_at == started_at else stored.recorded_at
                name, started_at = begin.name, begin.started_at
            case End() as end:
                ended_at, status = end.ended_at, end.status
            case Heartbeat() as beat:
                if latest is None or latest < (beat.beat, beat.at):
                    latest, seen_at = (beat.beat, beat.at), stored.recorded_at
            case _:
                pass
    return Summary(app, name, started_at, ended_at, status, seen_at)


def first_number(reader: LakeReader, files: Files) -> int:
    """The number of an application's first row: its later commits have larger ones, and another one of its id has, too."""
    return reader.remember("first", files, lambda of: _first_number(reader, of))


def _first_number(reader: LakeReader, files: Files) -> int:
    return int(min(rows_of(reader.read(files, Kind.APPLICATION, ("number",))))[0])


def life_of(reader: LakeReader, files: Files) -> list[tuple[StoredMessage, str]]:
    """Messages that say whether an application runs, each once, with their texts."""
    columns = ("number", "type", "digest", "recorded_at", "body")
    rows = reader.read(files, Kind.MESSAGE, columns, Lookup.of_texts("type", LIFE))
    texts: dict[tuple[str, bytes], tuple[StoredMessage, str]] = {}
    for *columns_of_row, body in rows_of(rows):
        stored = StoredMessage(*columns_of_row)
        known = texts.get((stored.type, stored.digest))
        if known is None or stored < known[0]:
            texts[stored.type, stored.digest] = stored, body
    return sorted(texts.values())


def latest_heartbeat(reader: LakeReader, files: Files) -> bytes | None:
    """The digest of the only heartbeat that counts; None: there is none."""

    def compute(of: Files) -> bytes | None:
        beats = []
        for stored, body in life_of(reader, of):
            message = parse_body(body)
            if isinstance(message, Heartbeat):
                beats.append(((message.beat, message.at), -stored.number, stored.digest))
        return max(beats)[2] if beats else None

    return reader.remember("heartbeat", files, compute)


def messages_of(
    reader: LakeReader,
    files: Files,
    kinds: Sequence[str] = (),
    keeps: Callable[[pa.Table], Any] | None = None,
    columns: Sequence[str] = (),
) -> MessageList:
    """Messages in the order written, each once, of some types or all; of heartbeats the latest.

    ``keeps``: gives a mask over rows that have ``columns``, of the messages that are wanted.

    Raises:
        BudgetError: they are more than may be held, or the query has no time left.
    """
    lookup = Lookup.of_texts("type", kinds) if kinds else None
    beat = latest_heartbeat(reader, files)

    def chosen(*more: str) -> pa.Table:
        names = dict.fromkeys(("number", "type", "digest", *columns, *more))
        rows = reader.read(files, Kind.MESSAGE, list(names), lookup)
        if keeps is not None:
            rows = rows.filter(keeps(rows))
        is_old_beat = pc.and_(
            pc.equal(rows["type"], scalar_of("heartbeat")),
            pc.not_equal(rows["digest"], scalar_of(beat or b"")),
        )
        return _distinct(
            rows.filter(pc.invert(pc.fill_null(is_old_beat, scalar_of(False)))), ("type", "digest")
        )

    return read_messages(
        lambda: (str(body) for body in chosen("body")["body"].to_pylist()),
        lambda: pc.sum(chosen("body_bytes")["body_bytes"]).as_py() or 0,
    )


def _distinct(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Rows in order of their numbers; of equal ones the first."""
    if not rows.num_rows:
        return rows
    rows = rows.sort_by([("number", "ascending"), *((name, "ascending") for name in names)])
    if rows.num_rows <= FEW_ROWS:
        # Arrow's threads cost more than they save.
        keys = zip(*(rows[name].to_pylist() for name in names), strict=True)
        firsts: dict[tuple[Any, ...], int] = {}
        for at, key in enumerate(keys):
            firsts.setdefault(key, at)
        return rows.take(array_of(np.fromiter(firsts.values(), np.int64)))
    numbered = rows.append_column("at", array_of(np.arange(rows.num_rows)))
    first = numbered.group_by(list(names)).aggregate([("at", "min")])["at_min"]
    return rows.take(first.sort() if isinstance(first, pa.Array) else first.combine_chunks().sort())


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks whose blocks are visible. ``digests``: of each attempt; None: its commit is not there."""

    digests: Mapping[tuple[str, int], Mapping[int, str | None]]

    @property
    def claimed(self) -> Iterator[tuple[str, int, int]]:
        """Tasks without a commit."""
        for (node, partition), attempts in self.digests.items():
            for attempt, digest in attempts.items():
                if digest is None:
                    yield node, partition, attempt

    def committed(self) -> dict[str, tuple[int, int]]:
        """By node how many commits there are, and of how many the readers don't name attempts."""
        counts: dict[str, tuple[int, int]] = {}
        for (node, _), attempts in self.digests.items():
            digests = [digest for digest in attempts.values() if digest is not None]
            commits, unnamed = counts.get(node, (0, 0))
            counts[node] = commits + len(digests), unnamed + sum(d != NAMED for d in digests)
        return {node: count for node, count in counts.items() if count[0]}


_TASK: Final = ("task_node", "task_partition", "task_attempt")


def tasks_of(reader: LakeReader, files: Files) -> Tasks:
    """All tasks of an application."""
    return Tasks(_digests(reader, files, None))


def _digests(
    reader: LakeReader, files: Files, lookup: Lookup | None
) -> dict[tuple[str, int], dict[int, str | None]]:
    rows = reader.read(files, Kind.TASK, ("number", *_TASK, "outputs_digest"), lookup)
    digests: dict[tuple[str, int], dict[int, str | None]] = {}
    # Of several commits of one attempt the last one counts; of those with one number always the same one.
    for _, node, partition, attempt, digest in sorted(
        rows_of(rows), key=lambda row: (row[0], row[4] or "")
    ):
        of_partition = digests.setdefault((node, partition), {})
        if digest is not None or attempt not in of_partition:
            of_partition[attempt] = digest
    return digests


def reasons_of(reader: LakeReader, files: Files) -> Mapping[BlockId, str]:
    """Of blocks whose partition was computed several times, why they are supersets; empty: they are not.

    Blocks that are not there have what they were stored with.
    """
    return reader.remember("reasons", files, lambda of: _reasons(reader, of))


def _reasons(reader: LakeReader, files: Files) -> dict[BlockId, str]:
    rows = reader.read(files, Kind.TASK, _TASK)
    first: dict[tuple[str, int], int] = {}
    several: set[tuple[str, int]] = set()
    for node, partition, attempt in rows_of(rows):
        if first.setdefault((node, partition), attempt) != attempt:
            several.add((node, partition))
    if not several:
        return {}
    spans: dict[str, list[tuple[int, int]]] = {}
    for node, partition in sorted(several):
        spans.setdefault(node, []).append((partition, partition))
    lookup = Lookup.of_ranges("task_node", "task_partition", "task_partition", spans)
    digests = _digests(reader, files, lookup)
    hidden = arrivals_of(reader, files).hidden
    merged: dict[tuple[str, int], dict[BlockId, _Merged]] = {}
    names = (*BLOCK_ID, *_TASK, "exact", "reason", "in_space", "space", "number")
    sections = rows_of(reader.read(files, Kind.SECTION, names, lookup))
    for *key, node, partition, attempt, exact, reason, in_space, space, _ in sorted(
        sections, key=lambda row: row[-1], reverse=True
    ):
        block_id = BlockId(*key)
        if block_id in hidden and digests.get((node, partition), {}).get(attempt) is None:
            continue
        if merges_by_key([space]):
            of_partition = merged.setdefault((node, partition), {})
            of_partition[block_id] = _Merged(attempt, exact, reason, in_space)
    reasons: dict[BlockId, str] = {}
    for task_key, blocks in merged.items():
        if len(digests.get(task_key, {})) > 1:
            reasons.update(_reasons_of_partition(digests[task_key], blocks))
    return reasons


class _Merged(NamedTuple):
    """A block whose flows merge with those of other attempts."""

    attempt: int
    exact: bool
    reason: str
    in_space: str


def _reasons_of_partition(
    digests_by_attempt: Mapping[int, str | None], blocks: Mapping[BlockId, _Merged]
) -> Iterator[tuple[BlockId, str]]:
    """As :meth:`lineage_store.sqlite.writing.SqliteWriter.mark_recomputed`, without what was decided before."""
    digests = [digest for digest in digests_by_attempt.values() if digest is not None]
    committed = {at for at, digest in digests_by_attempt.items() if digest is not None}
    attempts = committed.union(block.attempt for block in blocks.values())
    is_uncertain = len(attempts) > 1 and len(attempts) > len(digests) and set(digests) != {NAMED}
    for block_id, block in blocks.items():
        reason = UNCOMMITTED if is_uncertain else ""
        if may_differ(len(digests), set(digests), block.in_space):
            reason = RECOMPUTED
        if block.exact or block.reason == UNCOMMITTED:
            yield block_id, reason


def revision_of(reader: LakeReader, files: Files) -> Hashable:
    """A value that changes with each message, and with the run that has the id."""

    def compute(of: Files) -> Hashable:
        beat = latest_heartbeat(reader, of)
        rows = rows_of(reader.read(of, Kind.MESSAGE, ("number", "type", "digest")))
        digests: dict[tuple[str, bytes], int] = {}
        for number, kind, digest in rows:
            if kind != "heartbeat" or digest == beat:
                digests[kind, digest] = min(number, digests.get((kind, digest), number))
        total = sum(int.from_bytes(digest, "big") for _, digest in digests) % (1 << 128)
        return first_number(reader, of), len(digests), total

    return reader.remember("revision", files, compute)


def unmatched_of(reader: LakeReader, files: Files) -> Mapping[BlockId, int]:
    """How many input positions of a block no block puts out; blocks without any are left out."""

    def compute(of: Files) -> dict[BlockId, int]:
        rows = reader.read(of, Kind.UNMATCHED, (*BLOCK_ID, "unmatched"))
        # Several processes may count at once: of all counts the smallest is true.
        if rows.num_rows > PYTHON_ROWS:
            counts = rows.group_by(list(BLOCK_ID)).aggregate([("unmatched", "min")])
            rows = counts.select([*BLOCK_ID, "unmatched_min"])
        smallest: dict[tuple[Any, ...], int] = {}
        for *key, positions in rows_of(rows):
            block = tuple(key)
            smallest[block] = min(positions, smallest.get(block, positions))
        return {BlockId(*block): positions for block, positions in smallest.items() if positions}

    return reader.remember("unmatched", files, compute)


def refs_of(reader: LakeReader, files: Files, rows: Iterable[Sequence[Any]]) -> Iterator[BlockRef]:
    """Blocks by id, of rows of the columns `REF`: of rows of one block the first one written."""
    reasons, unmatched = reasons_of(reader, files), unmatched_of(reader, files)
    hidden = arrivals_of(reader, files).hidden
    last: BlockId | None = None
    for row in sorted(rows, key=lambda row: (row[:4], row[-1])):
        block_id = BlockId(*row[:4])
        if block_id == last or block_id in hidden:
            continue
        last = block_id
        task_node, _, _, in_space, low, high, count, associations, exact, reason, _ = row[4:]
        if block_id in reasons:
            reason = reasons[block_id]
            exact = not reason
        yield BlockRef(
            block_id=block_id,
            in_space=in_space,
            # No input at all: a range that holds nothing.
            in_min=1 if low is None else low + BIAS,
            in_max=0 if high is None else high + BIAS,
            rows=count,
            associations=associations,
            exact=exact,
            reason=reason,
            task=task_node,
            unmatched=unmatched.get(block_id, 0),
        )


def recipe_bodies(reader: LakeReader, files: Files, node: str | None = None) -> dict[str, str]:
    """The texts of the messages that brought the recipes, by node; of one node alone, or (None) without their texts."""
    columns = ("number", "type", "digest", "node", *(() if node is None else ("body",)))
    rows = reader.read(files, Kind.MESSAGE, columns, Lookup.of_texts("type", ["recipe"]))
    if node is not None:
        rows = rows.filter(pc.equal(rows["node"], scalar_of(node)))
    bodies: dict[str, str] = {}
    for _, _, _, of_node, *body in rows_of(_distinct(rows, ("type", "digest"))):
        bodies[of_node] = body[0] if body else ""
    return bodies


def blocks_table(reader: LakeReader, files: Files, columns: Sequence[str]) -> pa.Table:
    """Columns of all visible blocks, each once; their ids and numbers are among them."""
    names = list(dict.fromkeys((*BLOCK_ID, "number", *columns)))
    rows = visible(reader, files, reader.read(files, Kind.BLOCK, names))
    return rows if len(files) < 2 else _distinct(rows, BLOCK_ID)


def visible(reader: LakeReader, files: Files, rows: pa.Table) -> pa.Table:
    """Those rows that are of visible blocks, by their ids."""
    hidden = arrivals_of(reader, files).hidden
    if not hidden:
        return rows
    ids = rows_of(rows.select(list(BLOCK_ID)))
    return rows.filter(mask_of(BlockId(*key) not in hidden for key in ids))


def ref_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows of the columns `REF` of a table that may have others."""
    return rows_of(table.select(list(REF)))
