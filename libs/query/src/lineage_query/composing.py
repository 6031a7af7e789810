"""One answer of those of several applications."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer, Group, NotQueried
from lineage_query.planning import ApplicationQuery, Plan
from lineage_query.rows.places import LocationError, parse_location
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import NoSuchRowError, StoreUnavailableError
from lineage_store.paths import canonical


def query_all(
    query: TraceQuery,
    plan: Plan,
    answer_part: Callable[[ApplicationQuery], Answer],
    reason_of: Callable[[LineageError], str] = str,
) -> Answer:
    """Query all applications of a plan, and merge their answers into one.

    Args:
        query: the query as received.
        plan: the applications to query, and the query for each.
        answer_part: runs one of these queries.
        reason_of: gives the reason to report for an application that could not be queried.

    Raises:
        NoSuchRowError: all were queried, and none has the row.
        StoreUnavailableError: the store does not answer.
        LineageError: none could be queried.
    """
    if plan.only is not None:
        return answer_part(plan.only)
    responses = _Responses(reason_of)
    for part in plan.parts:
        responses.add_answer(part, answer_part)
    not_queried = [*plan.not_queried, *responses.not_queried()]
    if not responses.answers:
        responses.refuse(is_all=not not_queried and not plan.gaps)
    warnings = (*plan.gaps, *responses.warnings())
    answer = composed(query, responses.answers, not_queried, warnings, responses.without())
    return replace(
        answer,
        warnings=tuple(dict.fromkeys((*plan.warnings, *answer.warnings))),
        changed=answer.changed or plan.changed,
        complete=answer.complete and not plan.gaps,
    )


def composed(
    query: TraceQuery,
    answers: Sequence[Answer],
    not_queried: Sequence[NotQueried] = (),
    more_warnings: Sequence[str] = (),
    apps: Sequence[str] = (),
) -> Answer:
    """Merge several answers: exact if all are exact, complete if all are complete and all could be queried.

    Args:
        query: as it was put.
        answers: one of each application, the latest first.
        not_queried: what could not be queried.
        more_warnings: more warnings.
        apps: other applications that were queried but have no such row.
    """
    apps = tuple(dict.fromkeys((*(answer.app for answer in answers), *apps)))
    has_several = len({*apps, *(answer.app for answer in not_queried)}) > 1
    all_not_queried = tuple(
        dict.fromkeys((*not_queried, *(gap for answer in answers for gap in answer.not_queried)))
    )
    own_warnings = {gap.warning() for answer in answers for gap in answer.not_queried}

    def named(app: str, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            if text not in own_warnings:
                yield f"{app}: {text}" if has_several and not _names(text, app) else text

    reasons = [text for answer in answers for text in named(answer.app, answer.reasons)]
    warnings = [text for answer in answers for text in named(answer.app, answer.warnings)]
    return Answer(
        app=apps[0],
        direction=query.direction,
        requested_places=query.places,
        start=tuple(_of_app(group, answer.app) for answer in answers for group in answer.start),
        exact=all(answer.exact for answer in answers),
        reasons=tuple(dict.fromkeys(reasons)),
        groups=tuple(_of_app(group, answer.app) for answer in answers for group in answer.groups),
        warnings=tuple(
            dict.fromkeys((*warnings, *(gap.warning() for gap in all_not_queried), *more_warnings))
        ),
        changed=any(answer.changed for answer in answers),
        complete=all(answer.complete for answer in answers) and not all_not_queried,
        apps=apps,
        not_queried=all_not_queried,
        parts_passed=tuple(
            _of_app(group, answer.app) for answer in answers for group in answer.parts_passed
        ),
        parts_unknown=tuple(gap for answer in answers for gap in answer.parts_unknown),
    )


@dataclass
class _Responses:
    """The answers and errors of the queried applications."""

    reason_of: Callable[[LineageError], str]
    answered: list[tuple[ApplicationQuery, Answer]] = field(default_factory=list)
    missing: list[tuple[ApplicationQuery, LineageError]] = field(default_factory=list)
    refused: list[tuple[ApplicationQuery, LineageError]] = field(default_factory=list)

    def add_answer(
        self, part: ApplicationQuery, answer_part: Callable[[ApplicationQuery], Answer]
    ) -> None:
        try:
            self.answered.append((part, answer_part(part)))
        except StoreUnavailableError:
            raise
        except NoSuchRowError as problem:
            self.missing.append((part, problem))
        except LineageError as problem:
            # If the time is used up, do not continue with other applications.
            current_budget().check()
            self.refused.append((part, problem))

    @property
    def answers(self) -> list[Answer]:
        return [answer for _, answer in self.answered]

    def without(self) -> list[str]:
        """The applications that have no such row."""
        return [_app(part) for part, _ in self.missing]

    def not_queried(self) -> Iterator[NotQueried]:
        for part, problem in self.refused:
            yield NotQueried(_app(part), self.reason_of(problem))
        yield from self._read_differently()

    def warnings(self) -> Iterator[str]:
        """The reasons why nothing was found."""
        if not self.answered:
            yield from dict.fromkeys(f"{_app(part)}: {problem}" for part, problem in self.missing)

    def refuse(self, *, is_all: bool) -> None:
        """Raise an error if there is no answer.

        Raises:
            LineageError: no application has the row, or none could be queried.
        """
        if self.missing and is_all:
            raise self.missing[0][1]
        if not self.missing:
            texts = dict.fromkeys(str(problem) for _, problem in self.refused)
            if len(texts) == 1:
                raise self.refused[0][1]
            refusals = "; ".join(
                f"{_app(part)}: {self.reason_of(error)}" for part, error in self.refused
            )
            raise TraceError(f"none of {len(self.refused)} applications can be queried: {refusals}")

    def _read_differently(self) -> Iterator[NotQueried]:
        """The applications that read some of these rows with other values, because they read columns differently."""
        starts = [(part, _Start.of(answer)) for part, answer in self.answered if part.files]
        starts += [(part, _Start()) for part, _ in self.missing if part.files]
        all_places = {place: path for _, start in starts for place, path in start.places.items()}
        for part, start in starts:
            others = {place: path for place, path in all_places.items() if path in part.files}
            more = others.keys() - start.places.keys()
            if not start.listed and len(others) <= start.count:
                # Which rows they are can't be compared: not all are listed.
                more = set()
            if more:
                reason = f"not all rows have these values as it read them ({min(more)}): name rows by location"
                yield NotQueried(_app(part), reason)


@dataclass(frozen=True, slots=True)
class _Start:
    """Rows queried by values: the file of each place, the number of rows, and whether all are listed."""

    places: dict[str, str] = field(default_factory=dict)
    count: int = 0
    listed: bool = True

    @classmethod
    def of(cls, answer: Answer) -> _Start:
        places: dict[str, str] = {}
        for group in answer.start:
            for item in group.items:
                with suppress(LocationError):
                    path = canonical(parse_location(item.location or "").path)
                    places[item.location or ""] = path
        count = sum(group.count for group in answer.start)
        return cls(places, count, all(len(group.items) == group.count for group in answer.start))


def _names(text: str, app: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(app)}(?![\w-])", text) is not None


def _app(part: ApplicationQuery) -> str:
    return part.query.app or ""


def _of_app(group: Group, app: str) -> Group:
    return replace(group, app=group.app or app)
