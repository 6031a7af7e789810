"""The published graph in Neo4j: a node a flow, linked afterwards by APOC.

Of the published properties (docs/adr/0010) ``name`` and ``description`` are left out: they say the
same for all flows of a node. One index serves both linking and the published backward query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import neo4j

from benchmarks.baselines.record_level.events import Event

DATABASE = "neo4j"
BATCH = 10_000
"""Nodes, or links, a transaction."""
HOPS_MAX = 30
"""Capture points on the longest way from a source to a sink, and some."""

INDEX = "CREATE INDEX lineage_flow_hash_out IF NOT EXISTS FOR (f:LineageFlow) ON (f.hashOut)"
LOAD = """
UNWIND $rows AS row
CREATE (:LineageFlow {flowId: row[0], hashIn: row[1], hashOut: row[2], val: row[3],
                      applicationId: row[4], nodeId: row[5]})
"""
# What was read has no flow before it: its name is no hash. Pairs, so that a transaction makes a bounded
# number of links: one flow may be linked with a million.
PAIRS = """
MATCH (later:LineageFlow) WHERE later.applicationId = $app AND NOT later.hashIn STARTS WITH 'read#'
MATCH (flow:LineageFlow {hashOut: later.hashIn})
RETURN flow, later
"""
LINK = "CREATE (flow)-[:flow]->(later)"
ITERATE = """
CALL apoc.periodic.iterate($pairs, $link, {batchSize: $batch, parallel: false, params: {app: $app}})
YIELD failedOperations, errorMessages RETURN failedOperations, errorMessages
"""
COUNT_FLOWS = "MATCH (f:LineageFlow) WHERE f.applicationId = $app RETURN count(f) AS found"
COUNT_LINKS = """
MATCH (:LineageFlow)-[link:flow]->(f:LineageFlow) WHERE f.applicationId = $app
RETURN count(link) AS found
"""
BACK = f"""
MATCH (end:LineageFlow) WHERE end.hashOut = $name AND end.applicationId = $app
MATCH (end)<-[:flow*0..{HOPS_MAX}]-(flow) WHERE flow.hashIn STARTS WITH 'read#'
RETURN DISTINCT flow.hashIn AS name
"""


class LinkError(Exception):
    """Linking failed."""


@dataclass(frozen=True)
class Keyed:
    """An event with what its message's key says."""

    event: Event
    app: str
    node: str


class RecordGraph:
    """The flows in a Neo4j."""

    def __init__(self, driver: neo4j.Driver) -> None:
        self._driver = driver

    def prepare(self) -> None:
        """Make the index. Repeatable."""
        self._ask(INDEX)
        self._ask("CALL db.awaitIndexes(300)")

    def load(self, flows: Iterable[Keyed]) -> None:
        """Add flows in one transaction."""
        rows = [[*flow.event[:3], flow.event.val or None, flow.app, flow.node] for flow in flows]
        self._ask(LOAD, rows=rows)

    def link(self, app: str) -> None:
        """Link all flows of an application; once.

        Raises:
            LinkError: APOC says that some are not.
        """
        (result,) = self._ask(ITERATE, pairs=PAIRS, link=LINK, batch=BATCH, app=app)
        if result["failedOperations"]:
            raise LinkError(f"{result['failedOperations']} not linked: {result['errorMessages']}")

    def counts(self, app: str) -> dict[str, int]:
        """How many flows and links there are."""
        return {
            "flows": self._ask(COUNT_FLOWS, app=app)[0]["found"],
            "links": self._ask(COUNT_LINKS, app=app)[0]["found"],
        }

    def back(self, app: str, name: str) -> list[str]:
        """Names of the source records behind a record of the output, by the published query."""
        return [row["name"] for row in self._ask(BACK, app=app, name=name)]

    def _ask(self, query: str, **parameters: Any) -> Sequence[neo4j.Record]:
        # One writer: nothing that would have to be tried again.
        with self._driver.session(database=DATABASE) as session:
            return list(session.run(query, parameters))
