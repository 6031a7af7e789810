"""Runs as a caller may see them: what is hidden of an application is withheld."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from lineage_core.contract.message import Message
from lineage_core.contract.verdict import Verdict
from lineage_query.finding import NotFoundError
from lineage_query.jobs import DATASET_MESSAGE_TYPES
from lineage_query_api.errors import ProblemError
from lineage_query_api.judging import Judge
from lineage_query_api.scopes import Scope, SlowApplicationError
from lineage_store.errors import UNREAD
from lineage_store.port import ApplicationRecord, GraphStore

READ_EACH_S = 1.0
"""How long the messages of one application may take in a list."""


class GrantedRuns:
    """Implements :class:`lineage_query.jobs.RunSource` for a caller.

    All datasets of an application are withheld if one of them is hidden, if its messages are more than a list may
    hold, or if they take too long to read.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._judge = Judge(scope.listed)

    def applications(self) -> Sequence[ApplicationRecord]:
        return self._scope.listed.applications()

    def messages(self, app: str, *more: str) -> Sequence[Message] | None:
        store = self._store_of(app)
        if store is None:
            return None
        return self._scope.listed.read_within(
            READ_EACH_S, lambda: store.messages(app, *DATASET_MESSAGE_TYPES, *more)
        )

    def verdict(self, app: str) -> Verdict | None:
        try:
            return self._judge.verdict(app)
        except NotFoundError as error:
            raise KeyError(app) from error

    def visible_revisions(self) -> Mapping[str, Hashable] | None:
        """Of applications whose datasets may be shown, the revision of which that is known; None: of all of them."""
        store = self._scope.listed.unrestricted_store
        if self._scope.listed.store is store:
            return None
        apps = self._scope.listed.store.application_ids()
        before = store.revisions(apps)
        visible = [app for app in apps if self._is_visible(app)]
        # An id may have been given to another run meanwhile.
        after = store.revisions(visible)
        return {app: after[app] for app in after if after[app] == before.get(app)}

    def _is_visible(self, app: str) -> bool:
        try:
            return self._store_of(app) is not None
        except KeyError:
            return False

    def _store_of(self, app: str) -> GraphStore | None:
        """What tells the datasets of an application; None: some are hidden."""
        if self._scope.part_of is None:
            return self._scope.listed.store
        try:
            part = self._scope.part_of(app, False)
        except (ProblemError, *UNREAD, SlowApplicationError):
            return None
        if part is None:
            return self._scope.listed.store
        return None if part.hides else part.lineages.store
