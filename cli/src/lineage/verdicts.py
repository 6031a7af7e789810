"""The verdicts on an application, shown: was all received, and can all outputs' rows be traced?"""

from __future__ import annotations

from collections.abc import Iterator

import typer

from lineage_core.verdict import Verdict


def show_verdict(app: str, verdict: Verdict) -> None:
    """Print a verdict for people."""
    typer.echo(f"{app}: {'complete' if verdict.complete else 'incomplete'} ({verdict.status})")
    typer.echo(f"  tasks   {verdict.tasks_committed:,} of {verdict.tasks_expected:,} committed")
    typer.echo(
        f"  blocks  {verdict.blocks_received:,} of {verdict.blocks_expected:,} received, "
        f"{verdict.blocks_linked:,} linked"
    )
    typer.echo(f"  flows   {verdict.flows:,}")
    if verdict.recipes_expected or verdict.recipes_received:
        typer.echo(
            f"  recipes {verdict.recipes_received:,} of {verdict.recipes_expected:,} received"
        )
    if verdict.collisions:
        typer.echo(f"  keys    {verdict.collisions:,} share a position with another key")
    for node, (seen, captured) in verdict.limited.items():
        share = f"{captured:,} of {seen:,} records ({captured / max(seen, 1):.2%})"
        typer.echo(f"  limited at node {node}: {share} have lineage")
    for reason in verdict.reasons:
        typer.echo(f"  - {reason}")
    for line in _answers(verdict):
        typer.echo(line)
    if verdict.superset:
        typer.echo("not exact (more inputs named than were used, never fewer):")
        for node, reasons in verdict.superset.items():
            typer.echo(f"  - node {node}: {'; '.join(reasons)}")


def answers_words(verdict: Verdict) -> str:
    """Whether rows can be traced, in a word or two."""
    if verdict.answerable is None:
        return "not all outputs checked"
    return "answerable" if verdict.answerable else "not answerable"


def _answers(verdict: Verdict) -> Iterator[str]:
    if verdict.answerable:
        yield "answerable: rows of all outputs can be traced"
        return
    if verdict.refusals:
        yield "not answerable: rows of these outputs can't be traced back"
        for one in verdict.refusals:
            yield f"  - {one.text}"
    if verdict.unchecked:
        count = "1 output was" if verdict.unchecked == 1 else f"{verdict.unchecked:,} outputs were"
        yield f"whether rows can be traced is not known: {count} not looked at"
