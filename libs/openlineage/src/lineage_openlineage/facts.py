"""The facts about an application that OpenLineage events report."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid5

from lineage_core.contract.message import Begin, End, Heartbeat
from lineage_core.contract.verdict import VERDICT_MESSAGE_TYPES, Verdict, judge
from lineage_openlineage.datasets import (
    RunDataset,
    each_once,
    inputs_of,
    outputs_of,
    unfiled_uses,
)
from lineage_openlineage.derivations import Derivations, derivations_of
from lineage_openlineage.errors import OpenLineageError
from lineage_openlineage.naming import Naming
from lineage_openlineage.uses import Uses, uses_of, version_of
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FILE_MESSAGES

RUNS = UUID("0c9f8f6e-5d0b-5c8e-9a53-5b1f3d1c7a40")
"""Namespace of run ids: one application is one run, however often it is published."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One application as a run. Times in unix seconds; ``ended_at`` is None while it runs.

    ``name``: of the job. ``derivations``: None where they are not asked for, or not all of the lineage is there.
    """

    app: str
    name: str
    naming: Naming
    started_at: float
    heard_at: float
    ended_at: float | None
    spark_version: str
    verdict: Verdict
    blocks: int
    associations: int
    inputs: Sequence[RunDataset]
    outputs: Sequence[RunDataset]
    derivations: Derivations | None = None

    @property
    def run_id(self) -> str:
        """The same for the same application, so that what is sent twice is one run."""
        return str(run_id(self.app))

    @property
    def exact(self) -> bool:
        """Whether no node names more inputs than it used."""
        return self.verdict.exact


def run_id(app: str) -> UUID:
    """The run of an application."""
    return uuid5(RUNS, app)


def facts_of(
    store: GraphStore,
    app: str,
    *,
    naming: Naming | None = None,
    now: float | None = None,
) -> RunFacts:
    """The facts to publish about an application.

    Raises:
        KeyError: there is no such application.
        OpenLineageError: its start time is unknown.
    """
    graph = store.graph(app)
    at = time.time() if now is None else now
    verdict = judge(store.messages(app, *VERDICT_MESSAGE_TYPES), store.counts(app), now=at)
    begin, heard_at, ended_at = _frame(store, app)
    nodes = graph.nodes()
    messages = list(store.messages(app, *FILE_MESSAGES))
    paths = {node.node: node.path or "" for node in nodes}
    read, written = uses_of(messages, lambda node: paths.get(node, ""), begin.cwd)
    tables_read, tables_written = unfiled_uses(messages)
    naming = naming or Naming()
    has_all = verdict.complete and verdict.final
    return RunFacts(
        app=app,
        name=begin.name or app,
        naming=naming,
        started_at=begin.started_at,
        heard_at=heard_at,
        ended_at=ended_at,
        spark_version=begin.spark_version,
        verdict=verdict,
        blocks=sum(node.blocks for node in nodes),
        associations=sum(node.associations for node in nodes),
        inputs=_with_versions([*inputs_of(graph, begin.cwd), *tables_read], read),
        outputs=_with_versions([*outputs_of(graph, begin.cwd), *tables_written], written),
        derivations=derivations_of(graph, read, written)
        if naming.lineage_facet and has_all
        else None,
    )


def _with_versions(datasets: Sequence[RunDataset], uses: Uses) -> list[RunDataset]:
    """Datasets, each once, with the versions in which a run used them."""
    return [
        replace(
            dataset, version=version_of(uses.get((dataset.namespace, dataset.name), {}).values())
        )
        for dataset in each_once(datasets)
    ]


def _frame(store: GraphStore, app: str) -> tuple[Begin, float, float | None]:
    """The begin message, the time of the last message, and the end time."""
    begin: Begin | None = None
    heartbeats: list[float] = []
    ended_at: float | None = None
    for message in store.messages(app, "begin", "heartbeat", "end"):
        match message:
            case Begin():
                begin = message
                heartbeats.append(message.started_at)
            case Heartbeat():
                heartbeats.append(message.at)
            case End():
                ended_at = message.ended_at
                heartbeats.append(message.ended_at)
            case _:
                pass
    if begin is None:
        raise OpenLineageError(
            f"the beginning of {app} was never received (`{shlex.join(['lineage', 'verify', app])}`): events "
            "require the start time, which is not known"
        )
    return begin, max(heartbeats), ended_at
