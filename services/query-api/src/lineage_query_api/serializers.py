"""Answers of the library as models of the API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.contract.reasons import ReasonList, cut_text, listed_reasons
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.folding import Fold, fold_by_call, fold_each, links_between
from lineage_query.answers import Answer, Group, Item
from lineage_query.listing import Listing, Page
from lineage_query.recipe_rows import columns_of
from lineage_query.rows.file_status import has_changed
from lineage_query.set_aside_calls import FailedCall
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query_api.lineages import CachedTrace
from lineage_query_api.models import (
    ApplicationModel,
    CaptureProgress,
    FailedCallList,
    FailedCallModel,
    GraphLink,
    GraphModel,
    GraphNode,
    GroupModel,
    ItemModel,
    ItemPage,
    LinkProgress,
    NodeRef,
    OutputColumn,
    OutputColumns,
    PairsModel,
    Passed,
    ProgressModel,
    TraceModel,
    TracePage,
    WriteProgress,
)
from lineage_store.port import ApplicationRecord

ITEMS_SHOWN = 20
REASONS_SHOWN = 10
SHOWN_CHARS_MAX = 1_000
"""Characters of names and reasons in lists of applications."""
Others: TypeAlias = Callable[[CachedTrace, Answer], list[str]]


NOT_JUDGED = "whether its lineage is complete takes longer to find out than a list may take: ask for it alone"


def application(record: ApplicationRecord, verdict: Verdict | None) -> ApplicationModel:
    """One application of a list, with its first reasons. ``verdict``: None if there was no time for it; then it is not reported as complete."""
    reasons = () if verdict is None else verdict.reasons
    first = ReasonList(reasons, listed_max=REASONS_SHOWN, chars_max=SHOWN_CHARS_MAX)
    return ApplicationModel(
        app=record.app,
        name=cut_text(record.name, SHOWN_CHARS_MAX),
        status=record.status,
        started_at=record.started_at,
        ended_at=record.ended_at,
        flows=record.flows,
        associations=record.associations,
        complete=verdict is not None and verdict.complete,
        final=verdict is not None and verdict.final,
        exact=verdict is not None and not verdict.superset,
        reasons=[NOT_JUDGED] if verdict is None else list(first.items()),
    )


def node_ref(opened: ApplicationSnapshot, node: NodeRecord) -> NodeRef:
    """A node by name."""
    return NodeRef(
        node=node.node,
        label=opened.names.label(node.node),
        what=node.name or node.op,
        path=node.path,
    )


def node_refs(opened: ApplicationSnapshot, *kinds: str) -> list[NodeRef]:
    """The nodes of some kinds, in order of creation."""
    return [node_ref(opened, node) for node in opened.nodes if node.kind in kinds]


def item(listed: Item) -> ItemModel:
    """One item."""
    return ItemModel(
        address=listed.address, location=listed.location, text=listed.text, binding=listed.binding
    )


def items(answered: Iterable[Item]) -> list[ItemModel]:
    """Several items."""
    return [item(listed) for listed in answered]


def group(answered: Group) -> GroupModel:
    """Items of one node."""
    return GroupModel(
        node=answered.node,
        label=answered.label,
        what=answered.what,
        path=answered.path,
        count=answered.count,
        changed=answered.changed,
        gone=answered.gone,
        standing=answered.file_status,
        items=items(answered.items),
    )


def trace(cached: CachedTrace, *, texts: bool, others: Others) -> TraceModel:
    """A trace with its counts and the first items of each node. ``others``: lists what it leaves out of other applications."""
    traced = cached.traced
    answer = traced.answer(ITEMS_SHOWN, texts=texts)
    passed = _passed(
        cached.opened, {node: items.once().count for node, items in traced.items_by_node().items()}
    )
    passed += [
        Passed(node=part.node, label=part.label, count=part.count) for part in traced.beyond()
    ]
    return TraceModel(
        trace=cached.id,
        app=answer.app,
        direction=cached.request.direction,
        request=cached.request,
        exact=answer.exact,
        complete=answer.complete,
        changed=answer.changed,
        reasons=list(answer.reasons),
        warnings=[*answer.warnings, *listed_reasons(others(cached, answer))],
        start=[group(part) for part in answer.start],
        groups=[group(part) for part in answer.groups],
        passed=passed,
        count=traced.count,
        computed=not traced.has_steps,
        through=traced.continues,
        pairs=answer.pairs and PairsModel.model_validate(answer.pairs.to_json()),
    )


def _passed(opened: ApplicationSnapshot, counts: Mapping[str, int]) -> list[Passed]:
    order = [node.node for node in opened.nodes if node.node in counts]
    return [
        Passed(node=node, label=opened.names.label(node), count=counts[node])
        for node in [*order, *sorted(set(counts) - set(order))]
    ]


def trace_page(opened: ApplicationSnapshot, node: str, page: Page) -> TracePage:
    """Items of one node of a trace. ``node``: its id."""
    return TracePage(
        node=node,
        label=opened.names.label(node),
        count=page.count,
        items=items(page.items),
        next=page.following,
        changed=has_changed(page.file_status),
        standing=page.file_status,
    )


def rows_page(
    opened: ApplicationSnapshot, record: NodeRecord, rows: Sequence[Item], following: str | None
) -> ItemPage:
    """Rows of the files of a DataFrame's node: they are those that the job wrote or read, else they are refused."""
    return ItemPage(
        node=record.node,
        label=opened.names.label(record.node),
        what=record.name or record.op,
        path=record.path,
        count=None,
        items=items(rows),
        next=following,
        scanned=len(rows),
        changed=False,
    )


def output_columns(opened: ApplicationSnapshot, node: str, missing: str) -> OutputColumns:
    """The columns by which rows of a DataFrame's node may be queried; none for other nodes.

    ``missing``: why this server can't trace them; empty: it can.
    """
    columns = columns_of(opened.graph, opened.nodes, node)
    return OutputColumns(
        node=node,
        label=opened.names.label(node),
        columns=[OutputColumn(name=name, type=kind) for name, kind in columns],
        traced=not missing,
        missing=missing,
    )


def failed_calls(
    label: str, node: str, calls: Sequence[FailedCall], limit: int, *, more: bool
) -> FailedCallList:
    """The first calls whose rows a node holds."""
    items = [
        FailedCallModel(
            number=call.number,
            function=call.function,
            action=call.action,
            values=list(call.values),
            error=call.error,
        )
        for call in calls[:limit]
    ]
    return FailedCallList(node=node, label=label, items=items, total=len(calls), more=more)


def graph(
    opened: ApplicationSnapshot, links: Sequence[LinkRecord], listing: Listing, *, unfold: bool
) -> GraphModel:
    """The nodes of an application, those of a loop as one."""
    folds = fold_each(opened.nodes) if unfold else fold_by_call(opened.nodes)
    stages = _stages(opened.nodes, links)
    return GraphModel(
        app=opened.app,
        nodes=[_graph_node(opened, fold, stages, listing) for fold in folds],
        links=[GraphLink(src=link.src, dest=link.dest) for link in links_between(folds, links)],
    )


def _graph_node(
    opened: ApplicationSnapshot, fold: Fold, stages: dict[str, str], listing: Listing
) -> GraphNode:
    node = fold.total
    return GraphNode(
        node=node.node,
        label=opened.names.label(node.node),
        what=node.name or node.op,
        path=node.path,
        kind=node.kind,
        op=node.op,
        name=node.name,
        description=node.description,
        call_site=node.call_site,
        exact=node.exact,
        reason=node.reason,
        partitions=node.partitions,
        blocks=node.blocks,
        flows=node.flows,
        associations=node.associations,
        members=[member.node for member in fold.nodes],
        stage=stages[node.node],
        has_items=node.kind in ("source", "sink")
        or any(member.blocks and listing.has_items(member.node) for member in fold.nodes),
    )


def _stages(nodes: Sequence[NodeRecord], links: Sequence[LinkRecord]) -> dict[str, str]:
    """The first node of each node's stage: a stage ends at a shuffle's map side."""
    kind = {node.node: node.kind for node in nodes}
    above = {node.node: node.node for node in nodes}

    def first(node: str) -> str:
        while above[node] != node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    order = {node.node: at for at, node in enumerate(nodes)}
    for link in links:
        if kind.get(link.src, "shuffle") != "shuffle" and link.dest in above:
            upper, lower = sorted((first(link.src), first(link.dest)), key=order.__getitem__)
            above[lower] = upper
    return {node.node: first(node.node) for node in nodes}


def progress(app: str, verdict: Verdict, now: float) -> ProgressModel:
    """How far capture, linking and writing are."""
    return ProgressModel(
        app=app,
        status=verdict.status,
        final=verdict.final,
        complete=verdict.complete,
        capture=CaptureProgress(
            tasks=verdict.tasks_committed, tasks_expected=verdict.tasks_expected
        ),
        link=LinkProgress(
            blocks_expected=verdict.blocks_expected,
            blocks_received=verdict.blocks_received,
            blocks_linked=verdict.blocks_linked,
        ),
        write=WriteProgress(blocks=verdict.blocks_written, flows=verdict.flows),
        updated_at=now,
    )
