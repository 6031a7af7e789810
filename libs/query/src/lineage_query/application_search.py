"""Search of applications by what they read and wrote, where their code is, their columns, and when they ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lineage_core.contract.message import Message, Recipe, Register
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.document import Recipe as RecipeDocument
from lineage_core.tracing.budget import Budget, TimeUpError, current_budget, use_budget
from lineage_query.jobs import RunContent, RunSource, content_of_run
from lineage_store.errors import DamagedError
from lineage_store.materialised import whose_rows
from lineage_store.port import ApplicationRecord

RECIPE_TYPE = "recipe"
MATCHED_S = 1.0
"""Seconds that a look at the messages of one application may take."""


@dataclass(frozen=True, slots=True)
class ApplicationSearch:
    """What applications are searched for; all of it must hold, and what is empty or None does not count.

    ``text``: part of the id or name. ``dataset``: part of the name of a dataset, file or table that it read or wrote, as it named it. ``call_site``: part
    of where its code made an RDD or DataFrame, such as ``job.py:12``. ``column``: a column of a DataFrame that it read or wrote.
    ``since`` and ``until``: it began then or between them, in unix seconds. Capitals do not count.
    """

    text: str = ""
    dataset: str = ""
    call_site: str = ""
    column: str = ""
    since: float | None = None
    until: float | None = None

    @property
    def reads_messages(self) -> bool:
        """Whether it takes more than the list of applications."""
        return bool(self.dataset or self.call_site or self.column)


@dataclass(frozen=True, slots=True)
class FoundApplications:
    """Applications, the latest first.

    ``searched``: of the ``searched_of`` applications that its text and times are of, so many were searched, the latest first: time was over
    then. ``withheld``: of how many of these it is not known whether they match, as they do not say what they hold, or are damaged.
    A damaged one matches only where its id alone says so.
    """

    items: tuple[ApplicationRecord, ...]
    searched: int
    searched_of: int
    withheld: int = 0


def search_applications(source: RunSource, search: ApplicationSearch) -> FoundApplications:
    """Search the applications, the latest first, until half of the time of the query is over.

    An application that holds the materialised lineage of another one is found by its own name and id alone.

    Raises:
        BudgetError: the query has no time left.
    """
    records = source.applications()
    ids = {record.app for record in records}
    candidates = [record for record in records if _matches_record(record, search)]
    if not search.reads_messages:
        known = [record for record in candidates if _is_known(record, search)]
        withheld = len(candidates) - len(known)
        return FoundApplications(tuple(known), len(candidates), len(candidates), withheld)
    candidates = [record for record in candidates if whose_rows(record.app, ids) is None]
    found: list[ApplicationRecord] = []
    searched = withheld = 0
    budget = current_budget()
    reserved_s = budget.left_s / 2
    more = (RECIPE_TYPE,) if search.column else ()
    for record in candidates:
        budget.check()
        if budget.left_s < reserved_s:
            break
        searched += 1
        try:
            messages = None if record.damage else source.messages(record.app, *more)
        except (KeyError, DamagedError):
            # The application was deleted meanwhile, is damaged, or something of it is hidden.
            messages = None
        matches = None if messages is None else _matches_in_time(messages, search)
        if matches is None:
            withheld += 1
        elif matches:
            found.append(record)
    return FoundApplications(tuple(found), searched, len(candidates), withheld)


def _matches_record(record: ApplicationRecord, search: ApplicationSearch) -> bool:
    """Whether the text and times match; those of a damaged application are lost, and may.

    It began at the latest when its files were written.
    """
    if search.since is not None and record.started_at < search.since:
        return False
    if record.damage:
        return True
    return (_holds(record.app, search.text) or _holds(record.name, search.text)) and (
        search.until is None or record.started_at <= search.until
    )


def _is_known(record: ApplicationRecord, search: ApplicationSearch) -> bool:
    """Whether an application that may match does so by what is left of it."""
    if not record.damage:
        return True
    return (
        _holds(record.app, search.text)
        and search.since is None
        and (search.until is None or record.started_at <= search.until)
    )


def _matches_in_time(messages: Sequence[Message], search: ApplicationSearch) -> bool | None:
    """Whether messages match; None: that is not known."""
    budget = current_budget()
    # One application that says very much ends no search of others.
    seconds = min(MATCHED_S, budget.left_s)
    try:
        with use_budget(Budget(seconds=seconds, messages=budget.messages)):
            return _matches_messages(messages, search)
    except TimeUpError:
        budget.check()
        return None


def _matches_messages(messages: Sequence[Message], search: ApplicationSearch) -> bool | None:
    if search.call_site and not any(
        isinstance(message, Register) and _holds(message.call_site, search.call_site)
        for message in messages
    ):
        return False
    if search.dataset and not any(
        _holds(name, search.dataset) for name in _dataset_names(content_of_run(messages))
    ):
        return False
    if not search.column:
        return True
    column = search.column.casefold()
    is_known = True
    for name in _columns(messages):
        if name is None:
            is_known = False
        elif name.casefold() == column:
            return True
    return False if is_known else None


def _dataset_names(content: RunContent) -> Iterator[str]:
    for use in (*content.reads, *content.writes):
        yield use.name
        yield use.full_name
    yield from content.reads_without_files
    yield from content.writes_without_files


def _columns(messages: Sequence[Message]) -> Iterator[str | None]:
    """Names of the columns of DataFrames' outputs and sources; None: there are some that are not known."""
    for message in messages:
        current_budget().check()
        if not isinstance(message, Recipe):
            continue
        try:
            recipe = RecipeDocument.from_json(message.recipe)
        except (RecipeError, VersionError):
            yield None
            continue
        yield from (column.name for column in recipe.columns)
        for source in recipe.sources:
            try:
                yield from (name for name, _ in source.columns())
            except RecipeError:
                yield None


def _holds(text: str, part: str) -> bool:
    return part.casefold() in text.casefold()
