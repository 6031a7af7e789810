"""What an answer about one application says of the others that wrote its files, or read them, against a chain of jobs that is known."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group
from tests.oracle.chains import Chain, path_of

KEPT = "/.lineage/rows/"
"""Records that an RDD handed to a DataFrame are listed, too, beside what they are made of; so are rows that a DataFrame handed to an
RDD, without a location."""


def places(group: Group) -> list[str]:
    """The places of a group's items in files of users."""
    return [item.location for item in group.items if item.location and KEPT not in item.location]


def check_next_jobs(chain: Chain, answer: Answer) -> None:
    """Every application that used exactly a version of the answer's files is named as such, and no other."""
    is_backward = answer.direction is Direction.BACKWARD
    for group in answer.groups:
        app = group.app or answer.app
        paths = dict.fromkeys(map(path_of, places(group)))
        used = [(path, user) for path in paths for user in _users(chain, app, path, is_backward)]
        expected = {user for _, user in used}
        same = [job for job in group.next_jobs if job.same_version]
        shown = (group, sorted(expected), chain.reads, chain.moved)
        assert {job.app for job in same} == expected, shown
        assert sum(job.files for job in same) == len(used), shown
        assert not any(job.reason for job in same), shown
        others = [job for job in group.next_jobs if not job.same_version]
        assert all(job.reason for job in others), shown
        movers = {user for path in paths for user in _users_of_moved(chain, app, path, is_backward)}
        editors = {
            user for path in paths for user in _users_of_edited(chain, app, path, is_backward)
        }
        assert bool(others) >= bool(movers | editors), (shown, movers, editors)
        if not movers | editors and is_backward:
            assert not others, shown
        for user in editors - expected - movers:
            # Both versions are named.
            reasons = [job.reason for job in others if job.app == user]
            assert any(reason.count(" bytes of ") == 2 for reason in reasons), (shown, user)


def _users(chain: Chain, app: str, path: str, is_backward: bool) -> Iterator[str]:
    """The applications that wrote the version of a file that one read, or read the one that it wrote, where it was written."""
    if is_backward:
        states = {state for state in chain.reads[app] if state[0] == path}
        yield from (version.app for version in chain.written if version.state in states)
        return
    for version in chain.written:
        if (version.app, version.path) == (app, path):
            yield from (reader for reader, states in chain.reads.items() if version.state in states)


def _users_of_moved(chain: Chain, app: str, path: str, is_backward: bool) -> Iterator[str]:
    """The same of files that were moved between."""
    for state, origin in chain.moved.items():
        version = chain.written_as(origin)
        if version is None:
            # Edited, and then moved: of the one that was written nothing is left in it that says so.
            continue
        readers = [reader for reader, states in chain.reads.items() if state in states]
        if is_backward and state[0] == path and app in readers:
            yield version.app
        elif not is_backward and (version.app, version.path) == (app, path):
            yield from readers


def _users_of_edited(chain: Chain, app: str, path: str, is_backward: bool) -> Iterator[str]:
    """The application that wrote a file last before it was edited and read, or those that read it since."""
    writers = [version.app for version in chain.written if version.path == path]
    edited = {state for state in chain.edited if state[0] == path}
    readers = [reader for reader, states in chain.reads.items() if edited.intersection(states)]
    if is_backward and app in readers and writers:
        yield writers[-1]
    elif not is_backward and writers == [app]:
        yield from readers


def check_origin(chain: Chain, app: str, ids: frozenset[int], answer: Answer) -> None:
    """The rows that an application made a row of have its numbers, all together."""
    rows = dict(row for state in chain.reads[app] for row in chain.rows_of(state))
    groups = answer.groups
    listed = [place for group in groups for place in places(group)]
    assert all(path_of(place) in dict(chain.reads[app]) for place in listed), (listed, answer)
    made_of = frozenset().union(*(rows[place] for place in listed))
    if answer.exact:
        assert made_of <= ids, (sorted(made_of), sorted(ids), answer)
    if answer.complete and sum(group.count for group in groups) == len(listed):
        assert made_of >= ids, (sorted(made_of), sorted(ids), answer)
