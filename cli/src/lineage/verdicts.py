"""The completeness verdict of an application, computed and shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import typer

from lineage_core.graph import NodeRecord
from lineage_core.verdict import Verdict, judge
from lineage_store.port import GraphStore


def verdict_of(store: GraphStore, app: str) -> Verdict:
    """The verdict as things stand now."""
    return judge(store.messages(app), store.counts(app), now=time.time())


def with_reasons(nodes: Sequence[NodeRecord], verdict: Verdict) -> list[NodeRecord]:
    """Nodes as exact as the verdict says: tasks and blocks may have told more than the program."""
    return [
        replace(node, exact=False, reason="; ".join(verdict.superset[node.node]))
        if node.node in verdict.superset
        else node
        for node in nodes
    ]


def show_verdict(app: str, verdict: Verdict) -> None:
    """Print a verdict for people."""
    typer.echo(f"{app}: {'complete' if verdict.complete else 'incomplete'} ({verdict.status})")
    typer.echo(f"  tasks   {verdict.tasks_committed:,} of {verdict.tasks_expected:,} committed")
    typer.echo(
        f"  blocks  {verdict.blocks_received:,} of {verdict.blocks_expected:,} received, "
        f"{verdict.blocks_linked:,} linked"
    )
    typer.echo(f"  flows   {verdict.flows:,}")
    if verdict.collisions:
        typer.echo(f"  keys    {verdict.collisions:,} share a position with another key")
    for node, (seen, captured) in verdict.limited.items():
        share = f"{captured:,} of {seen:,} records ({captured / max(seen, 1):.2%})"
        typer.echo(f"  limited at node {node}: {share} have lineage")
    for reason in verdict.reasons:
        typer.echo(f"  - {reason}")
    if verdict.superset:
        typer.echo("not exact (more inputs named than were used, never fewer):")
        for node, reasons in verdict.superset.items():
            typer.echo(f"  - node {node}: {'; '.join(reasons)}")
