"""The linker's state in Redis: one application's, during one batch. See docs/adr/0006.

Every key is set to expire with the write that makes it. Writes that belong together go in one
pipeline; what is read after a write goes in the same one, behind it: that order is what makes the
join find every pair across processes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast

import structlog
from redis import Redis
from redis.client import Pipeline

from lineage_core.contract.address import OPAQUE_SPACE, parse_space
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Totals
from lineage_core.linking.joining import JoinEntry, Side, may_be_root
from lineage_core.linking.linker import Members, SidesWithin, TaskId, claimable
from lineage_linker.app_state import BlockTreatment, CommitSummary
from lineage_linker.keys import Keys, keys_of, parse_block, parse_task, task_name
from lineage_linker.side_cache import SideCache
from lineage_linker.sides import (
    Mark,
    WaitingEntry,
    pack_side,
    pack_waiting,
    read_mark,
    unpack_waiting,
)
from lineage_linker.space_sizes import IN, OUT, SPACE_PAIRS_MAX, SpaceSizes

log = structlog.get_logger(__name__)

PART = 500
"""Blocks in one command: a long one would hold up every other client."""
SPACES = 50
"""Spaces whose blocks are read in one command: each may have thousands."""
RUNS_AHEAD = 4 << 20
"""Runs that are read at once: 80 MiB of columns."""

# Counts a block once, however often it is said to be visible.
_FINISH = """
for at = 1, #ARGV, 2 do
  if redis.call('SADD', KEYS[1], ARGV[at]) == 1 then
    redis.call('HINCRBY', KEYS[2], ARGV[at + 1], 1)
  end
end
"""

# Of spaces, two keys each, the blocks of both sides, with nothing lost in between; false where nobody reads
# the space, or a block is not in the first key, `visible`.
_MEMBERS = """
local function visible(blocks)
  for _, block in ipairs(blocks) do
    if redis.call('SISMEMBER', KEYS[1], block) == 0 then return false end
  end
  return true
end
local found = {}
for at = 2, #KEYS, 2 do
  local members = false
  if redis.call('HLEN', KEYS[at + 1]) > 0 then
    local out, into = redis.call('HKEYS', KEYS[at]), redis.call('HKEYS', KEYS[at + 1])
    members = visible(into) and visible(out) and {out, into}
  end
  found[#found + 1] = members
end
return found
"""

# Of a block that is visible, the mark of a side whose columns are gone (expired, deleted): it is of no use
# any more, and a seal that counted it would say that others were joined with it. One that is not visible is
# added again.
_DROP = """
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 and not redis.call('HGET', KEYS[2], ARGV[1]) then
  return redis.call('HDEL', KEYS[3], ARGV[1])
end
return 0
"""

SideKey: TypeAlias = tuple[str, str]
"""Role and space."""
Marks: TypeAlias = dict[BlockId, Mark]
_Names: TypeAlias = tuple[Sequence[bytes], Sequence[bytes]]
"""Blocks that put out into a space, and blocks that read it."""


@dataclass(frozen=True, slots=True)
class StateBounds:
    """Seconds for which keys stay: of what is not complete, and of what is. ``space_pairs``: as in :class:`SpaceSizes`."""

    retention_s: int = 7 * 24 * 3600
    complete_s: int = 60
    space_pairs: int = SPACE_PAIRS_MAX


@dataclass(frozen=True, slots=True)
class _ArrivedBlock:
    """A block that arrived, in this batch or before it. Its columns are in the cache, within the bound of that, or in Redis."""

    task: TaskId
    marks: WaitingEntry


@dataclass(frozen=True, slots=True)
class _VisibleBlock:
    """A block that this batch makes visible, and where its waiting entries are to be removed."""

    task: TaskId
    claimable: tuple[str, ...]


class RedisState:
    """Implements :class:`lineage_linker.app_state.AppState`; for one thread.

    Raises:
        redis.RedisError: from every method; all may then be done again by another object.
    """

    def __init__(
        self, redis: Redis, app: str, cache: SideCache, bounds: StateBounds | None = None
    ) -> None:
        self._redis = redis
        self._app = app
        self._keys: Keys = keys_of(app)
        self._cache = cache
        self._bounds = bounds or StateBounds()
        self._touched: set[str] = set()
        self._nodes: dict[str, BlockTreatment] = {}
        self._new_sources: set[str] = set()
        self._spaces = SpaceSizes(self._keys, self._bounds.space_pairs)
        self._commit_summaries: dict[TaskId, CommitSummary] = {}
        self._committed: dict[TaskId, CommitSummary | None] = {}
        self._claimed: dict[str, bool] = {}
        self._matched: dict[BlockId, bool] = {}
        self._arrived: dict[BlockId, _ArrivedBlock] = {}
        self._not_visible: set[BlockId] = set()
        self._made_visible: dict[BlockId, _VisibleBlock] = {}
        self._counts: dict[BlockId, int] = {}
        # Replies that came with the last write; each is valid for the one read that follows.
        self._waiting: dict[TaskId, dict[bytes, bytes]] = {}
        self._held: dict[TaskId, list[bytes]] = {}
        self._into: dict[str, dict[bytes, bytes]] = {}
        self._prefetched_marks: dict[SideKey, Marks] = {}

    # -- nodes, tasks, what is held ----------------------------------------------------------

    def treatment_of(self, node: str) -> BlockTreatment | None:
        # Read again for a node that is not known: another process may just register it.
        if node not in self._nodes:
            # This one alone: an application may have very many.
            treatment = self._hget(self._keys.nodes, node)
            if treatment is None:
                return None
            self._nodes[node] = BlockTreatment(treatment.decode())
        return self._nodes[node]

    def register(self, node: str, treatment: BlockTreatment) -> None:
        if self.treatment_of(node) is not treatment:
            with self._pipeline() as pipe:
                pipe.hset(self._keys.nodes, node, treatment.value)
                self._touch(pipe, self._keys.nodes)
                pipe.execute()
            self._nodes[node] = treatment
        if treatment is BlockTreatment.SOURCE:
            self._new_sources.add(node)

    def set_commit_summary(self, task: TaskId, summary: CommitSummary) -> None:
        self._commit_summaries[task] = summary

    def commit_summary(self, task: TaskId) -> CommitSummary | None:
        if task not in self._committed:
            self._committed[task] = _parse_commit_summary(
                self._hget(self._keys.tasks, task_name(task))
            )
        return self._committed.pop(task)

    def is_committed(self, task: TaskId) -> bool:
        return self.commit_summary(task) is not None

    def commit(self, task: TaskId) -> None:
        summary = self._commit_summaries.pop(task, CommitSummary(0, None, True))
        text = json.dumps(list(summary), separators=(",", ":"))
        with self._pipeline() as pipe:
            pipe.hset(self._keys.tasks, task_name(task), text)
            self._touch(pipe, self._keys.tasks)
            pipe.hgetall(self._keys.waiting(task))
            pipe.hkeys(self._keys.held(task))
            *_, self._waiting[task], self._held[task] = pipe.execute()

    def hold(self, task: TaskId, block: BlockId, frame: bytes) -> None:
        key = self._keys.held(task)
        with self._pipeline() as pipe:
            pipe.hset(key, str(block), frame)
            self._touch(pipe, key)
            pipe.hget(self._keys.tasks, task_name(task))
            *_, summary = pipe.execute()
        self._committed[task] = _parse_commit_summary(summary)

    def held_of(self, task: TaskId) -> Iterable[bytes]:
        key = self._keys.held(task)
        held = self._held.pop(task, None)
        if held is None:
            held = cast("list[bytes]", self._redis.hkeys(key))
        frames = (self._hget(key, block.decode()) for block in held)
        return (frame for frame in frames if frame is not None)

    def end(self, totals: Totals) -> None:
        with self._pipeline() as pipe:
            pipe.set(self._keys.end, totals.model_dump_json())
            self._touch(pipe, self._keys.end)
            pipe.execute()

    # -- claims and what waits ---------------------------------------------------------------

    def is_claimed(self, space: str) -> bool:
        if not claimable(space):
            return False
        claimed = self._claimed.pop(space, None)
        if claimed is None:
            claimed = bool(self._redis.sismember(self._keys.claims, space))
        if claimed:
            # A claim is for ever; that there is none is only true right now.
            self._claimed[space] = True
        return claimed

    def claim(self, space: str) -> None:
        with self._pipeline() as pipe:
            pipe.sadd(self._keys.claims, space)
            self._touch(pipe, self._keys.claims)
            pipe.hgetall(self._keys.waiting_into(space))
            *_, self._into[space] = pipe.execute()
        self._claimed[space] = True

    def wait(self, task: TaskId, entry: JoinEntry) -> None:
        name, block = task_name(task), str(entry.block_id)
        spaces = list(filter(claimable, entry.outputs))
        with self._pipeline() as pipe:
            inputs = None
            if entry.inputs is not None:
                side_key = IN, entry.in_space
                inputs = self._put_columns(pipe, side_key, entry.block_id, entry.inputs)
            outputs = {
                space: self._put_columns(pipe, (OUT, space), entry.block_id, side)
                for space, side in entry.outputs.items()
            }
            waiting = WaitingEntry(entry.in_space, inputs, outputs)
            pipe.hset(self._keys.waiting(task), block, pack_waiting(waiting))
            self._touch(pipe, self._keys.waiting(task))
            for space in spaces:
                pipe.hset(self._keys.waiting_into(space), block, name)
                self._touch(pipe, self._keys.waiting_into(space))
            pipe.hget(self._keys.tasks, name)
            for space in spaces:
                pipe.sismember(self._keys.claims, space)
            replies = pipe.execute()
        claims = replies[len(replies) - len(spaces) :]
        self._committed[task] = _parse_commit_summary(replies[-1 - len(spaces)])
        self._claimed.update(zip(spaces, map(bool, claims), strict=True))
        self._arrived[entry.block_id] = _ArrivedBlock(task, waiting)

    def waiting_of(self, task: TaskId) -> Iterable[JoinEntry]:
        waiting = self._waiting.pop(task, None)
        if waiting is None:
            waiting = self._hgetall(self._keys.waiting(task))
        return self._entries(task, waiting)

    def waiting_into(self, space: str) -> Iterable[JoinEntry]:
        waiting = self._into.pop(space, None)
        if waiting is None:
            waiting = self._hgetall(self._keys.waiting_into(space))
        return self._entries_of_tasks(waiting)

    def _entries_of_tasks(self, waiting: Mapping[bytes, bytes]) -> Iterator[JoinEntry]:
        """Entries of blocks that wait, given the task of each."""
        tasks: dict[bytes, list[bytes]] = {}
        for block, name in waiting.items():
            if parse_block(block) not in self._made_visible:
                tasks.setdefault(name, []).append(block)
        for name, all_blocks in tasks.items():
            task = parse_task(name.decode())
            for blocks in _parts(all_blocks):
                packed = self._hmget(self._keys.waiting(task), blocks)
                # None: it has become visible since.
                present = {
                    block: value for block, value in zip(blocks, packed, strict=True) if value
                }
                yield from self._entries(task, present)

    def _entries(self, task: TaskId, values: Mapping[bytes, bytes]) -> Iterator[JoinEntry]:
        """Entries of blocks that wait; not of those whose columns have expired meanwhile."""
        for name, packed in values.items():
            block = parse_block(name)
            arrived = self._arrived.get(block) or _ArrivedBlock(task, unpack_waiting(packed))
            entry = self._entry(block, arrived.marks)
            if entry is not None:
                self._arrived[block] = arrived
                yield entry

    def _entry(self, block: BlockId, waiting: WaitingEntry) -> JoinEntry | None:
        side_keys = [(OUT, space) for space in waiting.outputs]
        marks = list(waiting.outputs.values())
        if waiting.inputs is not None:
            side_keys.append((IN, waiting.in_space))
            marks.append(waiting.inputs)
        sides = self._sides_of(block, side_keys, list(map(read_mark, marks)))
        if None in sides:
            return None
        complete_sides = cast("list[Side]", sides)
        inputs = complete_sides.pop() if waiting.inputs is not None else None
        outputs = dict(zip(waiting.outputs, complete_sides, strict=True))
        return JoinEntry(block, waiting.in_space, inputs, outputs)

    def _sides_of(
        self, block: BlockId, side_keys: Sequence[SideKey], marks: Sequence[Mark]
    ) -> list[Side | None]:
        """A block's sides in several spaces; None where the columns are not there."""
        sides = [
            mark.side or self._cache.get(self._app, *side_key, block)
            for side_key, mark in zip(side_keys, marks, strict=True)
        ]
        missing_indexes = [at for at, side in enumerate(sides) if side is None]
        if missing_indexes:
            with self._pipeline() as pipe:
                for at in missing_indexes:
                    pipe.hget(self._keys.columns(*side_keys[at]), str(block))
                columns = pipe.execute()
            for at, column in zip(missing_indexes, columns, strict=True):
                sides[at] = None if column is None else marks[at].with_columns(column)
        return sides

    # -- visible blocks ----------------------------------------------------------------------

    def is_visible(self, block: BlockId) -> bool:
        # Shown in this batch: should it be given up, so is this object.
        if block in self._made_visible:
            return True
        # Read once a batch: a block that another process finishes meanwhile is done again.
        if block not in self._not_visible:
            if self._redis.sismember(self._keys.visible, str(block)):
                return True
            self._not_visible.add(block)
        return False

    def add(self, entry: JoinEntry) -> None:
        arrived, block = self._arrived[entry.block_id], str(entry.block_id)
        marks: dict[SideKey, bytes] = {
            (OUT, space): mark for space, mark in arrived.marks.outputs.items()
        }
        if arrived.marks.inputs is not None:
            marks[IN, entry.in_space] = arrived.marks.inputs
        self._spaces.read(self._redis, {space for _, space in marks})
        reads: list[SideKey] = []
        unread: list[SideKey] = []
        with self._pipeline() as pipe:
            for (role, space), mark in marks.items():
                other_side = (IN if role == OUT else OUT), space
                if self._spaces.take(role, space, len(mark)):
                    self._put_mark(pipe, (role, space), block, mark)
                    reads.append(other_side)
                else:
                    # Before the block is visible: no seal is made of the space by then, whoever else adds this block.
                    pipe.sadd(self._keys.unlinked, space)
                    self._touch(pipe, self._keys.unlinked)
                    unread.append(other_side)
            root = entry.inputs is not None and may_be_root(entry.in_space)
            if root:
                pipe.hset(self._keys.roots, block, entry.in_space)
                self._touch(pipe, self._keys.roots)
            for role, space in reads:
                pipe.hgetall(self._keys.marks(role, space))
            if root:
                pipe.hget(self._keys.nodes, parse_space(entry.in_space).name)
            replies = pipe.execute()
        registered = replies.pop() if root else None
        if entry.inputs is None or registered == BlockTreatment.SOURCE.value.encode():
            # Stored explicitly: should the block come again when nobody remembers the source any more,
            # it would be counted, and of several counts the smallest is true.
            self.set_unmatched(entry.block_id, 0)
        mark_replies = replies[len(replies) - len(reads) :]
        self._prefetched_marks = {
            side_key: _marks(reply) for side_key, reply in zip(reads, mark_replies, strict=True)
        }
        self._prefetch(entry)
        self._prefetched_marks |= {side_key: {} for side_key in unread}
        self._made_visible[entry.block_id] = _VisibleBlock(
            arrived.task,
            tuple(filter(claimable, entry.outputs)),
        )

    def producers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        return self._sides((OUT, space), first, last)

    def consumers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        return self._sides((IN, space), first, last)

    def outputs_of(self, space: str) -> SidesWithin:
        side_key = OUT, space
        return partial(self._sides_among, side_key, self._marks_of(side_key))

    def members(self, spaces: Collection[str]) -> Iterator[Members | None]:
        for part in _parts(list(spaces), SPACES):
            marks = [self._keys.marks(role, space) for space in part for role in (OUT, IN)]
            keys = [self._keys.visible, *marks]
            replies = cast("list[_Names | None]", self._redis.eval(_MEMBERS, len(keys), *keys))
            # Behind it: of a block that is visible it is known by then that it has no marks.
            with self._pipeline() as pipe:
                for space in part:
                    pipe.sismember(self._keys.unlinked, space)
                unlinked = pipe.execute()
            for names, is_unlinked in zip(replies, unlinked, strict=True):
                yield None if names is None or is_unlinked else _members(*names)

    def unlinked_spaces(self) -> Collection[str]:
        # Of opaque items nothing is counted: they are found without edges.
        return [space for space in self._spaces.unlinked if space != OPAQUE_SPACE]

    def unmatched(self, block: BlockId) -> int:
        if block in self._counts:
            return self._counts[block]
        if not self._matched.get(block, False):
            self._matched[block] = bool(self._redis.sismember(self._keys.matched, str(block)))
        # Not known to be matched: it has to be counted (again).
        return 0 if self._matched[block] else 1

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        self._counts[block] = min(positions, self._counts.get(block, positions))

    def counts(self) -> Sequence[tuple[BlockId, int]]:
        if self._new_sources:
            # Blocks that came before this was known were counted as if somebody could produce
            # for them; also when they did so in a batch that was given up.
            for block, space in self._hgetall(self._keys.roots).items():
                if parse_space(space.decode()).name in self._new_sources:
                    self.set_unmatched(parse_block(block), 0)
            self._new_sources.clear()
        return list(self._counts.items())

    def _put_columns(self, pipe: Pipeline, side_key: SideKey, block: BlockId, side: Side) -> bytes:
        """Write what does not fit a side's mark, which is returned: whoever sees that finds these."""
        mark, columns = pack_side(side)
        if columns:
            pipe.hset(self._keys.columns(*side_key), str(block), columns)
            self._touch(pipe, self._keys.columns(*side_key))
            self._cache.put(self._app, *side_key, block, side)
        return mark

    def _put_mark(self, pipe: Pipeline, side_key: SideKey, block: str, mark: bytes) -> None:
        pipe.hset(self._keys.marks(*side_key), block, mark)
        self._touch(pipe, self._keys.marks(*side_key))

    def _prefetch(self, entry: JoinEntry) -> None:
        """Read columns and counts that the join is about to need, in one round trip."""
        missing_sides: list[tuple[SideKey, BlockId]] = []
        consumers: list[BlockId] = []
        runs = 0
        for side_key, marks in self._prefetched_marks.items():
            role, space = side_key
            own_side = entry.inputs if role == OUT else entry.outputs[space]
            assert own_side is not None
            for block, mark in _overlapping(marks, own_side.low, own_side.high):
                if role == IN and not self._matched.get(block, False):
                    consumers.append(block)
                if not mark.is_all and self._cache.get(self._app, role, space, block) is None:
                    runs += mark.runs
                    if runs <= RUNS_AHEAD:
                        missing_sides.append((side_key, block))
        if len(missing_sides) + len(consumers) <= 1:
            return
        with self._pipeline() as pipe:
            for (role, space), block in missing_sides:
                pipe.hget(self._keys.columns(role, space), str(block))
            for block in consumers:
                pipe.sismember(self._keys.matched, str(block))
            replies = pipe.execute()
        for (side_key, block), columns in zip(missing_sides, replies, strict=False):
            if columns is not None:
                side = self._prefetched_marks[side_key][block].with_columns(columns)
                self._cache.put(self._app, *side_key, block, side)
        for block, matched in zip(consumers, replies[len(missing_sides) :], strict=True):
            self._matched[block] = bool(matched)

    def _marks_of(self, side_key: SideKey) -> Marks:
        return _marks(self._hgetall(self._keys.marks(*side_key)))

    def _sides(self, side_key: SideKey, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        marks = self._prefetched_marks.pop(side_key, None)
        if marks is None:
            marks = self._marks_of(side_key)
        return self._sides_among(side_key, marks, first, last)

    def _sides_among(
        self, side_key: SideKey, marks: Marks, first: int, last: int
    ) -> Iterator[tuple[BlockId, Side]]:
        part: list[tuple[BlockId, Mark]] = []
        runs = 0
        for block, mark in _overlapping(marks, first, last):
            part.append((block, mark))
            runs += mark.runs
            if runs >= RUNS_AHEAD:
                yield from self._with_columns(side_key, part)
                part, runs = [], 0
        yield from self._with_columns(side_key, part)

    def _with_columns(
        self, side_key: SideKey, marks: Sequence[tuple[BlockId, Mark]]
    ) -> Iterator[tuple[BlockId, Side]]:
        sides: dict[BlockId, Side] = {}
        without_columns: list[tuple[BlockId, Mark]] = []
        for block, mark in marks:
            side = mark.side or self._cache.get(self._app, *side_key, block)
            if side is None:
                without_columns.append((block, mark))
            else:
                sides[block] = side
        if without_columns:
            names = [str(block) for block, _ in without_columns]
            columns = self._hmget(self._keys.columns(*side_key), names)
            for (block, mark), column in zip(without_columns, columns, strict=True):
                # None: its writer was stopped between the two. It adds the block again, and reads
                # this side then.
                if column is None:
                    self._drop_mark(side_key, block)
                else:
                    sides[block] = mark.with_columns(column)
                    self._cache.put(self._app, *side_key, block, sides[block])
        for block, _ in marks:
            if block in sides:
                yield block, sides[block]

    def _drop_mark(self, side_key: SideKey, block: BlockId) -> None:
        keys = self._keys.visible, self._keys.columns(*side_key), self._keys.marks(*side_key)
        if self._redis.eval(_DROP, len(keys), *keys, str(block)):
            log.error("columns_lost", app=self._app, block=str(block), space=side_key[1])

    # -- the end of a batch ------------------------------------------------------------------

    def make_visible(self) -> None:
        # What is known of a block first, that it is visible second, what waits for that last (`finish`):
        # cut at any point, it is either done again or done.
        self._touched.clear()  # where it is done again, the keys may not have been there before
        with self._pipeline() as pipe:
            for part in _parts(self._matched_now()):
                pipe.sadd(self._keys.matched, *map(str, part))
                self._touch(pipe, self._keys.matched)
            for shown in _parts(list(self._made_visible.items())):
                words = chain.from_iterable(
                    (str(block), task_name(arrived.task)) for block, arrived in shown
                )
                pipe.eval(_FINISH, 2, self._keys.visible, self._keys.finished, *words)
                self._touch(pipe, self._keys.visible)
                self._touch(pipe, self._keys.finished)
            pipe.execute()

    def finish(self) -> bool:
        with self._pipeline() as pipe:
            for key, names in self._waiting_fields().items():
                for part in _parts(names):
                    pipe.hdel(key, *part)
            pipe.get(self._keys.end)
            *_, end = pipe.execute()
        if end is None or not self._is_complete(Totals.model_validate_json(end)):
            return False
        self._expire_soon()
        return True

    def _matched_now(self) -> list[BlockId]:
        """Blocks of which nothing is unmatched, as far as this batch has seen."""
        matched = [block for block, count in self._counts.items() if count == 0]
        # Nor of those that nothing was counted of: opaque strings, any of which may be a root.
        return matched + [block for block in self._made_visible if block not in self._counts]

    def _waiting_fields(self) -> dict[str, list[str]]:
        fields_by_key: dict[str, list[str]] = {}
        for block, arrived in self._made_visible.items():
            keys = [self._keys.waiting(arrived.task), self._keys.held(arrived.task)]
            for key in (*keys, *map(self._keys.waiting_into, arrived.claimable)):
                fields_by_key.setdefault(key, []).append(str(block))
        return fields_by_key

    def _is_complete(self, totals: Totals) -> bool:
        """Whether every block of every task that was announced is linked to all its producers."""
        with self._pipeline() as pipe:
            pipe.hlen(self._keys.tasks)
            pipe.scard(self._keys.visible)
            tasks, visible = pipe.execute()
            if tasks < totals.tasks or visible < totals.blocks:
                return False
            pipe.hgetall(self._keys.tasks)
            pipe.hgetall(self._keys.finished)
            pipe.sdiff([self._keys.visible, self._keys.matched])
            pipe.hkeys(self._keys.roots)
            summaries, finished, unmatched, roots = pipe.execute()
        if set(unmatched) - set(roots):
            return False
        for task, text in summaries.items():
            summary = _parse_commit_summary(text)
            if summary is None or not summary.is_undamaged:
                return False
            if int(finished.get(task, 0)) < summary.blocks:
                return False
        return True

    def _expire_soon(self) -> None:
        names = cast("set[bytes]", self._redis.smembers(self._keys.names))
        with self._pipeline() as pipe:
            for key in (*self._keys.fixed(), *(name.decode() for name in names)):
                pipe.expire(key, self._bounds.complete_s)
            pipe.execute()

    # -- within ------------------------------------------------------------------------------

    def _pipeline(self) -> Pipeline:
        return self._redis.pipeline(transaction=False)

    def _touch(self, pipe: Pipeline, key: str) -> None:
        """After the first write to a key in this batch: it expires, and its name is known."""
        if key not in self._touched:
            self._touched.add(key)
            pipe.expire(key, self._bounds.retention_s)
            if key not in self._keys.fixed():
                pipe.sadd(self._keys.names, key)
                self._touch(pipe, self._keys.names)

    def _hgetall(self, key: str) -> dict[bytes, bytes]:
        return cast("dict[bytes, bytes]", self._redis.hgetall(key))

    def _hget(self, key: str, name: str) -> bytes | None:
        return cast("bytes | None", self._redis.hget(key, name))

    def _hmget(self, key: str, names: Sequence[str | bytes]) -> list[bytes | None]:
        values: list[bytes | None] = []
        for part in _parts(names):
            values += cast("list[bytes | None]", self._redis.hmget(key, list(part)))
        return values


def _parse_commit_summary(text: bytes | None) -> CommitSummary | None:
    return None if text is None else CommitSummary(*json.loads(text))


def _marks(values: Mapping[bytes, bytes]) -> Marks:
    return {parse_block(block): read_mark(packed) for block, packed in values.items()}


def _overlapping(marks: Marks, first: int, last: int) -> Iterable[tuple[BlockId, Mark]]:
    return [item for item in marks.items() if item[1].low <= last and item[1].high >= first]


def _members(producers: Sequence[bytes], consumers: Sequence[bytes]) -> Members:
    return list(map(parse_block, producers)), list(map(parse_block, consumers))


def _parts(items: Sequence[Any], size: int = PART) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
