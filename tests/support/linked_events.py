"""What writers of Kafka's records are given for one application, and what it comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from lineage_core.codec.edge_message import (
    Links,
    PackedEdge,
    StoredBlock,
    packed_edge,
    stored_block,
)
from lineage_core.codec.packing import pack_for_store, unpack_edge
from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Begin, Commit, Message, Register
from lineage_core.linking.joining import join_entry_of
from lineage_core.linking.linker import Linker, MemoryState, TaskId
from lineage_store.sqlite.store import SqliteStore
from lineage_writer.loading import TransactionWriter
from tests.property.test_linking_property import Case
from tests.support.spool_builder import APP, block

T = TypeVar("T")

Event = Message | StoredBlock | Links


class TransactionStore(Protocol):
    """A store that takes what was linked elsewhere."""

    def in_transaction(self, work: Callable[[TransactionWriter], T], /) -> T: ...


def give(store: TransactionStore, events: Iterable[Event]) -> None:
    """Load events in one transaction."""

    def work(loading: TransactionWriter) -> None:
        for event in events:
            match event:
                case StoredBlock():
                    loading.block(event)
                case Links():
                    loading.links(event)
                case _:
                    loading.message(event)

    store.in_transaction(work)


def stored(case: Case) -> list[StoredBlock]:
    return [stored_block(APP, task, pack_for_store(made)) for task, made in case.blocks]


def of_the_app(case: Case) -> Case:
    """The same without opaque texts, which these blocks lack."""
    spaces = {OPAQUE_SPACE: "3@1"}
    blocks = [
        (
            task,
            replace(
                made,
                app=APP,
                in_space=spaces.get(made.in_space, made.in_space),
                out=tuple(
                    replace(part, space=spaces.get(part.space, part.space)) for part in made.out
                ),
            ),
        )
        for task, made in case.blocks
    ]
    return Case(tuple(blocks), case.commits)


def linked(case: Case) -> tuple[set[BlockId], list[PackedEdge], dict[BlockId, int]]:
    """Visible blocks, edges, unmatched positions."""
    state = MemoryState()
    linker = Linker(state)
    edges = []
    visible: set[BlockId] = set()
    for task, made in case.blocks:
        linker.receive(task, join_entry_of(made))
    for task in case.commits:
        found = linker.commit(task)
        edges += [packed_edge(edge) for edge in found.edges]
        visible.update(found.visible)
    linker.recount_unmatched()
    return visible, edges, {one: state.unmatched(one) for one in visible}


def begun(case: Case) -> list[Message]:
    """Messages of an application in which some tasks were computed twice, differently."""
    nodes = sorted({task.node for task, _ in case.blocks})
    messages: list[Message] = [Begin(app=APP, name="job", started_at=1.0)]
    messages += [Register(app=APP, node=node, kind="operator", op="map") for node in nodes]
    for task in case.commits:
        fields: dict[str, Any] = {"app": APP, "node": task.node, "partition": task.partition}
        messages.append(Commit(attempt=task.attempt, digest=task.node, blocks=1, **fields))
        if task.node in "02":
            messages.append(
                Commit(attempt=100, digest=task.node if task.node == "0" else "", **fields)
            )
    return messages


def events_of(case: Case) -> list[Event]:
    """All of a case: messages, blocks, what makes them visible, edges, and counts of which the smallest is true."""
    shown, edges, unmatched = linked(case)
    events: list[Event] = [*begun(case), *stored(case)]
    events += [Links(APP, visible=[one]) for one in sorted(shown)]
    events += [Links(APP, edges=[edge]) for edge in edges]
    for one, count in unmatched.items():
        events += [Links(APP, unmatched=[(one, count + more)]) for more in (0, 3, 2**64)]
    return events


def write_case(store: SqliteStore, case: Case) -> None:
    """Store what a case comes to."""
    shown, edges, unmatched = linked(case)
    seen = {made.block_id: (task, made) for task, made in case.blocks if made.block_id in shown}
    store.write(
        APP,
        begun(case),
        [made for _, made in seen.values()],
        tasks={one: task for one, (task, _) in seen.items()},
        unmatched=unmatched,
    )
    store.write(APP, edges=[loaded(edge) for edge in edges])


def loaded(edge: PackedEdge) -> EdgeBatch:
    """An edge as stores read it."""
    columns = (None, None) if edge.data is None else unpack_edge(edge.pairs, edge.data)
    return EdgeBatch(edge.producer, edge.consumer, edge.pairs, *columns)


def crowd() -> list[Event]:
    """Forty blocks, each of one half linked to each of the other."""
    events: list[Event] = [Begin(app=APP, name="job", started_at=1.0)]
    ids: dict[str, list[BlockId]] = {"4": [], "6": []}
    for at in range(20):
        for node, source, target in (("4", f"1#{at}", "4@0"), ("6", "4@0", f"6#{at}")):
            block_id = BlockId(node, at, at, 0)
            ids[node].append(block_id)
            made = block(block_id, source, [(target, [([at], 5)])])
            events.append(stored_block(APP, TaskId(node, at, at), pack_for_store(made)))
            events.append(Commit(app=APP, node=node, partition=at, attempt=at, blocks=1))
            events.append(Links(APP, [block_id], [(block_id, at)]))
    for producer in ids["4"]:
        for consumer in ids["6"]:
            events.append(Links(APP, edges=[PackedEdge(producer, consumer, 1, None)]))
    return events
