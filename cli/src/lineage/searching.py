"""``lineage apps``."""

from __future__ import annotations

from lineage.json_values import json_value
from lineage.options import opened, print_json
from lineage.tables import show_apps
from lineage.terminal import echo
from lineage_core.contract.iso_times import iso_time
from lineage_core.errors import LineageError
from lineage_query.application_search import ApplicationSearch, FoundApplications
from lineage_store.port import ApplicationRecord


class TimeError(LineageError):
    """A text that is no time."""


def search_of(
    text: str, dataset: str, call_site: str, column: str, since: str, until: str
) -> ApplicationSearch:
    """What options search for.

    Raises:
        TimeError: ``since`` or ``until`` is no time.
    """
    return ApplicationSearch(
        text,
        dataset,
        call_site,
        column,
        _seconds("--since", since) if since else None,
        _seconds("--until", until) if until else None,
    )


def list_applications(url: str, search: ApplicationSearch, *, as_json: bool) -> None:
    """Print the applications that a search finds; all where it names nothing."""
    with opened(url) as access:
        if search == ApplicationSearch():
            records = tuple(access.applications())
            found = FoundApplications(records, len(records), len(records))
        else:
            found = access.search_applications(search)
    if as_json:
        print_json(json_value(list[ApplicationRecord], list(found.items)))
    else:
        show_apps(found.items)
    # Tools read the list; who is left out of it stands beside it.
    if found.searched < found.searched_of:
        echo(
            f"lineage: the latest {found.searched:,} of {found.searched_of:,} applications were searched",
            err=True,
        )
    if found.withheld:
        echo(f"lineage: {found.withheld:,} applications could not be searched", err=True)


def _seconds(option: str, text: str) -> float:
    try:
        return iso_time(text).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise TimeError(
            f"{option} takes a time such as 2026-11-26 or 2026-11-26T04:00Z, not {text!r:.100}"
        ) from error
