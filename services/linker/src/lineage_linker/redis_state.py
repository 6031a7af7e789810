"""The linker's state in Redis: one application's, during one batch. See docs/adr/0006.

Every key is set to expire with the write that makes it. Writes that belong together go in one
pipeline; what is read after a write goes in the same one, behind it: that order is what makes the
join find every pair across processes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias, cast

import structlog
from redis import Redis
from redis.client import Pipeline

from lineage_core.contract.address import parse_space
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Totals
from lineage_core.linking.joining import JoinEntry, Side, may_be_root
from lineage_core.linking.linker import Members, TaskId, claimable
from lineage_linker.app_state import Promise, Use
from lineage_linker.keys import Keys, keys_of, parse_block, parse_task, task_name
from lineage_linker.side_cache import SideCache
from lineage_linker.sides import Mark, Waiting, pack_side, pack_waiting, read_mark, unpack_waiting

log = structlog.get_logger(__name__)

IN, OUT = "in", "out"
PART = 500
"""Blocks in one command: a long one would hold up every other client."""
SPACES = 50
"""Spaces whose blocks are looked for in one command: each may have thousands."""
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

Place: TypeAlias = tuple[str, str]
"""Role and space."""
Marks: TypeAlias = dict[BlockId, Mark]
_Names: TypeAlias = tuple[Sequence[bytes], Sequence[bytes]]
"""Blocks that put out into a space, and blocks that read it."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Seconds for which keys stay: of what is not complete, and of what is."""

    retention_s: int = 7 * 24 * 3600
    complete_s: int = 60


@dataclass(frozen=True, slots=True)
class _Waited:
    """A block that came, now or before this batch."""

    task: TaskId
    marks: Waiting
    entry: JoinEntry


@dataclass(frozen=True, slots=True)
class _Shown:
    """What must be tidied up once a block is visible for good."""

    task: TaskId
    claimable: tuple[str, ...]


class RedisState:
    """Implements :class:`lineage_linker.app_state.AppState`; for one thread.

    Raises:
        redis.RedisError: from every method; all may then be done again by another object.
    """

    def __init__(
        self, redis: Redis, app: str, cache: SideCache, lifetimes: Lifetimes | None = None
    ) -> None:
        self._redis = redis
        self._app = app
        self._keys: Keys = keys_of(app)
        self._cache = cache
        self._lifetimes = lifetimes or Lifetimes()
        self._touched: set[str] = set()
        self._nodes: dict[str, Use] = {}
        self._promises: dict[TaskId, Promise] = {}
        self._committed: dict[TaskId, Promise | None] = {}
        self._claimed: dict[str, bool] = {}
        self._matched: dict[BlockId, bool] = {}
        self._waited: dict[BlockId, _Waited] = {}
        self._not_visible: set[BlockId] = set()
        self._shown: dict[BlockId, _Shown] = {}
        self._counts: dict[BlockId, int] = {}
        # Answers that came with the last write; each is good for the one question that follows.
        self._waiting: dict[TaskId, dict[bytes, bytes]] = {}
        self._held: dict[TaskId, dict[bytes, bytes]] = {}
        self._into: dict[str, dict[bytes, bytes]] = {}
        self._ahead: dict[Place, Marks] = {}

    # -- nodes, tasks, what is held ----------------------------------------------------------

    def use_of(self, node: str) -> Use | None:
        # Asked again for one that is not known: another process may just register it.
        if node not in self._nodes:
            uses = self._hgetall(self._keys.nodes)
            self._nodes = {name.decode(): Use(use.decode()) for name, use in uses.items()}
        return self._nodes.get(node)

    def register(self, node: str, use: Use) -> None:
        if self.use_of(node) is not use:
            with self._pipeline() as pipe:
                pipe.hset(self._keys.nodes, node, use.value)
                self._touch(pipe, self._keys.nodes)
                pipe.execute()
            self._nodes[node] = use
        if use is Use.SOURCE:
            # Blocks that came before this was known were counted as if somebody could produce
            # for them; also when they did so in a batch that was given up.
            for block, space in self._hgetall(self._keys.roots).items():
                if parse_space(space.decode()).name == node:
                    self.set_unmatched(parse_block(block), 0)

    def promise(self, task: TaskId, promise: Promise) -> None:
        self._promises[task] = promise

    def promised(self, task: TaskId) -> Promise | None:
        if task not in self._committed:
            self._committed[task] = _promise(self._hget(self._keys.tasks, task_name(task)))
        return self._committed.pop(task)

    def is_committed(self, task: TaskId) -> bool:
        return self.promised(task) is not None

    def commit(self, task: TaskId) -> None:
        promise = self._promises.pop(task, Promise(0, None, True))
        text = json.dumps(list(promise), separators=(",", ":"))
        with self._pipeline() as pipe:
            pipe.hset(self._keys.tasks, task_name(task), text)
            self._touch(pipe, self._keys.tasks)
            pipe.hgetall(self._keys.waiting(task))
            pipe.hgetall(self._keys.held(task))
            *_, self._waiting[task], self._held[task] = pipe.execute()

    def hold(self, task: TaskId, block: BlockId, frame: bytes) -> None:
        key = self._keys.held(task)
        with self._pipeline() as pipe:
            pipe.hset(key, str(block), frame)
            self._touch(pipe, key)
            pipe.hget(self._keys.tasks, task_name(task))
            *_, promise = pipe.execute()
        self._committed[task] = _promise(promise)

    def held_of(self, task: TaskId) -> Sequence[bytes]:
        held = self._held.pop(task, None)
        return list((self._hgetall(self._keys.held(task)) if held is None else held).values())

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
                place = IN, entry.in_space
                inputs = self._put_columns(pipe, place, entry.block_id, entry.inputs)
            outputs = {
                space: self._put_columns(pipe, (OUT, space), entry.block_id, side)
                for space, side in entry.outputs.items()
            }
            waiting = Waiting(entry.in_space, inputs, outputs)
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
        self._committed[task] = _promise(replies[-1 - len(spaces)])
        self._claimed.update(zip(spaces, map(bool, claims), strict=True))
        self._waited[entry.block_id] = _Waited(task, waiting, entry)

    def waiting_of(self, task: TaskId) -> Sequence[JoinEntry]:
        waiting = self._waiting.pop(task, None)
        if waiting is None:
            waiting = self._hgetall(self._keys.waiting(task))
        return list(self._entries(task, waiting))

    def waiting_into(self, space: str) -> Sequence[JoinEntry]:
        waiting = self._into.pop(space, None)
        if waiting is None:
            waiting = self._hgetall(self._keys.waiting_into(space))
        tasks: dict[bytes, list[bytes]] = {}
        for block, name in waiting.items():
            if parse_block(block) not in self._shown:
                tasks.setdefault(name, []).append(block)
        entries: list[JoinEntry] = []
        for name, blocks in tasks.items():
            task = parse_task(name.decode())
            packed = self._hmget(self._keys.waiting(task), blocks)
            # None: it has become visible since.
            present = {block: value for block, value in zip(blocks, packed, strict=True) if value}
            entries += self._entries(task, present)
        return entries

    def _entries(self, task: TaskId, values: Mapping[bytes, bytes]) -> Iterator[JoinEntry]:
        """Entries of blocks that wait; not of those whose columns have expired meanwhile."""
        for name, packed in values.items():
            block = parse_block(name)
            if block not in self._waited:
                waiting = unpack_waiting(packed)
                entry = self._entry(block, waiting)
                if entry is None:
                    continue
                self._waited[block] = _Waited(task, waiting, entry)
            yield self._waited[block].entry

    def _entry(self, block: BlockId, waiting: Waiting) -> JoinEntry | None:
        places = [(OUT, space) for space in waiting.outputs]
        marks = list(waiting.outputs.values())
        if waiting.inputs is not None:
            places.append((IN, waiting.in_space))
            marks.append(waiting.inputs)
        sides = self._sides_of(block, places, list(map(read_mark, marks)))
        if None in sides:
            return None
        complete_sides = cast("list[Side]", sides)
        inputs = complete_sides.pop() if waiting.inputs is not None else None
        outputs = dict(zip(waiting.outputs, complete_sides, strict=True))
        return JoinEntry(block, waiting.in_space, inputs, outputs)

    def _sides_of(
        self, block: BlockId, places: Sequence[Place], marks: Sequence[Mark]
    ) -> list[Side | None]:
        """A block's sides in several spaces; None where the columns are not there."""
        sides = [
            mark.side or self._cache.get(self._app, *place, block)
            for place, mark in zip(places, marks, strict=True)
        ]
        missing_indexes = [at for at, side in enumerate(sides) if side is None]
        if missing_indexes:
            with self._pipeline() as pipe:
                for at in missing_indexes:
                    pipe.hget(self._keys.columns(*places[at]), str(block))
                columns = pipe.execute()
            for at, column in zip(missing_indexes, columns, strict=True):
                sides[at] = None if column is None else marks[at].with_columns(column)
        return sides

    # -- visible blocks ----------------------------------------------------------------------

    def is_visible(self, block: BlockId) -> bool:
        # Shown in this batch: should it be given up, so is this object.
        if block in self._shown:
            return True
        # Asked once a batch: a block that another process finishes meanwhile is done again.
        if block not in self._not_visible:
            if self._redis.sismember(self._keys.visible, str(block)):
                return True
            self._not_visible.add(block)
        return False

    def add(self, entry: JoinEntry) -> None:
        waited, block = self._waited[entry.block_id], str(entry.block_id)
        reads: list[Place] = [(IN, space) for space in entry.outputs]
        with self._pipeline() as pipe:
            for space, mark in waited.marks.outputs.items():
                self._put_mark(pipe, (OUT, space), block, mark)
            if waited.marks.inputs is not None:
                self._put_mark(pipe, (IN, entry.in_space), block, waited.marks.inputs)
                reads.append((OUT, entry.in_space))
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
        if entry.inputs is None or registered == Use.SOURCE.value.encode():
            # Said outright: should the block come again when nobody remembers the source any more,
            # it would be counted, and of several counts the smallest is true.
            self.set_unmatched(entry.block_id, 0)
        mark_replies = replies[len(replies) - len(reads) :]
        self._ahead = {
            place: _marks(reply) for place, reply in zip(reads, mark_replies, strict=True)
        }
        self._look_ahead(entry)
        self._shown[entry.block_id] = _Shown(
            waited.task,
            tuple(filter(claimable, entry.outputs)),
        )

    def producers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        return self._sides((OUT, space), first, last)

    def consumers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        return self._sides((IN, space), first, last)

    def members(self, spaces: Collection[str]) -> Iterator[Members | None]:
        for part in _parts(list(spaces), SPACES):
            marks = [self._keys.marks(role, space) for space in part for role in (OUT, IN)]
            keys = [self._keys.visible, *marks]
            found = cast("list[_Names | None]", self._redis.eval(_MEMBERS, len(keys), *keys))
            for names in found:
                yield None if names is None else _members(*names)

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
        return list(self._counts.items())

    def _put_columns(self, pipe: Pipeline, place: Place, block: BlockId, side: Side) -> bytes:
        """Write what does not fit a side's mark, which is returned: whoever sees that finds these."""
        mark, columns = pack_side(side)
        if columns:
            pipe.hset(self._keys.columns(*place), str(block), columns)
            self._touch(pipe, self._keys.columns(*place))
            self._cache.put(self._app, *place, block, side)
        return mark

    def _put_mark(self, pipe: Pipeline, place: Place, block: str, mark: bytes) -> None:
        pipe.hset(self._keys.marks(*place), block, mark)
        self._touch(pipe, self._keys.marks(*place))

    def _look_ahead(self, entry: JoinEntry) -> None:
        """Read columns and counts that the join is about to ask for, in one go."""
        places_and_blocks: list[tuple[Place, BlockId]] = []
        consumers: list[BlockId] = []
        runs = 0
        for place, marks in self._ahead.items():
            role, space = place
            own_side = entry.inputs if role == OUT else entry.outputs[space]
            assert own_side is not None
            for block, mark in _within(marks, own_side.low, own_side.high):
                if role == IN and not self._matched.get(block, False):
                    consumers.append(block)
                if not mark.is_all and self._cache.get(self._app, role, space, block) is None:
                    runs += mark.runs
                    if runs <= RUNS_AHEAD:
                        places_and_blocks.append((place, block))
        if len(places_and_blocks) + len(consumers) <= 1:
            return
        with self._pipeline() as pipe:
            for (role, space), block in places_and_blocks:
                pipe.hget(self._keys.columns(role, space), str(block))
            for block in consumers:
                pipe.sismember(self._keys.matched, str(block))
            replies = pipe.execute()
        for (place, block), columns in zip(places_and_blocks, replies, strict=False):
            if columns is not None:
                side = self._ahead[place][block].with_columns(columns)
                self._cache.put(self._app, *place, block, side)
        for block, matched in zip(consumers, replies[len(places_and_blocks) :], strict=True):
            self._matched[block] = bool(matched)

    def _sides(self, place: Place, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        marks = self._ahead.pop(place, None)
        if marks is None:
            marks = _marks(self._hgetall(self._keys.marks(*place)))
        part: list[tuple[BlockId, Mark]] = []
        runs = 0
        for block, mark in _within(marks, first, last):
            part.append((block, mark))
            runs += mark.runs
            if runs >= RUNS_AHEAD:
                yield from self._with_columns(place, part)
                part, runs = [], 0
        yield from self._with_columns(place, part)

    def _with_columns(
        self, place: Place, marks: Sequence[tuple[BlockId, Mark]]
    ) -> Iterator[tuple[BlockId, Side]]:
        sides: dict[BlockId, Side] = {}
        without_columns: list[tuple[BlockId, Mark]] = []
        for block, mark in marks:
            side = mark.side or self._cache.get(self._app, *place, block)
            if side is None:
                without_columns.append((block, mark))
            else:
                sides[block] = side
        if without_columns:
            names = [str(block) for block, _ in without_columns]
            columns = self._hmget(self._keys.columns(*place), names)
            for (block, mark), column in zip(without_columns, columns, strict=True):
                # None: its writer was stopped between the two. It adds the block again, and reads
                # this side then.
                if column is None:
                    self._drop_mark(place, block)
                else:
                    sides[block] = mark.with_columns(column)
                    self._cache.put(self._app, *place, block, sides[block])
        for block, _ in marks:
            if block in sides:
                yield block, sides[block]

    def _drop_mark(self, place: Place, block: BlockId) -> None:
        keys = self._keys.visible, self._keys.columns(*place), self._keys.marks(*place)
        if self._redis.eval(_DROP, len(keys), *keys, str(block)):
            log.error("columns_lost", app=self._app, block=str(block), space=place[1])

    # -- the end of a batch ------------------------------------------------------------------

    def show(self) -> None:
        # What is known of a block first, that it is visible second, what waits for that last (`finish`):
        # cut at any point, it is either done again or done.
        self._touched.clear()  # where it is done again, the keys may not have been there before
        with self._pipeline() as pipe:
            for part in _parts(self._matched_now()):
                pipe.sadd(self._keys.matched, *map(str, part))
                self._touch(pipe, self._keys.matched)
            for shown in _parts(list(self._shown.items())):
                words = chain.from_iterable(
                    (str(block), task_name(waited.task)) for block, waited in shown
                )
                pipe.eval(_FINISH, 2, self._keys.visible, self._keys.finished, *words)
                self._touch(pipe, self._keys.visible)
                self._touch(pipe, self._keys.finished)
            pipe.execute()

    def finish(self) -> bool:
        with self._pipeline() as pipe:
            for key, names in self._done_waiting().items():
                for part in _parts(names):
                    pipe.hdel(key, *part)
            pipe.get(self._keys.end)
            *_, end = pipe.execute()
        if end is None or not self._is_complete(Totals.model_validate_json(end)):
            return False
        self._give_up()
        return True

    def _matched_now(self) -> list[BlockId]:
        """Blocks of which nothing is unmatched, as far as this batch has seen."""
        matched = [block for block, count in self._counts.items() if count == 0]
        # Nor of those that nothing was counted of: opaque strings, any of which may be a root.
        return matched + [block for block in self._shown if block not in self._counts]

    def _done_waiting(self) -> dict[str, list[str]]:
        fields_by_key: dict[str, list[str]] = {}
        for block, waited in self._shown.items():
            keys = [self._keys.waiting(waited.task), self._keys.held(waited.task)]
            for key in (*keys, *map(self._keys.waiting_into, waited.claimable)):
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
            promises, finished, unmatched, roots = pipe.execute()
        if set(unmatched) - set(roots):
            return False
        for task, text in promises.items():
            promise = _promise(text)
            if promise is None or not promise.whole:
                return False
            if int(finished.get(task, 0)) < promise.blocks:
                return False
        return True

    def _give_up(self) -> None:
        names = cast("set[bytes]", self._redis.smembers(self._keys.names))
        with self._pipeline() as pipe:
            for key in (*self._keys.fixed(), *(name.decode() for name in names)):
                pipe.expire(key, self._lifetimes.complete_s)
            pipe.execute()

    # -- within ------------------------------------------------------------------------------

    def _pipeline(self) -> Pipeline:
        return self._redis.pipeline(transaction=False)

    def _touch(self, pipe: Pipeline, key: str) -> None:
        """After the first write to a key in this batch: it expires, and its name is known."""
        if key not in self._touched:
            self._touched.add(key)
            pipe.expire(key, self._lifetimes.retention_s)
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


def _promise(text: bytes | None) -> Promise | None:
    return None if text is None else Promise(*json.loads(text))


def _marks(values: Mapping[bytes, bytes]) -> Marks:
    return {parse_block(block): read_mark(packed) for block, packed in values.items()}


def _within(marks: Marks, first: int, last: int) -> Iterable[tuple[BlockId, Mark]]:
    return [item for item in marks.items() if item[1].low <= last and item[1].high >= first]


def _members(producers: Sequence[bytes], consumers: Sequence[bytes]) -> Members:
    return list(map(parse_block, producers)), list(map(parse_block, consumers))


def _parts(items: Sequence[Any], size: int = PART) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
