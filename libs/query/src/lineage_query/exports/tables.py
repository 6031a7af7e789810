"""Items as rows of a table, some at a time: what CSV, Arrow and Parquet share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import NodeItems
from lineage_query.answers import Answer, Composer, Item
from lineage_query.exports.options import ExportOptions
from lineage_query.record_trace import FOUND, IN_BETWEEN, START, RecordTrace

COLUMNS = ("role", "node", "name", "address", "location", "text", "exact", "binding", "app")
"""``role``: found, start (an item of the query) or way (in between). ``node``: the name of the node, and
``name`` its operation. ``location`` and ``text`` are empty if there are none. ``exact`` is false
if the item may not have taken part: on every path to it some node reports more inputs than it used.
``binding``: the evidence that the text is that of the row the job processed: checksum, state (size and modification
time of the file), or now: the text is the current one at that position, maybe another row's. Empty if the text is
stored with the lineage, or there is none.
``app``: the application of the node."""


@dataclass(frozen=True, slots=True)
class TableBatch:
    """Items of one node that are the same to the trace."""

    role: str
    node: str
    name: str
    exact: list[bool]
    items: list[Item]
    app: str


def batches(
    traced: RecordTrace, composer: Composer, options: ExportOptions, through: Collection[str] = ()
) -> Iterator[TableBatch]:
    """All rows of a table, some thousands at a time, by node in order of creation.

    ``through``: nodes whose references to rows of DataFrames are left out, since the trace continues there.
    """
    nodes = {node.node: node for node in traced.graph.nodes()}
    roles = (FOUND, START, IN_BETWEEN) if options.in_between else (FOUND,)
    exact_items = traced.surely_taking_part()
    for role, node_items in traced.roles(*roles):
        if role == FOUND and node_items.node in through:
            continue
        record = nodes.get(node_items.node)
        label = traced.names.label(node_items.node)
        operation = "" if record is None else record.name or record.op
        if is_file_node(node_items.node):
            # Bytes are listed in parts.
            for exact_part, items in _parts(node_items, exact_items, composer, options):
                current_budget().count_name(operation, len(items))
                yield TableBatch(
                    role, label, operation, [exact_part] * len(items), items, traced.app
                )
            continue
        for space, positions, items in composer.batches(node_items, texts=options.texts):
            current_budget().count_name(operation, len(items))
            exact = exact_items.get(space, Region()).contains(positions).tolist()
            yield TableBatch(role, label, operation, exact, items, traced.app)


def _parts(
    node_items: NodeItems,
    exact_items: Mapping[str, Region],
    composer: Composer,
    options: ExportOptions,
) -> Iterator[tuple[bool, list[Item]]]:
    """Parts of a file, those that are exact apart from others."""
    for space, region in node_items.spaces.items():
        exact = region & exact_items.get(space, Region())
        for is_exact, part in ((True, exact), (False, region - exact)):
            of_part = NodeItems(node_items.node, {space: part})
            items = composer.group(of_part, None, texts=options.texts).items
            if items:
                yield is_exact, list(items)


def batches_of(answer: Answer, options: ExportOptions) -> Iterator[TableBatch]:
    """All rows of a table of an answer that lists all of its items."""
    shown = answer if options.texts else answer.without_texts()
    roles = [(FOUND, shown.groups), *([(START, shown.start)] if options.in_between else [])]
    for role, groups in roles:
        for group in groups:
            items = list(group.items)
            current_budget().count_name(group.what, len(items))
            exact = [answer.exact] * len(items)
            app = group.app or answer.app
            yield TableBatch(role, group.label, group.what, exact, items, app)


def batches_through(
    traced: RecordTrace, answer: Answer, composer: Composer, options: ExportOptions
) -> Iterator[TableBatch]:
    """All table rows of a trace of records, and of the answer in which it continues through DataFrames."""
    result_nodes, outgrown = set(traced.result.found), traced.outgrown_by(answer)
    ends = {group.node for group in answer.groups}
    beyond = tuple(group for group in answer.groups if group.node not in result_nodes - outgrown)
    yield from batches(traced, composer, options, through=(result_nodes - ends) | outgrown)
    yield from batches_of(replace(answer, start=(), groups=beyond), options)


def facts(traced: RecordTrace) -> dict[str, str]:
    """Facts about the whole trace, as short texts."""
    return {
        "application": traced.app,
        "direction": traced.direction.value,
        "from": "\n".join(traced.requested_places),
        "exact": yes(traced.result.exact),
        "complete": yes(traced.complete),
        "reasons": "\n".join(traced.result.reasons),
    }


def answer_facts(answer: Answer) -> dict[str, str]:
    """The same of an answer."""
    return {
        "application": "\n".join(answer.apps or (answer.app,)),
        "direction": answer.direction.value,
        "from": "\n".join(answer.requested_places),
        "exact": yes(answer.exact),
        "complete": yes(answer.complete),
        "reasons": "\n".join(answer.reasons),
    }


def yes(fact: bool) -> str:
    """A fact as a text."""
    return "true" if fact else "false"


def encodable_text(text: str) -> str:
    """A text that UTF-8 can hold: what an SDK named may have lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text
