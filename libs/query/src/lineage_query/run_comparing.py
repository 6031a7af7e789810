"""The lineage of the same rows in two runs of a job: which rows of sources are in both, and which in one of them alone.

A file that both runs recorded in one and the same version has the same rows in both, so its rows are compared by their places.
Rows of all other sources are compared by their texts, within one source: only texts that are known to be those that the runs
read count. Where a text is not known, it is not known either whether the row is in the other run, and the answer says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lineage_core.contract.reasons import listed_reasons
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group
from lineage_query.comparing import ComparedTrace
from lineage_query.jobs import job_of_run
from lineage_query.run_difference import RunDifference, SourceDifference
from lineage_query.run_rows import RunRow, RunRows, TracedRun, rows_by_dataset
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery

ROWS_MAX = 100_000
"""Maximum number of rows of one run that are compared."""

VERSION_PAIRS_MAX = 1_000
"""Pairs of versions of a file that are compared for a row; rows of files of more are compared by their texts."""


def check_countable(trace: Trace) -> Trace:
    """The same trace.

    Raises:
        TooMuchError: it has more rows than are compared.
    """
    if trace.count > ROWS_MAX:
        raise TooMuchError(
            f"the trace has {trace.count:,} rows; at most {ROWS_MAX:,} of each run are compared",
            "ask for fewer rows",
        )
    return trace


def queries_of_runs(
    query: TraceQuery, places: tuple[Sequence[str], Sequence[str]], apps: tuple[str, str]
) -> tuple[TraceQuery, TraceQuery]:
    """The queries of two runs: all rows of each trace are compared.

    Args:
        query: without places and application.
        places: of each run.
        apps: the whole ids of the runs.

    Raises:
        TraceError: both are the same run.
    """
    if apps[0] == apps[1]:
        raise TraceError(f"two runs are compared: both are {apps[0]}")
    left, right = (
        replace(query, places=tuple(of_run), app=app, limit=None)
        for of_run, app in zip(places, apps, strict=True)
    )
    return left, right


def compare_runs(
    left: TracedRun, right: TracedRun, limit: int | None, *, texts: bool = True
) -> RunDifference:
    """What each of the traces of two runs has that the other has not.

    Args:
        left: the trace of one run.
        right: that of another one, in the same direction.
        limit: rows listed of each source and side; None: all.
        texts: whether the caller may read texts of rows.

    Raises:
        TooMuchError: an answer does not list all rows.
        BudgetError: the query exceeds its budget.
    """
    is_backward = left.answer.direction is Direction.BACKWARD
    sides = RunRows(left, wrote=not is_backward), RunRows(right, wrote=not is_backward)
    comparison = _Comparison(*sides, texts=texts)
    groups = tuple(comparison.differences(limit))
    answers = left.answer, right.answer
    reasons = (
        *(f"{run.app}: {reason}" for run in (left, right) for reason in run.answer.reasons),
        *comparison.reasons,
    )
    warnings = (
        *_job_warnings(left, right),
        *(f"{run.app}: {text}" for run in (left, right) for text in run.answer.warnings),
        *comparison.warnings,
    )
    return RunDifference(
        (left.app, right.app),
        left.answer.direction,
        _compared(left.answer, limit),
        _compared(right.answer, limit),
        exact=all(answer.exact for answer in answers) and not comparison.reasons,
        reasons=listed_reasons(reasons),
        complete=all(answer.complete for answer in answers),
        changed=any(answer.changed for answer in answers),
        groups=groups,
        warnings=listed_reasons(warnings),
    )


def _compared(answer: Answer, limit: int | None) -> ComparedTrace:
    start = tuple(replace(group, items=group.items[:limit]) for group in answer.start)
    return ComparedTrace(
        answer.requested_places, sum(group.count for group in answer.groups), start
    )


def _job_warnings(left: TracedRun, right: TracedRun) -> Iterator[str]:
    jobs = [
        next(
            (job_of_run(record) for record in run.store.applications() if record.app == run.app), ""
        )
        for run in (left, right)
    ]
    if jobs[0] != jobs[1]:
        yield f"{left.app} is a run of {jobs[0]}, {right.app} of {jobs[1]}: they are different jobs"


@dataclass(slots=True)
class _Source:
    """Rows of one source in both runs, sorted by what is known of them."""

    sides: tuple[list[RunRow], list[RunRow]]
    same_places: int = 0
    same_texts: int = 0
    only: tuple[list[RunRow], list[RunRow]] = field(default_factory=lambda: ([], []))
    undecided: tuple[list[RunRow], list[RunRow]] = field(default_factory=lambda: ([], []))
    reason: str = ""


class _Comparison:
    """Compares the rows of two sides; ``reasons``: why it is not known of some rows whether both have them.

    ``texts``: whether the caller may read texts.
    """

    def __init__(self, left: RunRows, right: RunRows, *, texts: bool) -> None:
        self._left, self._right = left, right
        self._texts = texts
        self.reasons: dict[str, None] = {}
        self.warnings: dict[str, None] = {}

    def differences(self, limit: int | None) -> Iterator[SourceDifference]:
        """The differences by source, in the order of the first run."""
        left_places, right_places = (
            {row.place for row in side.rows if self._is_same_version(row)}
            for side in (self._left, self._right)
        )
        for source in self._sources():
            other_rows: tuple[list[RunRow], list[RunRow]] = ([], [])
            for at, others in enumerate((right_places, left_places)):
                for row in source.sides[at]:
                    current_budget().check()
                    if not self._is_same_version(row):
                        other_rows[at].append(row)
                    elif row.place not in others:
                        source.only[at].append(row)
                    elif at == 0:
                        source.same_places += 1
            self._compare_texts(source, *other_rows)
            if source.reason:
                self.reasons[source.reason] = None
            yield self._listed(source, limit)

    def _is_same_version(self, row: RunRow) -> bool:
        """Whether both runs recorded the file of a row in one and the same version."""
        if row.place is None or not row.is_recorded:
            return False
        current_budget().check()
        left, right = self._left.versions(row.place[0]), self._right.versions(row.place[0])
        # Equal states that differ in a checksum, or in whether there is one, are several entries.
        if not left or not right or len(left) * len(right) > VERSION_PAIRS_MAX:
            return False
        return all(one.is_same(other) for one in left for other in right)

    # -- sources -------------------------------------------------------------------------------

    def _sources(self) -> Iterator[_Source]:
        """The rows by source: the same dataset in both runs, or else what the same call of the program read."""
        left, right = rows_by_dataset(self._left), rows_by_dataset(self._right)
        calls = {name: self._calls(self._right, rows) for name, rows in right.items()}
        for name, rows in left.items():
            by_call = set() if name in right else self._calls(self._left, rows)
            same_call = (other for other in right if other not in left and calls[other] & by_call)
            yield _Source((rows, right.pop(next(same_call, name), [])))
        for rows in right.values():
            yield _Source(([], rows))

    @staticmethod
    def _calls(side: RunRows, rows: Sequence[RunRow]) -> set[tuple[str, ...]]:
        """The calls of the program that read some rows."""
        current_budget().check()
        nodes = {row.group.node: side.nodes.get(row.group.node) for row in rows}
        return {
            (name,) if node is None else (name, node.kind, node.op, node.call_site)
            for name, node in nodes.items()
        }

    # -- texts ---------------------------------------------------------------------------------

    def _compare_texts(self, source: _Source, left: list[RunRow], right: list[RunRow]) -> None:
        """Rows that are not compared by place: those of equal texts are in both, as often as both have them."""
        if not left or not right:
            source.only[0].extend(left)
            source.only[1].extend(right)
            self._warn_of_other_source(source)
            return
        reason = self._incomparable(left, right)
        if reason:
            source.reason = reason
            source.undecided[0].extend(left)
            source.undecided[1].extend(right)
            return
        left_texts, right_texts = (
            Counter(row.text for row in rows if row.text is not None) for rows in (left, right)
        )
        both = left_texts & right_texts
        source.same_texts = both.total()
        rests = _without(left, both), _without(right, both)
        has_unknown = [any(row.text is None for row in rest) for rest in rests]
        for at, rest in enumerate(rests):
            for row in rest:
                # A row whose text is not known may be any row of the other run.
                is_decided = not has_unknown[1 - at] and (row.text is not None or not rests[1 - at])
                (source.only if is_decided else source.undecided)[at].append(row)
        if source.undecided[0] or source.undecided[1]:
            source.reason = self._unknown_texts(rests)

    def _warn_of_other_source(self, source: _Source) -> None:
        """Where one run alone has rows of a source, it may be the same one by another name."""
        for side, rows, others in (
            (self._left, source.sides[0], source.sides[1]),
            (self._right, source.sides[1], source.sides[0]),
        ):
            if rows and not others:
                verb = "wrote" if side.wrote else "read"
                self.warnings[
                    f"{_name(rows[0])}: only the trace of {side.apps[0]} has rows that its run {verb} there"
                ] = None

    def _incomparable(self, left: Sequence[RunRow], right: Sequence[RunRow]) -> str:
        """Why texts of rows can't be compared; empty: they can."""
        kinds = [
            {self._kind(side, row.group) for row in rows}
            for side, rows in ((self._left, left), (self._right, right))
        ]
        is_materialised = self._left.is_materialised, self._right.is_materialised
        if kinds[0] == kinds[1] and len(kinds[0]) == 1 and is_materialised[0] == is_materialised[1]:
            return ""
        return f"{_name(left[0])}: the texts of its rows can't be compared, because the runs read them in different ways"

    @staticmethod
    def _kind(side: RunRows, group: Group) -> str:
        node = side.nodes.get(group.node)
        return "" if node is None else node.kind

    def _unknown_texts(self, rests: tuple[list[RunRow], list[RunRow]]) -> str:
        apps = [
            side.apps[0]
            for side, rest in zip((self._left, self._right), rests, strict=True)
            if any(row.text is None for row in rest)
        ]
        row = next(row for row in (*rests[0], *rests[1]) if row.text is None)
        verb = "write" if self._left.wrote else "read"
        why = (
            f"the rows of {' and '.join(apps)} are not known any more as they were then"
            if self._texts
            else "their texts are not for you"
        )
        return f"{_name(row)}: the runs did not {verb} the same version, and {why}"

    # -- the answer ----------------------------------------------------------------------------

    def _listed(self, source: _Source, limit: int | None) -> SourceDifference:
        of_sides = [(rows or source.sides[1 - at])[0].group for at, rows in enumerate(source.sides)]

        def group(at: int, rows: Sequence[RunRow]) -> Group:
            items = tuple(row.item for row in rows[:limit])
            return replace(of_sides[at], count=len(rows), items=items)

        return SourceDifference(
            group(0, source.only[0]),
            group(1, source.only[1]),
            source.same_places,
            source.same_texts,
            group(0, source.undecided[0]),
            group(1, source.undecided[1]),
            source.reason,
        )


def _without(rows: Iterable[RunRow], texts: Counter[str]) -> list[RunRow]:
    """The rows without as many of each text."""
    left = Counter(texts)
    rest: list[RunRow] = []
    for row in rows:
        if row.text is not None and left[row.text] > 0:
            left[row.text] -= 1
        else:
            rest.append(row)
    return rest


def _name(row: RunRow) -> str:
    return row.group.path or row.group.label
