"""One answer of those of several applications."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer, Group, NotAsked
from lineage_query.planning import Part, Plan
from lineage_query.rows.places import LocationError, parse_location
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import NoSuchRowError, StoreUnavailableError
from lineage_store.paths import canonical


def answer_all(
    question: TraceQuery,
    plan: Plan,
    ask: Callable[[Part], Answer],
    why: Callable[[LineageError], str] = str,
) -> Answer:
    """Ask all of a plan's applications, and make one answer of theirs.

    Args:
        question: as it was put.
        plan: which applications are asked what.
        ask: asks one of them.
        why: what is said of an application that could not be asked.

    Raises:
        NoSuchRowError: all were asked, and none has the row.
        StoreUnavailableError: the store does not answer.
        LineageError: none could be asked.
    """
    if plan.only is not None:
        return ask(plan.only)
    asked = _Asked(why)
    for part in plan.parts:
        asked.ask(part, ask)
    not_asked = [*plan.not_asked, *asked.not_asked()]
    if not asked.answers:
        asked.refuse(is_all=not not_asked and not plan.gaps)
    said = (*plan.gaps, *asked.said())
    answer = composed(question, asked.answers, not_asked, said, asked.without())
    return replace(
        answer,
        warnings=tuple(dict.fromkeys((*plan.warnings, *answer.warnings))),
        changed=answer.changed or plan.changed,
        complete=answer.complete and not plan.gaps,
    )


def composed(
    question: TraceQuery,
    answers: Sequence[Answer],
    not_asked: Sequence[NotAsked] = (),
    said: Sequence[str] = (),
    apps: Sequence[str] = (),
) -> Answer:
    """One answer of several: exact where all are, complete where all are and all could be asked.

    Args:
        question: as it was put.
        answers: of each application one, the latest first.
        not_asked: who could not be asked.
        said: more warnings.
        apps: others that were asked, and have no such row.
    """
    apps = tuple(dict.fromkeys((*(one.app for one in answers), *apps)))
    several = len({*apps, *(one.app for one in not_asked)}) > 1
    gone = tuple(dict.fromkeys((*not_asked, *(gap for one in answers for gap in one.not_asked))))
    own = {gap.said() for one in answers for gap in one.not_asked}

    def named(app: str, texts: Iterable[str]) -> Iterator[str]:
        for text in texts:
            if text not in own:
                yield f"{app}: {text}" if several and not _names(text, app) else text

    reasons = [text for one in answers for text in named(one.app, one.reasons)]
    warnings = [text for one in answers for text in named(one.app, one.warnings)]
    return Answer(
        app=apps[0],
        direction=question.direction,
        asked=question.places,
        start=tuple(_of_app(group, one.app) for one in answers for group in one.start),
        exact=all(one.exact for one in answers),
        reasons=tuple(dict.fromkeys(reasons)),
        groups=tuple(_of_app(group, one.app) for one in answers for group in one.groups),
        warnings=tuple(dict.fromkeys((*warnings, *(one.said() for one in gone), *said))),
        changed=any(one.changed for one in answers),
        complete=all(one.complete for one in answers) and not gone,
        apps=apps,
        not_asked=gone,
    )


@dataclass
class _Asked:
    """Applications that were asked, and what came of it."""

    why: Callable[[LineageError], str]
    found: list[tuple[Part, Answer]] = field(default_factory=list)
    missing: list[tuple[Part, LineageError]] = field(default_factory=list)
    refused: list[tuple[Part, LineageError]] = field(default_factory=list)

    def ask(self, part: Part, ask: Callable[[Part], Answer]) -> None:
        try:
            self.found.append((part, ask(part)))
        except StoreUnavailableError:
            raise
        except NoSuchRowError as problem:
            self.missing.append((part, problem))
        except LineageError as problem:
            # Others are not asked instead of one for which there was no time.
            current_budget().check()
            self.refused.append((part, problem))

    @property
    def answers(self) -> list[Answer]:
        return [answer for _, answer in self.found]

    def without(self) -> list[str]:
        """The applications that have no such row."""
        return [_app(part) for part, _ in self.missing]

    def not_asked(self) -> Iterator[NotAsked]:
        for part, problem in self.refused:
            yield NotAsked(_app(part), self.why(problem))
        yield from self._otherwise()

    def said(self) -> Iterator[str]:
        """What is said where nothing was found: why."""
        if not self.found:
            yield from dict.fromkeys(f"{_app(part)}: {problem}" for part, problem in self.missing)

    def refuse(self, *, is_all: bool) -> None:
        """Raise where there is nothing to be said.

        Raises:
            LineageError: that no application has the row, or that none could be asked.
        """
        if self.missing and is_all:
            raise self.missing[0][1]
        if not self.missing:
            texts = dict.fromkeys(str(problem) for _, problem in self.refused)
            if len(texts) == 1:
                raise self.refused[0][1]
            told = "; ".join(f"{_app(part)}: {self.why(error)}" for part, error in self.refused)
            raise TraceError(f"none of {len(self.refused)} applications can be asked: {told}")

    def _otherwise(self) -> Iterator[NotAsked]:
        """Those that read rows with these values, too, but have other values in them: columns were read otherwise."""
        starts = [(part, _Start.of(answer)) for part, answer in self.found if part.files]
        starts += [(part, _Start()) for part, _ in self.missing if part.files]
        everywhere = {place: path for _, one in starts for place, path in one.places.items()}
        for part, start in starts:
            others = {place: path for place, path in everywhere.items() if path in part.files}
            more = others.keys() - start.places.keys()
            if not start.listed and len(others) <= start.count:
                # Which rows they are can't be compared: not all are listed.
                more = set()
            if more:
                why = f"not all rows have these values as it read them ({min(more)}): ask by place"
                yield NotAsked(_app(part), why)


@dataclass(frozen=True, slots=True)
class _Start:
    """Rows that were asked for by values: the file of each place, how many there are, and whether all are listed."""

    places: dict[str, str] = field(default_factory=dict)
    count: int = 0
    listed: bool = True

    @classmethod
    def of(cls, answer: Answer) -> _Start:
        found: dict[str, str] = {}
        for group in answer.start:
            for item in group.items:
                with suppress(LocationError):
                    path = canonical(parse_location(item.location or "").path)
                    found[item.location or ""] = path
        count = sum(group.count for group in answer.start)
        return cls(found, count, all(len(one.items) == one.count for one in answer.start))


def _names(text: str, app: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(app)}(?![\w-])", text) is not None


def _app(part: Part) -> str:
    return part.question.app or ""


def _of_app(group: Group, app: str) -> Group:
    return replace(group, app=group.app or app)
