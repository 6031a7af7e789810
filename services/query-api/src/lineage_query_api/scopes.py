"""What a caller may see: the lineages behind a request, cut to what is granted."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from http import HTTPStatus

import structlog

from lineage_query_api.auth import Principal
from lineage_query_api.errors import ProblemError, SettingsError
from lineage_query_api.granted_store import ApplicationNames, GrantedStore
from lineage_query_api.grants import EVERYTHING, Grants
from lineage_query_api.lineages import Lineages
from lineage_store.finding import NotFoundError

KEPT = 64
"""Sets of granted applications whose traces are kept."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A caller, the applications that they may trace, and those of which they may read rows."""

    caller: Principal
    traced: Lineages
    read: Lineages | None

    def within(self, app: str | None) -> tuple[Lineages, Principal]:
        """What answers a question of an application (None: of any), and who asks it.

        A question is answered over applications whose rows the caller may read, or without texts: one answer never
        mixes the two.
        """
        if self.read is self.traced:
            return self.traced, self.caller
        if self.read is not None and app is not None:
            try:
                if self.read.has(self.traced.find(app)):
                    return self.read, self.caller
            except NotFoundError:
                # That it is not there is said by what asks for it.
                pass
        return self.traced, replace(self.caller, rows=False)


class Scopes:
    """Scopes of callers; lineages of the same grants are shared. May be shared by threads."""

    def __init__(self, lineages: Lineages, grants: Grants | None) -> None:
        self._all = lineages
        self._grants = grants
        self._names = ApplicationNames(lineages.store)
        self._lock = threading.Lock()
        self._kept: OrderedDict[frozenset[str], Lineages] = OrderedDict()

    def of(self, caller: Principal) -> Scope:
        """What a caller may see.

        Raises:
            ProblemError: 500, the file of grants can't be used any more.
        """
        if self._grants is None:
            return Scope(caller, self._all, self._all if caller.rows else None)
        try:
            granted = self._grants.of(caller)
        except SettingsError as error:
            structlog.get_logger().error("grants_unreadable", reason=str(error))
            raise ProblemError(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the server can't read its file of grants"
            ) from error
        caller = replace(caller, rows=caller.rows and bool(granted.read))
        read = self._within(granted.read) if caller.rows else None
        return Scope(caller, self._within(granted.traced), read)

    def _within(self, patterns: frozenset[str]) -> Lineages:
        if patterns == EVERYTHING:
            return self._all
        with self._lock:
            kept = self._kept.get(patterns)
            if kept is None:
                store = GrantedStore(self._all.store, self._names, patterns)
                kept = self._kept[patterns] = self._all.within(store)
            self._kept.move_to_end(patterns)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return kept
