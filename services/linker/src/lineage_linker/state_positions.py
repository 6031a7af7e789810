"""Up to where the state in Redis holds what the topics say: kept in the state itself.

Redis may lose its data (FLUSHALL, a lost volume) or come back as it was before (a fail-over to a
replica that lagged, an old dump). Kafka's committed offsets know nothing of that. So the state itself says
up to which offset of each partition it is: that moves after all that it stands for is written, and a state
that is lost or older stands at an older place, or at none. There the linker reads on (docs/adr/0006).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import cast

import structlog
from redis import Redis

from lineage_linker.errors import StateLostError
from lineage_linker.keys import PREFIX
from lineage_linker.records import Incoming

EPOCH = "epoch"
_COMMITTED_PREFIX = "behind:"
"""Before a partition: the committed offset that its position was found to be behind."""

# Moves positions (name, least, from, to, ...) and says which have moved. Where one is missing or below what
# was acked all stay, and its name comes behind a 0. One that does not stand where it is to be moved from
# stays, too: what lies between is done again by its worker.
_ADVANCE = """
for at = 1, #ARGV, 4 do
  local stands = tonumber(redis.call('HGET', KEYS[1], ARGV[at]) or '-1')
  if stands < tonumber(ARGV[at + 1]) then return {'0', ARGV[at]} end
end
local moved = {}
for at = 1, #ARGV, 4 do
  local stands = tonumber(redis.call('HGET', KEYS[1], ARGV[at]))
  local to = tonumber(ARGV[at + 3])
  if stands >= tonumber(ARGV[at + 2]) and stands < to then
    redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 3])
    stands = to
  end
  if stands >= to then moved[#moved + 1] = ARGV[at] end
end
return moved
"""

Partition = tuple[str, int]
"""Topic and number."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StateStatus:
    """How the state is. ``records_to_reread``: records of this worker that were acked once and are read again."""

    epoch: str
    records_to_reread: int


@dataclass(slots=True)
class _PartitionOffsets:
    """What this worker knows of a partition of its own.

    ``acked``: what the state must have, or it was lost. ``reached``: where it stands after all batches.
    """

    acked: int
    reached: int


class StatePositions:
    """The positions of one group of linkers. For one thread at a time.

    Raises:
        redis.RedisError: from every method that asks Redis.
    """

    def __init__(self, redis: Redis, group: str) -> None:
        self._redis = redis
        self._key = f"{PREFIX}positions:{group}"
        self._generation = -1
        self._offsets: dict[Partition, _PartitionOffsets] = {}

    def locate(
        self, generation: int, committed: Mapping[Partition, int | None]
    ) -> dict[Partition, int]:
        """Where to begin in each partition of a new assignment; 0: with the first record.

        ``committed``: by Kafka; None where nothing is, or it is of another log. Never behind it: what it
        is ahead of was done and not acked, and is done again. The position stays where it is ahead: the
        worker that moved it there may still look whether it is.
        """
        stored = self._stored()
        starts: dict[Partition, int] = {}
        changed: dict[str, str | int] = {}
        for partition, acked in committed.items():
            name = _name(partition)
            stored_offset = int(stored.get(name, 0))
            starts[partition] = min(stored_offset, acked or 0)
            if not acked or name not in stored:
                changed[name] = starts[partition]
            if stored_offset < (acked or 0):
                log.error(
                    "state_is_behind", partition=partition, state=stored_offset, committed=acked
                )
                if stored.get(_COMMITTED_PREFIX + name) != str(acked):
                    changed[_COMMITTED_PREFIX + name] = str(acked)
                    # Of links that were made before, this state knows nothing: they say so by the epoch. A
                    # partition without a position was read by a version that kept none, and nothing is lost.
                    if name in stored:
                        changed[EPOCH] = _new_epoch()
        if EPOCH not in stored:
            changed[EPOCH] = _new_epoch()
        if changed:
            self._redis.hset(self._key, items=list(chain.from_iterable(changed.items())))
        self._generation = generation
        self._offsets = {
            partition: _PartitionOffsets(start, start) for partition, start in starts.items()
        }
        return starts

    def check(self) -> StateStatus:
        """The state has all that this worker acked.

        Raises:
            StateLostError: it has not.
        """
        stored, lost_records = self._stored(), 0
        for partition, position in self._offsets.items():
            name = _name(partition)
            stored_offset = int(stored.get(name, -1))
            if stored_offset < position.acked:
                raise _lost(name, position.acked)
            lost_records += max(0, int(stored.get(_COMMITTED_PREFIX + name, 0)) - stored_offset)
        return StateStatus(stored.get(EPOCH, ""), lost_records)

    def advance(self, records: Iterable[Incoming]) -> dict[Partition, int]:
        """The state has all that a batch brought about: where it stands now, for :meth:`confirm`.

        Nothing where the assignment of the records is over, they come again; nor where Redis has lost
        something of this worker's that is not acked: that is done again first (:meth:`rewind`).

        Raises:
            StateLostError: it has not what was acked before.
        """
        ends = self._ends(records)
        words: list[str | int] = []
        for partition, end in ends.items():
            offsets = self._offsets[partition]
            words += [_name(partition), offsets.acked, offsets.reached, end]
        if not words:
            return {}
        answer = cast("list[bytes]", self._redis.eval(_ADVANCE, 1, self._key, *words))
        names = [name.decode() for name in answer]
        if names[:1] == ["0"]:
            raise _lost(names[1], words[words.index(names[1]) + 1])
        return {partition: end for partition, end in ends.items() if _name(partition) in names}

    def confirm(self, moved: Mapping[Partition, int]) -> None:
        """What :meth:`advance` gave was not lost meanwhile."""
        for partition, end in moved.items():
            if partition in self._offsets:
                self._offsets[partition].reached = max(end, self._offsets[partition].reached)

    def rewind(self) -> None:
        """Another process of Redis answers: what is not acked, and it does not have, is done again.

        Raises:
            StateLostError: it has not what was acked.
        """
        self.check()
        stored = self._stored()
        for partition, position in self._offsets.items():
            position.reached = min(position.reached, int(stored.get(_name(partition), -1)))

    def acked(self, records: Iterable[Incoming]) -> None:
        """Record that records are acked: from now on the state must have them."""
        for partition, end in self._ends(records).items():
            offsets = self._offsets[partition]
            offsets.acked = max(offsets.acked, end)

    def _ends(self, records: Iterable[Incoming]) -> dict[Partition, int]:
        """Offsets behind the last records, of partitions of the current assignment."""
        ends: dict[Partition, int] = {}
        for record in records:
            place = record.place
            partition = place.topic, place.partition
            if record.generation == self._generation and partition in self._offsets:
                ends[partition] = max(ends.get(partition, 0), place.offset + 1)
        return ends

    def _stored(self) -> dict[str, str]:
        fields = cast("dict[bytes, bytes]", self._redis.hgetall(self._key))
        return {name.decode(): value.decode() for name, value in fields.items()}


def _lost(name: str, acked: object) -> StateLostError:
    return StateLostError(
        f"Redis lost the state of {name} up to offset {acked}, or is as it was before: what it "
        "lacks is read again"
    )


def _name(partition: Partition) -> str:
    topic, number = partition
    return f"{topic}/{number}"


def _new_epoch() -> str:
    return uuid.uuid4().hex[:16]
