"""The verdicts on an application, shown: was all received, and can all outputs' rows be traced?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lineage.access import Access
from lineage.terminal import echo
from lineage_core.contract.verdict import Verdict
from lineage_query.finding import NotFoundError

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Looking:
    """How far ``lineage verify`` looks. ``probe_rows``: of each DataFrame's output; None: no probe."""

    access: Access
    received_only: bool
    probe_rows: int | None

    def further(self, app: str, verdict: Verdict) -> Verdict:
        """The verdict with whether rows can be traced, where that is asked for."""
        if self.received_only:
            return verdict
        verdict = self.access.answerable(app, verdict)
        if self.probe_rows is None:
            return verdict
        return self.access.probed(app, verdict, self.probe_rows)

    def is_right(self, verdict: Verdict) -> bool:
        """Whether nothing that was looked at is wrong."""
        return verdict.complete and (self.received_only or verdict.answerable is not False)


def earlier_verdicts(looking: Looking, verdict: Verdict) -> Iterator[tuple[str, Verdict | None]]:
    """The verdicts on what the same run of the program captured before; None: the store has nothing of it."""
    for app in verdict.earlier:
        try:
            # Where it is not there, its id may be the beginning of another.
            is_known = looking.access.find(app) == app
        except NotFoundError:
            is_known = False
        yield app, looking.further(app, looking.access.verdict(app)) if is_known else None


def run_json(app: str, verdict: Verdict, earlier: Mapping[str, Verdict | None]) -> dict[str, Any]:
    """The verdict on a run: that on its latest application, complete where all of them are."""
    earlier_runs = [
        {"app": name} | ({"complete": False} if verdict_ is None else verdict_.to_json())
        for name, verdict_ in earlier.items()
    ]
    complete = verdict.complete and all(run["complete"] for run in earlier_runs)
    return {"app": app} | verdict.to_json() | {"complete": complete, "earlier": earlier_runs}


def show_earlier(app: str, verdict: Verdict | None) -> None:
    """Print the verdict on an earlier application of a run for people."""
    if verdict is None:
        echo(f"{app}: incomplete (nothing of it is in the store)")
    else:
        show_verdict(app, verdict)


def show_verdict(app: str, verdict: Verdict) -> None:
    """Print a verdict for people."""
    echo(f"{app}: {'complete' if verdict.complete else 'incomplete'} ({verdict.status})")
    echo(f"  tasks   {verdict.tasks_committed:,} of {verdict.tasks_expected:,} committed")
    echo(
        f"  blocks  {verdict.blocks_received:,} of {verdict.blocks_expected:,} received, "
        f"{verdict.blocks_linked:,} linked"
    )
    echo(f"  flows   {verdict.flows:,}")
    if verdict.recipes_expected or verdict.recipes_received:
        echo(f"  recipes {verdict.recipes_received:,} of {verdict.recipes_expected:,} received")
    if verdict.collisions:
        echo(f"  keys    {verdict.collisions:,} share a position with another key")
    for node, (seen, captured) in verdict.limited.items():
        share = f"{captured:,} of {seen:,} records ({captured / max(seen, 1):.2%})"
        echo(f"  limited at node {node}: {share} have lineage")
    for reason in verdict.reasons:
        echo(f"  - {reason}")
    for line in _answers(verdict):
        echo(line)
    if verdict.superset:
        echo("not exact (more inputs named than were used, never fewer):")
        for node, reasons in verdict.superset.items():
            echo(f"  - node {node}: {'; '.join(reasons)}")


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
        for refusal in verdict.refusals:
            yield f"  - {refusal.text}"
    if verdict.unchecked:
        count = "1 output was" if verdict.unchecked == 1 else f"{verdict.unchecked:,} outputs were"
        yield f"whether rows can be traced is not known: {count} not looked at"
