"""What a caller may see: the lineages behind a request, cut to what is granted."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from http import HTTPStatus

import structlog

from lineage_core.contract.verdict import Verdict
from lineage_query.finding import NotFoundError
from lineage_query_api.auth import Principal
from lineage_query_api.errors import ProblemError, SettingsError, partly
from lineage_query_api.granted_store import (
    NAMES_S,
    ApplicationNames,
    GrantedStore,
    Seen,
    names_of,
)
from lineage_query_api.grants import EVERYTHING, DatasetRules, Grants
from lineage_query_api.lineages import Lineages
from lineage_query_api.visibility import ABOUT_DATASETS, Visibility, VisibleApplication, look_at
from lineage_query_api.visible_store import VisibleStore, blinded, quiet
from lineage_store.materialised import stands_for
from lineage_store.port import GraphStore

KEPT = 64
"""Sets of granted applications whose traces are kept."""
LOOKS_KEPT = 512
"""Applications of which something is hidden that are kept; of others it is kept that nothing is."""
WHOLE_KEPT = 100_000
WHOLE_S = 60.0
"""Seconds for which nothing is looked for in an application that is all there, and of which nothing is hidden."""
PARTLY: frozenset[str] = frozenset(
    {
        "GET /v1/applications/{app}",
        "DELETE /v1/applications/{app}",
        "GET /v1/applications/{app}/completeness",
        "GET /v1/applications/{app}/progress",
        "GET /v1/applications/{app}/graph",
        "GET /v1/applications/{app}/nodes",
        "GET /v1/applications/{app}/nodes/{node}/items",
        "GET /v1/applications/{app}/rows",
        "POST /v1/applications/{app}/traces",
        "POST /v1/applications/{app}/diff",
        "POST /v1/applications/{app}/suspects",
        "GET /v1/traces/{trace}",
        "GET /v1/traces/{trace}/nodes/{node}/items",
        "GET /v1/traces/{trace}/items.ndjson",
        "POST /v1/answers",
    }
)
"""Operations that answer of an application of which something is hidden, or masked: all others refuse it."""
MASKED: frozenset[str] = PARTLY | {
    "GET /v1/applications/{app}/nodes/{node}/columns",
    "GET /v1/applications/{app}/openlineage",
}
"""Those that answer where no dataset is hidden as a whole: they tell no rows."""


@dataclass(frozen=True, slots=True)
class Part:
    """An application of which something is hidden, or masked. ``rows``: others of its rows may be read."""

    lineages: Lineages
    rows: bool
    hides: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """A caller, the applications that they may trace, and those of which they may read rows.

    ``traced`` and ``read`` hold what is shown wholly. ``listed``: all that the caller may know of, to be listed and
    judged. ``part_of``: gives those of which something is hidden; None: there are none. ``operation``: what is
    asked, such as ``GET /v1/me``.
    """

    caller: Principal
    listed: Lineages
    traced: Lineages
    read: Lineages | None
    part_of: Callable[[str], Part | None] | None = None
    operation: str = ""

    def within(self, app: str | None) -> tuple[Lineages, Principal]:
        """What answers a question of an application (None: of any), and who asks it.

        A question is answered over applications whose rows the caller may read, or without texts: one answer never
        mixes the two. An application of which something is hidden answers by itself, and is left out of others.

        Raises:
            ProblemError: 403, the answer may tell what is hidden.
        """
        if self.part_of is not None and app is not None:
            try:
                part = self.part_of(self.listed.find(app))
            except NotFoundError:
                # That it is not there is said by what asks for it.
                return self.listed, replace(self.caller, rows=False)
            if part is not None:
                if self.operation not in (PARTLY if part.hides else MASKED):
                    raise partly()
                return part.lineages, replace(self.caller, rows=self.caller.rows and part.rows)
        if self.read is self.traced:
            return self.traced, self.caller
        if self.read is not None and app is not None:
            try:
                if self.read.has(self.traced.find(app)):
                    return self.read, self.caller
            except NotFoundError:
                pass
        return self.traced, replace(self.caller, rows=False)


class VisibleApplications:
    """What callers see of applications, kept for some seconds. May be shared by threads."""

    def __init__(
        self,
        store: GraphStore,
        names: ApplicationNames,
        verdict: Callable[[str], Verdict],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._names = names
        self._verdict = verdict
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Visibility], tuple[VisibleApplication, float]] = (
            OrderedDict()
        )
        self._whole: OrderedDict[tuple[str, Visibility], float] = OrderedDict()

    def of(self, app: str, rules: DatasetRules) -> VisibleApplication | None:
        """What is seen of an application; None: all of it.

        Raises:
            KeyError: there is none.
        """
        sight = Visibility.of(rules, names_of(self._names, app))
        key, now = (app, sight), self._clock()
        with self._lock:
            if now < self._whole.get(key, 0.0):
                return None
            kept = self._kept.get(key)
        if kept is not None and now < kept[1]:
            return kept[0]
        try:
            verdict = self._verdict(app)
        except NotFoundError as error:
            raise KeyError(app) from error
        look = look_at(self._store.messages(app, *ABOUT_DATASETS), sight, final=verdict.final)
        with self._lock:
            self._kept.pop(key, None)
            self._whole.pop(key, None)
            if look.whole:
                self._whole[key] = now + (WHOLE_S if verdict.complete else NAMES_S)
                if len(self._whole) > WHOLE_KEPT:
                    self._whole.popitem(last=False)
                return None
            if kept is not None and kept[0] == look:
                # The same object: answers that are kept are of it.
                look = kept[0]
            self._kept[key] = look, now + NAMES_S
            if len(self._kept) > LOOKS_KEPT:
                self._kept.popitem(last=False)
        return look


@dataclass(frozen=True, slots=True)
class _Rules(Seen):
    """What a caller's rules say of applications."""

    rules: DatasetRules
    looks: VisibleApplications = field(compare=False)

    def whole(self, app: str) -> bool:
        """Whether nothing of an application is hidden, nor of the one whose rows it holds."""
        try:
            return all(self.looks.of(one, self.rules) is None for one in _with_base(app))
        except KeyError:
            return False

    def verdict_of(self, app: str, verdict: Verdict) -> Verdict:
        """A verdict without what it tells of hidden datasets."""
        try:
            looks = [self.looks.of(one, self.rules) for one in _with_base(app)]
        except KeyError:
            return blinded(verdict)
        if any(one is not None and one.hides for one in looks):
            return blinded(verdict)
        return verdict if looks == [None] * len(looks) else quiet(verdict)


class Scopes:
    """Scopes of callers; lineages of the same grants are shared. May be shared by threads."""

    def __init__(self, lineages: Lineages, grants: Grants | None) -> None:
        self._all = lineages
        self._grants = grants
        self._names = ApplicationNames(lineages.store)
        self._looks = VisibleApplications(lineages.store, self._names, lineages.verdict)
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Lineages] = OrderedDict()

    def of(self, caller: Principal, operation: str = "") -> Scope:
        """What a caller may see. ``operation``: what they ask, such as ``GET /v1/me``.

        Raises:
            ProblemError: 500, the file of grants can't be used any more.
        """
        if self._grants is None:
            return Scope(caller, self._all, self._all, self._all if caller.rows else None)
        try:
            granted = self._grants.of(caller)
        except SettingsError as error:
            structlog.get_logger().error("grants_unreadable", reason=str(error))
            raise ProblemError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the server can't read its file of grants"
            ) from error
        caller = replace(caller, rows=caller.rows and bool(granted.read))
        if granted.rules is None:
            traced = self._within(granted.traced)
            read = self._within(granted.read) if caller.rows else None
            return Scope(caller, traced, traced, read)
        seen = _Rules(granted.rules, self._looks)
        listed = GrantedStore(self._all.store, self._names, granted.traced, seen)
        reads = GrantedStore(self._all.store, self._names, granted.read, seen)

        def part_of(app: str) -> Part | None:
            if seen.whole(app):
                return None
            # Of the application whose rows another holds more may be hidden than that one tells.
            look = None if stands_for(app) else self._looks.of(app, seen.rules)
            if look is None:
                raise partly()
            inner = GrantedStore(self._all.store, self._names, granted.traced)
            return Part(self._of(VisibleStore(inner, app, look)), reads.shows(app), look.hides)

        return Scope(
            caller,
            self._of(listed),
            self._wholly(granted.traced, seen),
            self._wholly(granted.read, seen) if caller.rows else None,
            part_of,
            operation,
        )

    def _within(self, patterns: frozenset[str]) -> Lineages:
        if patterns == EVERYTHING:
            return self._all
        return self._of(GrantedStore(self._all.store, self._names, patterns))

    def _wholly(self, patterns: frozenset[str], seen: Seen) -> Lineages:
        return self._of(GrantedStore(self._all.store, self._names, patterns, seen, wholly=True))

    def _of(self, store: GrantedStore | VisibleStore) -> Lineages:
        with self._lock:
            kept = self._kept.get(store.key)
            if kept is None:
                kept = self._kept[store.key] = self._all.within(store)
            self._kept.move_to_end(store.key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return kept


def _with_base(app: str) -> tuple[str, ...]:
    """An application, and the one whose rows it holds."""
    base = stands_for(app)
    return (app,) if base is None else (app, base)
