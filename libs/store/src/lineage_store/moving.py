"""From another store into a lake: an application is copied in one commit, compared, and only then deleted where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lineage_core.codec.packing import pack_edge, pack_for_store
from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.message import Heartbeat, dump_message
from lineage_core.linking.linker import TaskId
from lineage_core.tracing.budget import current_budget
from lineage_store.copying import BLOCKS_AT_ONCE
from lineage_store.errors import StoreError
from lineage_store.parts import in_parts
from lineage_store.port import GraphStore

if TYPE_CHECKING:
    from lineage_store.lake.store import LakeStore

_MODULUS: Final = 1 << 128


class ChangedError(StoreError):
    """The application was written to while it was copied, or the copy is not what was copied; nothing was deleted."""


@dataclass(frozen=True, slots=True)
class Contents:
    """Counts and digests of all that a store has of an application; equal where it has the same, in whatever order."""

    messages: int
    messages_digest: int
    blocks: int
    blocks_digest: int
    edges: int
    edges_digest: int
    seals_digest: int


@dataclass(frozen=True, slots=True)
class Moved:
    """An application that is in the lake now. ``copied``: false if all of it was there already."""

    app: str
    contents: Contents
    copied: bool


def contents_of(store: GraphStore, app: str) -> Contents:
    """Read all of an application, part by part.

    Raises:
        KeyError: there is no such application.
    """
    graph = store.graph(app)
    messages = _Sum()
    for message in store.messages(app):
        messages.add(dump_message(message).encode())
    blocks, edges = _Sum(), _Sum()
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        current_budget().check()
        ids = [ref.block_id for ref in refs]
        loaded = graph.load(ids)
        for ref in refs:
            state = f"{ref.block_id} {ref.task} {ref.exact} {ref.reason} {ref.unmatched} "
            blocks.add(state.encode() + pack_for_store(loaded[ref.block_id]).data)
        for edge in graph.edges_into(ids):
            named = f"{edge.producer} {edge.consumer} {edge.pairs} "
            edges.add(named.encode() + (pack_edge(edge) or b""))
    seals = _Sum()
    for seal in graph.seals():
        seals.add(f"{seal.space} {seal.to_text()}".encode())
    return Contents(
        *(messages.count, messages.digest),
        *(blocks.count, blocks.digest),
        *(edges.count, edges.digest),
        seals.digest,
    )


class _Sum:
    """A digest of a set, in whatever order it comes."""

    def __init__(self) -> None:
        self.count = self.digest = 0

    def add(self, item: bytes) -> None:
        self.count += 1
        self.digest = (self.digest + int.from_bytes(_digest(item), "big")) % _MODULUS


@dataclass(frozen=True, slots=True)
class Names:
    """What a store has of an application: digests of its messages, and of the names of its blocks and edges; of its problems; its latest heartbeat.

    Of heartbeats stores keep the latest alone, and seals only speed traces up.
    """

    digests: frozenset[bytes]
    problems: frozenset[bytes]
    beat: tuple[int, float]

    def has_all_of(self, other: Names) -> bool:
        """Whether nothing of the other is missing."""
        return (
            self.has_lineage_of(other)
            and self.problems >= other.problems
            and self.beat >= other.beat
        )

    def has_lineage_of(self, other: Names) -> bool:
        """The same, but for problems, which may have been mended, and heartbeats."""
        return self.digests >= other.digests


def names_of(store: GraphStore, app: str) -> Names:
    """What a store has of an application now.

    Raises:
        KeyError: there is no such application.
    """
    graph = store.graph(app)
    digests = set[bytes]()
    beat = (-1, 0.0)
    for message in store.messages(app):
        if isinstance(message, Heartbeat):
            beat = max(beat, (message.beat, message.at))
        else:
            digests.add(_digest(b"message " + dump_message(message).encode()))
    problems = {_digest(f"problem {at}".encode()) for at in store.counts(app).problems.items()}
    ids = [ref.block_id for ref in graph.blocks()]
    digests.update(_digest(f"block {block_id}".encode()) for block_id in ids)
    for some in in_parts(ids, BLOCKS_AT_ONCE):
        current_budget().check()
        for edge in graph.edges_into(some):
            digests.add(_digest(f"edge {edge.producer} {edge.consumer} {edge.pairs}".encode()))
    return Names(frozenset(digests), frozenset(problems), beat)


def _digest(item: bytes) -> bytes:
    return hashlib.blake2b(item, digest_size=16).digest()


def move_application(
    source: GraphStore,
    lake: LakeStore,
    app: str,
    *,
    deletes: bool = True,
    copied: Callable[[], None] = lambda: None,
) -> Moved:
    """Copy an application into the lake, compare both, and delete it in the source (``deletes``).

    May be called again at any time, whatever became of an earlier call: what is there already is not copied again, and of an
    application whose deletion was interrupted the rest is deleted.
    ``copied`` is called between the comparison and the deletion.

    Raises:
        KeyError: the source has no such application.
        ChangedError: it was written to meanwhile; call this again.
        StoreError: a store can't be read or written.
    """
    revision = source.revision(app)
    wanted = contents_of(source, app)
    problems = dict(source.counts(app).problems)
    was_there = _has(lake, app, wanted, problems) or _is_rest(source, lake, app)
    if not was_there:
        _copy(source, lake, app, problems)
        if not _has(lake, app, wanted, problems):
            raise ChangedError(
                f"{app} in {lake.address} is not what it is in the store it comes from: it has other lineage there already, "
                "or was written to meanwhile; nothing was deleted"
            )
    if source.revision(app) != revision or contents_of(source, app) != wanted:
        raise ChangedError(
            f"{app} was written to while it was copied; it was not deleted: try again"
        )
    copied()
    if deletes:
        source.delete(app)
    return Moved(app, wanted, copied=not was_there)


def _has(lake: LakeStore, app: str, wanted: Contents, problems: dict[str, str]) -> bool:
    try:
        return contents_of(lake, app) == wanted and lake.counts(app).problems == problems
    except KeyError:
        return False


def _is_rest(source: GraphStore, lake: LakeStore, app: str) -> bool:
    """Whether the source has less of an application than the lake, and nothing that the lake has not: its deletion was interrupted.

    Raises:
        ChangedError: the lake has lineage of this id that the source has not: were it copied beside that, both would be one afterwards.
    """
    try:
        there = names_of(lake, app)
    except KeyError:
        return False
    here = names_of(source, app)
    if here != there and there.has_all_of(here):
        return True
    if not here.has_lineage_of(there):
        raise ChangedError(
            f"{app} has other lineage in {lake.address}, as of another run with this id: nothing was copied or deleted; "
            "remove the one that is of no use from its store, by `lineage --store STORE rm APP`"
        )
    return False


def _copy(source: GraphStore, lake: LakeStore, app: str, problems: dict[str, str]) -> None:
    graph: FlowGraph = source.graph(app)
    silent_s = source.counts(app).silent_s or 0.0
    # Seals first, as in `copying`: all edges of their spaces exist by then.
    seals = graph.seals()
    known = lake.unmatched(app)
    writer = lake.writer(app, lake.now() - silent_s)
    for message in source.messages(app):
        writer.message(message)
    writer.problems(problems)
    for refs in in_parts(graph.blocks(), BLOCKS_AT_ONCE):
        blocks_by_id = graph.load(ref.block_id for ref in refs)
        for ref in refs:
            block_id = ref.block_id
            task = TaskId(ref.task, block_id.partition, block_id.attempt)
            writer.block(task, pack_for_store(blocks_by_id[block_id]))
            if ref.unmatched or block_id in known:
                writer.unmatched(block_id, ref.unmatched)
    for consumers in in_parts(sorted(writer.blocks), BLOCKS_AT_ONCE):
        for edge in graph.edges_into(consumers):
            # Without edges of blocks that arrived since.
            if edge.producer in writer.blocks:
                writer.edge(edge)
    for seal in seals:
        writer.seal(seal)
    writer.commit()
