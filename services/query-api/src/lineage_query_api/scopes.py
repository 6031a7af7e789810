"""What a caller may see: the lineages behind a request, restricted to the grants."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeAlias

import structlog

from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.budget import (
    Budget,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_query.finding import NotFoundError
from lineage_query_api.auth import Principal
from lineage_query_api.errors import (
    ProblemError,
    SettingsError,
    hidden_parts_error,
    partly_granted_error,
)
from lineage_query_api.granted_store import (
    NAMES_S,
    ApplicationNames,
    GrantedStore,
    VisibilityCheck,
    names_of,
)
from lineage_query_api.grants import ALL_PATTERNS, DatasetRules, Grants
from lineage_query_api.lineages import Lineages
from lineage_query_api.visibility import (
    ABOUT_DATASETS,
    Visibility,
    VisibleApplication,
    build_visible_application,
)
from lineage_query_api.visible_store import (
    VisibleStore,
    verdict_without_details,
    verdict_without_reasons,
)
from lineage_store.errors import UNREAD
from lineage_store.materialised import stands_for
from lineage_store.port import GraphStore

CACHED_SCOPES_MAX = 64
"""Maximum number of sets of granted applications whose traces are cached."""
CACHED_VISIBLE_MAX = 512
"""Maximum number of cached applications with hidden parts; others have a cache of their own."""
CACHED_FULLY_VISIBLE_MAX = 100_000
CACHED_NAMES_MAX = 200_000
"""Maximum number of nodes and files of fully visible applications that are kept: some 100 MB. Others are looked up again."""
FULLY_VISIBLE_S = 60.0
"""Seconds between two checks of a final application without hidden parts."""
VISIBLE_EACH_S = 10.0
"""How long what is visible of one application may take in a query that does not name it: some hundred thousand files."""
SLOW_S = 600.0
"""Seconds for which an application that took longer is not tried again by such queries; fewer where it was given less time."""
ALLOWED_WHERE_HIDDEN: frozenset[str] = frozenset(
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
"""Operations allowed on an application with hidden or masked parts: all others are refused."""
ALLOWED_WHERE_MASKED: frozenset[str] = ALLOWED_WHERE_HIDDEN | {
    "GET /v1/applications/{app}/nodes/{node}/columns",
    "GET /v1/applications/{app}/openlineage",
}
"""Operations allowed if no dataset is hidden entirely: they return no rows."""


@dataclass(frozen=True, slots=True)
class VisiblePart:
    """An application of which something is hidden, or masked. ``rows``: others of its rows may be read."""

    lineages: Lineages
    rows: bool
    hides: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """A caller, the applications that they may trace, and those of which they may read rows.

    ``traced`` and ``read`` hold the fully visible applications. ``listed``: all that the caller may see in lists, with
    verdicts. ``part_of``: returns the visible part of an application with hidden parts, and is given whether the request names the
    application; None: there are none.
    ``operation``: the requested operation, such as ``GET /v1/me``.
    """

    caller: Principal
    listed: Lineages
    traced: Lineages
    read: Lineages | None
    part_of: Callable[[str, bool], VisiblePart | None] | None = None
    operation: str = ""

    def within(self, app: str | None) -> tuple[Lineages, Principal]:
        """The lineages for a request to an application (None: to any), and the caller.

        A response covers either applications whose rows the caller may read, or has no texts: it never
        mixes the two. An application with hidden parts is queried separately, and is left out of other answers.

        Raises:
            ProblemError: 403, the answer may reveal what is hidden.
        """
        if self.part_of is not None and app is not None:
            try:
                part = self.part_of(self.listed.find(app), True)
            except NotFoundError:
                # The query itself reports that the application is missing.
                return self.listed, replace(self.caller, rows=False)
            if part is not None:
                if self.operation not in (
                    ALLOWED_WHERE_HIDDEN if part.hides else ALLOWED_WHERE_MASKED
                ):
                    raise hidden_parts_error()
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

    def over_all(self) -> tuple[Lineages, Principal]:
        """The lineages of all applications, and the caller, for an answer that is true only where nothing is left out.

        Decided by the grants, whatever the store has now: what arrives later is seen, too.

        Raises:
            ProblemError: 403, grants leave out applications, or hide or mask something.
        """
        lineages, caller = self.within(None)
        if not lineages.is_unrestricted:
            raise partly_granted_error()
        return lineages, caller


_Visible: TypeAlias = tuple[str, Hashable, Visibility]
"""An application, its revision, and what a caller may see."""


class SlowApplicationError(TooMuchError):
    """What is visible of an application takes longer than a query may spend on one that it does not name."""


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
        self._cached: OrderedDict[_Visible, tuple[VisibleApplication, float]] = OrderedDict()
        self._fully_visible_until: OrderedDict[_Visible, float] = OrderedDict()
        self._fully_visible: OrderedDict[_Visible, VisibleApplication] = OrderedDict()
        self._fully_visible_names = 0
        self._slow: OrderedDict[tuple[str, DatasetRules], float] = OrderedDict()
        """Until when applications are not tried again by queries that do not name them, whatever they send meanwhile."""

    def of(self, app: str, rules: DatasetRules) -> VisibleApplication | None:
        """The visible part of an application; None: all of it.

        Raises:
            KeyError: there is none.
        """
        visible_app = self._find(app, rules, with_files=False)
        with self._lock:
            self._slow.pop((app, rules), None)
        return None if visible_app is None or visible_app.is_fully_visible else visible_app

    def of_any(self, app: str, rules: DatasetRules) -> VisibleApplication | None:
        """As :meth:`of`, for a query that does not name the application: it must not end for its sake.

        Raises:
            KeyError: there is none.
            SlowApplicationError: it takes too long, or took too long before.
        """
        key, now = (app, rules), self._clock()
        with self._lock:
            is_slow = now < self._slow.get(key, 0.0)
        if is_slow:
            raise SlowApplicationError("what is visible of an application takes too long")
        budget = current_budget()
        seconds = min(VISIBLE_EACH_S, budget.left_s / 2)
        try:
            with use_budget(Budget(seconds=seconds, messages=budget.messages)):
                return self.of(app, rules)
        except TimeUpError as error:
            budget.check()
            with self._lock:
                self._slow[key] = self._clock() + SLOW_S * seconds / VISIBLE_EACH_S
                if len(self._slow) > CACHED_VISIBLE_MAX:
                    self._slow.popitem(last=False)
            raise SlowApplicationError(error.detail) from error

    def with_files(self, app: str, rules: DatasetRules) -> VisibleApplication:
        """What of an application is visible, also if all of it is; raises as :meth:`of`."""
        visible_app = self._find(app, rules, with_files=True)
        assert visible_app is not None
        return visible_app

    def _find(
        self, app: str, rules: DatasetRules, *, with_files: bool
    ) -> VisibleApplication | None:
        visibility = Visibility.of(rules, names_of(self._names, app))
        # A message that comes late may name what is hidden.
        key, now = (app, self._store.revision(app), visibility), self._clock()
        with self._lock:
            full = self._fully_visible.get(key)
            if now < self._fully_visible_until.get(key, 0.0) and (full or not with_files):
                if full is not None:
                    self._fully_visible.move_to_end(key)
                return full
            cached = self._cached.get(key)
        if cached is not None and now < cached[1]:
            return cached[0]
        try:
            verdict = self._verdict(app)
        except NotFoundError as error:
            raise KeyError(app) from error
        visible_app = build_visible_application(
            self._store.messages(app, *ABOUT_DATASETS), visibility, final=verdict.final
        )
        with self._lock:
            self._cached.pop(key, None)
            self._fully_visible_until.pop(key, None)
            if visible_app.is_fully_visible:
                self._fully_visible_until[key] = now + (
                    FULLY_VISIBLE_S if verdict.complete else NAMES_S
                )
                if len(self._fully_visible_until) > CACHED_FULLY_VISIBLE_MAX:
                    self._fully_visible_until.popitem(last=False)
                if full is not None and full == visible_app:
                    # The same object, for the same purpose as below.
                    visible_app = full
                self._store_full(key, visible_app)
                return visible_app
            self._forget_full(key)
            if cached is not None and cached[0] == visible_app:
                # The same object: answers that are kept are of it.
                visible_app = cached[0]
            self._cached[key] = visible_app, now + NAMES_S
            if len(self._cached) > CACHED_VISIBLE_MAX:
                self._cached.popitem(last=False)
        return visible_app

    def _store_full(self, key: _Visible, visible_app: VisibleApplication) -> None:
        """Keep a fully visible application. The caller holds the lock."""
        self._forget_full(key)
        self._fully_visible[key] = visible_app
        self._fully_visible_names += visible_app.names
        while self._fully_visible_names > CACHED_NAMES_MAX and len(self._fully_visible) > 1:
            self._forget_full(next(iter(self._fully_visible)))

    def _forget_full(self, key: _Visible) -> None:
        dropped = self._fully_visible.pop(key, None)
        self._fully_visible_names -= 0 if dropped is None else dropped.names


@dataclass(frozen=True, slots=True)
class _CallerVisibility(VisibilityCheck):
    """Visibility of applications by a caller's rules."""

    rules: DatasetRules
    visible_applications: VisibleApplications = field(compare=False)

    def is_fully_visible(self, app: str) -> bool:
        """Whether an application has no hidden parts, nor the one whose rows it holds."""
        try:
            return all(
                self.visible_applications.of_any(name, self.rules) is None
                for name in _with_base(app)
            )
        except (KeyError, *UNREAD, SlowApplicationError):
            # What an application used is not known if it sent more than may be held or read: this ends no query about others.
            return False

    def visible_application(self, app: str) -> VisibleApplication:
        """What of an application is visible.

        Raises:
            KeyError: there is none.
        """
        return self.visible_applications.with_files(app, self.rules)

    def verdict_of(self, app: str, verdict: Verdict) -> Verdict:
        """A verdict without the parts that reveal hidden datasets."""
        try:
            visible_apps = [
                self.visible_applications.of_any(visible_app, self.rules)
                for visible_app in _with_base(app)
            ]
        except (KeyError, *UNREAD, SlowApplicationError):
            return verdict_without_details(verdict)
        if any(visible_app is not None and visible_app.hides for visible_app in visible_apps):
            return verdict_without_details(verdict)
        return (
            verdict
            if visible_apps == [None] * len(visible_apps)
            else verdict_without_reasons(verdict)
        )


class Scopes:
    """Scopes of callers; lineages of the same grants are shared. May be shared by threads."""

    def __init__(self, lineages: Lineages, grants: Grants | None) -> None:
        self._all = lineages
        self._grants = grants
        self._names = ApplicationNames(lineages.store)
        self._visible_applications = VisibleApplications(
            lineages.store, self._names, lineages.verdict
        )
        self._lock = threading.Lock()
        self._cached: OrderedDict[Hashable, Lineages] = OrderedDict()

    def of(self, caller: Principal, operation: str = "") -> Scope:
        """What a caller may see. ``operation``: the requested operation, such as ``GET /v1/me``.

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
        visibility = _CallerVisibility(granted.rules, self._visible_applications)
        listed = GrantedStore(self._all.store, self._names, granted.traced, visibility)
        reads = GrantedStore(self._all.store, self._names, granted.read, visibility)

        def part_of(app: str, is_named: bool) -> VisiblePart | None:
            if visibility.is_fully_visible(app):
                return None
            # The base application of materialised rows may have more hidden parts than the rows reveal.
            visible = self._visible_applications
            find = visible.of if is_named else visible.of_any
            visible_app = None if stands_for(app) else find(app, visibility.rules)
            if visible_app is None:
                # It may have taken longer than queries that do not name it may spend: now it is known.
                if visibility.is_fully_visible(app):
                    return None
                raise hidden_parts_error()
            inner = GrantedStore(self._all.store, self._names, granted.traced)
            return VisiblePart(
                self._of(VisibleStore(inner, app, visible_app)), reads.shows(app), visible_app.hides
            )

        return Scope(
            caller,
            self._of(listed),
            self._fully_visible_only(granted.traced, visibility),
            self._fully_visible_only(granted.read, visibility) if caller.rows else None,
            part_of,
            operation,
        )

    def _within(self, patterns: frozenset[str]) -> Lineages:
        if patterns == ALL_PATTERNS:
            return self._all
        return self._of(GrantedStore(self._all.store, self._names, patterns))

    def _fully_visible_only(
        self, patterns: frozenset[str], visibility: VisibilityCheck
    ) -> Lineages:
        return self._of(
            GrantedStore(
                self._all.store, self._names, patterns, visibility, fully_visible_only=True
            )
        )

    def _of(self, store: GrantedStore | VisibleStore) -> Lineages:
        with self._lock:
            lineages = self._cached.get(store.key)
            if lineages is None:
                lineages = self._cached[store.key] = self._all.within(store)
            self._cached.move_to_end(store.key)
            while len(self._cached) > CACHED_SCOPES_MAX:
                self._cached.popitem(last=False)
        return lineages


def _with_base(app: str) -> tuple[str, ...]:
    """An application, and the one whose rows it holds."""
    base = stands_for(app)
    return (app,) if base is None else (app, base)
