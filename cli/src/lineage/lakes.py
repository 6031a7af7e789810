"""``lineage archive`` and ``lineage compact``: applications into a lake, and its files merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lineage.ages import older_than
from lineage.linking import link_left
from lineage.options import print_json
from lineage.spools import has_spool, remove_spool
from lineage.terminal import echo
from lineage_core.errors import LineageError
from lineage_query.finding import find_application
from lineage_store.errors import DamagedError, StoreError
from lineage_store.lake.address import is_lake
from lineage_store.moving import ChangedError, Moved, move_application
from lineage_store.port import GraphStore
from lineage_store.tiers.address import hot_part, read_tiers
from lineage_store.url import (
    absolute_store,
    is_embedded,
    open_existing_lake,
    open_lake,
    open_store,
    open_tiers,
)

if TYPE_CHECKING:
    from lineage_store.lake.store import LakeStore


class ArchiveError(LineageError):
    """Nothing can be archived as it is requested."""


def archive(url: str, names: Sequence[str], age: str, lake: str, *, as_json: bool) -> None:
    """Move applications from a store into a lake, and print which.

    ``lake``: empty if the store has a lake behind it, which they go into.

    Raises:
        ArchiveError: it does not say which applications, or where to, or one still runs; or some could not be moved, unlike the others.
        AgeError: ``age`` is none.
        StoreError: a store can't be read or written.
    """
    if bool(names) == bool(age):
        raise ArchiveError("give either applications, or --older-than AGE")
    link_left(url)
    moved: list[Moved] = []
    left: list[str] = []
    with _opened(url, lake) as stores:
        for app, has_ended in _chosen(stores, names, age).items():
            # Blocks of one that has ended are left there where they can't be read: nobody has another copy of them.
            is_kept = has_ended and is_embedded(url) and has_spool(url, app)

            def end_spool(app: str = app, is_kept: bool = is_kept) -> None:
                if is_embedded(url) and not is_kept:
                    remove_spool(url, app)

            try:
                moved.append(
                    move_application(
                        stores.source, stores.lake, app, deletes=not is_kept, copied=end_spool
                    )
                )
            except KeyError:
                if app in stores.source.application_ids():
                    raise
                echo(f"{app} was moved or removed by somebody else meanwhile", err=True)
                continue
            except (ChangedError, DamagedError) as error:
                # Of this one alone: those that are younger would never be archived.
                echo(str(error), err=True)
                left.append(app)
                continue
            if not as_json:
                contents = moved[-1].contents
                hot = hot_part(url)
                done = (
                    f"and kept in {hot}, too: its spool holds what can't be linked"
                    if is_kept
                    else f"and deleted from {hot}"
                )
                echo(
                    f"{app}: {contents.blocks:,} blocks, {contents.edges:,} edges and {contents.messages:,} messages "
                    f"are in {stores.lake.address}, compared, {done}"
                )
    if as_json:
        print_json([asdict(one) for one in moved])
    elif not (moved or left):
        echo("no application is that old" if age else "all of them are in the lake")
    if left:
        raise ArchiveError(f"not archived, and nothing of it deleted: {', '.join(left)}")


@dataclass(frozen=True, slots=True)
class _Stores:
    """``source`` and ``lake``: from where to where. ``listed``: tells which applications there are, and how they ended."""

    source: GraphStore
    lake: LakeStore
    listed: GraphStore


@contextmanager
def _opened(url: str, lake: str) -> Iterator[_Stores]:
    """The stores of an address, and the lake that is given, or that stands behind the store."""
    tiers = read_tiers(url)
    if tiers is not None:
        if lake and absolute_store(lake) != absolute_store(tiers.cold):
            raise ArchiveError(
                f"what is archived from {tiers.hot} goes into {tiers.cold}, not {lake}"
            )
        with open_tiers(tiers) as both:
            yield _Stores(both.hot, both.cold(), both)
        return
    if not lake:
        raise ArchiveError(
            "give --to LAKE, or name the lake behind the store: --store STORE,lake:PATH"
        )
    if not is_lake(lake):
        raise StoreError(f"{lake} is no lake; give --to lake:PATH or lake:s3://BUCKET/FOLDER")
    if absolute_store(url) == absolute_store(lake):
        raise ArchiveError(f"{lake} is the store the applications are in")
    with open_store(url) as source, open_lake(lake, create=True) as target:
        yield _Stores(source, target, source)


def _chosen(stores: _Stores, names: Sequence[str], age: str) -> dict[str, bool]:
    """The applications to move, of those that are in the source, and whether each said that it ended."""
    records = {record.app: record for record in stores.listed.applications()}
    if names:
        apps = list(dict.fromkeys(find_application(stores.listed, name) for name in names))
        for app in apps:
            if records[app].status == "running":
                raise ArchiveError(f"{app} still runs; it can be archived when it has ended")
    else:
        old = older_than(records.values(), age)
        apps = [record.app for record in old if record.status != "running"]
    there = set(stores.source.application_ids())
    return {app: records[app].ended_at is not None for app in apps if app in there}


def compact_lake(url: str, kept_hours: int, *, as_json: bool) -> None:
    """Merge the files of a lake, and print what was done.

    Raises:
        StoreError: the store is no lake, or can't be written.
    """
    tiers = read_tiers(url)
    with open_lake(url) if tiers is None else open_existing_lake(tiers) as lake:
        # It loads the table format.
        from lineage_store.lake.compacting import compact

        done = compact(lake, kept_hours)
    if as_json:
        print_json(asdict(done))
        return
    echo(
        f"{done.merged:,} files became {done.written:,} ({done.bytes_saved:,} bytes less); "
        f"{done.deleted:,} files are deleted that were replaced {kept_hours:,} hours ago, or left by a killed writer a week ago"
    )
