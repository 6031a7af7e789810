"""The verdicts on an application, shown: was all received, and can all outputs' rows be traced?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lineage.access import Access
from lineage.terminal import echo
from lineage_core.contract.verdict import Verdict
from lineage_core.html_parts import block, heading, mime_bundle, note, table, text
from lineage_query.finding import NotFoundError

LATEST = "latest"
NOT_EXACT = "not exact (more inputs named than were used, never fewer)"
_TONES = {True: "good", False: "bad", None: "doubtful"}


@dataclass(frozen=True, slots=True)
class Looking:
    """How far ``lineage verify`` looks. ``probe_rows``: of each DataFrame's output; None: no probe."""

    access: Access
    received_only: bool
    probe_rows: int | None

    def further(self, app: str, verdict: Verdict) -> Verdict:
        """The verdict, with whether rows can be traced where requested: for that all is read that a lake has."""
        if self.received_only:
            return verdict
        verdict = self.access.files_read(app, verdict)
        verdict = self.access.answerable(app, verdict)
        if self.probe_rows is None:
            return verdict
        return self.access.probed(app, verdict, self.probe_rows)

    def is_right(self, verdict: Verdict) -> bool:
        """Whether no check found a problem."""
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
    for line in _lines(app, verdict):
        echo(line)


def _lines(app: str, verdict: Verdict) -> Iterator[str]:
    yield f"{app}: {_completeness(verdict)} ({verdict.status})"
    if verdict.status == "damaged":
        # Nothing of it was counted.
        yield from (f"  - {reason}" for reason in verdict.reasons)
        return
    for what, count in _counts(verdict):
        yield f"  {what:<7} {count}"
    yield from (f"  {line}" for line in _limits(verdict))
    yield from (f"  {run.text}" for run in verdict.streams)
    yield from (f"  - {reason}" for reason in verdict.reasons)
    yield from _answers(verdict)
    if verdict.superset:
        yield f"{NOT_EXACT}:"
        for node, reasons in verdict.superset.items():
            yield f"  - node {node}: {'; '.join(reasons)}"


def _completeness(verdict: Verdict) -> str:
    return "complete" if verdict.complete else "incomplete"


def _counts(verdict: Verdict) -> Iterator[tuple[str, str]]:
    """What was received of what was expected."""
    yield "tasks", f"{verdict.tasks_committed:,} of {verdict.tasks_expected:,} committed"
    yield (
        "blocks",
        f"{verdict.blocks_received:,} of {verdict.blocks_expected:,} received, "
        f"{verdict.blocks_linked:,} linked",
    )
    yield "flows", f"{verdict.flows:,}"
    if verdict.recipes_expected or verdict.recipes_received:
        yield "recipes", f"{verdict.recipes_received:,} of {verdict.recipes_expected:,} received"
    if verdict.collisions:
        yield "keys", f"{verdict.collisions:,} share a position with another key"


def _limits(verdict: Verdict) -> Iterator[str]:
    for node, (seen, captured) in verdict.limited.items():
        share = f"{captured:,} of {seen:,} records ({captured / max(seen, 1):.2%})"
        yield f"limited at node {node}: {share} have lineage"
    for node, records in verdict.set_aside.items():
        count = "1 record was" if records == 1 else f"{records:,} records were"
        yield f"{count} set aside at node {node}, on which its function failed: lineage quarantine"
    for node, records in verdict.repaired.items():
        count = "1 record was" if records == 1 else f"{records:,} records were"
        yield f"{count} repaired at node {node}, on which its function failed: lineage quarantine"


@dataclass(frozen=True, slots=True)
class ApplicationVerdict:
    """The verdict on an application, which shows itself: as `lineage verify` prints it, in a notebook as a table."""

    app: str
    verdict: Verdict

    def __str__(self) -> str:
        earlier = (f"  - {line}" for line in self._earlier())
        return "\n".join((*_lines(self.app, self.verdict), *earlier))

    def _repr_html_(self) -> str:
        verdict = self.verdict
        word = f"{_completeness(verdict)} ({verdict.status})"
        superset = (
            f"node {node}: {'; '.join(reasons)}" for node, reasons in verdict.superset.items()
        )
        return block(
            (
                heading(self.app),
                note(word, tone="good" if verdict.complete else "bad"),
                *(note("incomplete", reason, "bad") for reason in verdict.reasons),
                *(note("limited", line, "doubtful") for line in _limits(verdict)),
                *(note("stream", run.text) for run in verdict.streams),
                *(note("answers", line, _TONES[verdict.answerable]) for line in _answers(verdict)),
                *(note(NOT_EXACT, line, "doubtful") for line in superset),
                *(note("earlier", line, "doubtful") for line in self._earlier()),
                table((), [(text(what), text(count)) for what, count in _counts(verdict)]),
            )
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), str(self))

    def _earlier(self) -> Iterator[str]:
        for app in self.verdict.earlier:
            yield f"the same program captured {app} before; this is no verdict on it"


def answers_words(verdict: Verdict) -> str:
    """Whether rows can be traced, in a word or two."""
    if verdict.answerable is None:
        return "not all outputs checked"
    return "answerable" if verdict.answerable else "not answerable"


def _answers(verdict: Verdict) -> Iterator[str]:
    if verdict.answerable:
        yield "answerable: rows of all captured outputs can be traced"
        return
    if verdict.refusals:
        yield "not answerable: rows of these outputs can't be traced back"
        for refusal in verdict.refusals:
            yield f"  - {refusal.text}"
    if verdict.unchecked:
        count = "1 output was" if verdict.unchecked == 1 else f"{verdict.unchecked:,} outputs were"
        yield f"whether rows can be traced is not known: {count} not looked at"
