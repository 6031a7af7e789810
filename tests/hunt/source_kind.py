"""Sources that change between questions: a text that is shown as what was read must be what was read.

Each row of the source is another text. What a change does, and over which way is asked next, is drawn; each answer
that shows a text without saying that the file has changed is held to the text as it was.
"""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from hypothesis import strategies as st

from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.hunt.claims import Finding
from tests.hunt.hunting import Kind
from tests.support.api_server import serving
from tests.support.stored_lineage import store_run

TEXT = "i-0\n1\ni-2\n3\r4\n5\n"
"""As long, line by line, as the text of `tests.support.stored_lineage`; each row is another one."""
ROWS = {
    ("0", 0): "i-0",
    ("0", 1): "1",
    ("1", 0): "i-2",
    ("1", 1): "3",
    ("1", 2): "4",
    ("1", 3): "5",
}
"""Texts by partition and ordinal."""
QUESTION = "write#0#0"
Shown = Iterable[tuple[str, str | None, bool]]
"""Address, text, and whether the file is said to have changed."""


@dataclass(frozen=True)
class Asked:
    """Changes and questions, in turn, after a first question."""

    first: str
    turns: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " > ".join([self.first, *itertools.chain(*self.turns)])


@dataclass
class Run:
    """One application, its source and who answers. ``traces``: of the API, made before."""

    app: str
    source: Path
    store: GraphStore
    client: httpx.Client
    query_engine: QueryEngine
    index: Path
    traces: list[str] = field(default_factory=list)


# Changes ------------------------------------------------------------------------------------------


def _touch(source: Path) -> None:
    os.utime(source, (0, source.stat().st_mtime + 10))


def _insert(source: Path) -> None:
    source.write_bytes(b"new\n" + source.read_bytes())


def _append(source: Path) -> None:
    source.write_bytes(source.read_bytes() + b"new\n")


def _swap(source: Path) -> None:
    """Other rows of the same size, at the same time."""
    before = source.stat()
    source.write_bytes(TEXT.replace("i-0", "x-9").replace("i-2", "y-9").replace("5", "z").encode())
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))


def _restore(source: Path) -> None:
    source.write_bytes(TEXT.encode())


def _cut(source: Path) -> None:
    source.write_bytes(source.read_bytes()[:7])


CHANGES: dict[str, Callable[[Path], None]] = {
    "touch": _touch,
    "insert": _insert,
    "append": _append,
    "swap": _swap,
    "restore": _restore,
    "cut": _cut,
}

# Ways to ask --------------------------------------------------------------------------------------


def _shown(groups: Iterable[Any], *, warned: bool) -> Shown:
    for group in groups:
        for item in group["items"]:
            yield item["address"], item["text"], group["changed"] or warned


def _by_program(run: Run) -> Shown:
    """A program that goes on, and keeps its query engine."""
    return _answer(run.query_engine, run.app)


def _by_command(run: Run) -> Shown:
    """A command: another process, with the indexes of the one before."""
    return _answer(QueryEngine(run.store, RowReader(run.index)), run.app)


def _answer(query_engine: QueryEngine, app: str) -> Shown:
    answer = query_engine.ask(TraceQuery(Direction.BACKWARD, (QUESTION,), app=app)).to_json()
    return list(_shown(answer["sources"], warned=answer["changed"]))


def _by_api(run: Run) -> Shown:
    body = {"direction": "backward", "start": {"places": [QUESTION]}}
    made = _got(run.client.post(f"/v1/applications/{run.app}/traces", json=body))
    run.traces.append(made["trace"])
    return list(_shown(made["groups"], warned=False))


def _again(run: Run) -> Shown:
    """A trace that was made before."""
    if not run.traces:
        return _by_api(run)
    return list(_shown(_got(run.client.get(f"/v1/traces/{run.traces[0]}"))["groups"], warned=False))


def _by_rows(run: Run) -> Shown:
    found: list[tuple[str, str | None, bool]] = []
    for partition, ordinal in ROWS:
        address = f"read#{partition}#{ordinal}"
        path = f"/v1/applications/{run.app}/rows"
        answer = run.client.get(path, params={"address": address, "around": 1})
        if answer.status_code == httpx.codes.OK:
            rows = answer.json()
            found += [(row["address"], row["text"], rows["changed"]) for row in rows["rows"]]
    return found


def _by_export(run: Run) -> Shown:
    """A file of a trace: it has no place for a warning but its rows."""
    _by_api(run)
    path = f"/v1/traces/{run.traces[-1]}/export"
    answer = run.client.get(path, params={"format": "csv"})
    if answer.status_code != httpx.codes.OK:
        return []
    rows = csv.DictReader(io.StringIO(answer.text))
    # Where there is no text, nothing binds it: a row that is empty has a binding.
    return [
        (_address(row), row["text"] if row["binding"] else None, _is_warned(row)) for row in rows
    ]


def _address(row: dict[str, Any]) -> str:
    return str(row.get("address") or "")


def _is_warned(row: dict[str, Any]) -> bool:
    return str(row["binding"]) == "now"


WAYS: dict[str, Callable[[Run], Shown]] = {
    "program": _by_program,
    "command": _by_command,
    "api": _by_api,
    "api again": _again,
    "rows": _by_rows,
    "export": _by_export,
}


def _got(answer: httpx.Response) -> Any:
    assert answer.status_code == httpx.codes.OK, answer.text
    return answer.json()


def questions() -> st.SearchStrategy[Asked]:
    """One to three changes, with a question behind each."""
    turns = st.tuples(st.sampled_from(sorted(CHANGES)), st.sampled_from(sorted(WAYS)))
    listed = st.lists(turns, min_size=1, max_size=3).map(tuple)
    return st.builds(Asked, st.sampled_from(sorted(WAYS)), listed)


def held(run: Run, asked: Asked) -> Finding:
    """What is shown after each change, against what was read."""
    finding = Finding(complete=True)
    _hold(finding, asked.first, WAYS[asked.first](run))
    for change, way in asked.turns:
        CHANGES[change](run.source)
        _hold(finding, f"{way} after {change}", WAYS[way](run))
    return finding


def _hold(finding: Finding, when: str, shown: Shown) -> None:
    for address, text, changed in shown:
        _, partition, ordinal = address.rsplit("#", 2) if address.count("#") > 1 else ("", "", "")
        before = ROWS.get((partition, int(ordinal))) if ordinal else None
        if before is None or not address.startswith(("read#", "0#")):
            continue
        finding.rows += 1
        finding.exact += not changed and text == before
        if text is not None and text != before and not changed:
            finding.faults.append(f"{when}: {address} is shown as {text!r}, and was {before!r}")


@contextmanager
def asking(folder: Path) -> Iterator[Callable[[Asked], Finding]]:
    """Tries changes and questions over one store and one server."""
    folder.mkdir(parents=True)
    url = f"sqlite:///{folder}/lineage.db"
    numbers = itertools.count()
    SqliteStore(folder / "lineage.db").close()
    with (
        serving(url, api_roots=str(folder), api_rate="1000000/minute") as address,
        httpx.Client(base_url=address, timeout=60) as client,
        open_store(url) as store,
    ):

        def run(asked: Asked) -> Finding:
            app = f"app-{next(numbers)}"
            home = folder / app
            home.mkdir()
            (home / "in.txt").write_text(TEXT, newline="")
            stored = store_run(url, home, app, summed=True)
            index = home / "index"
            query_engine = QueryEngine(store, RowReader(index))
            finding = held(Run(app, stored.source, store, client, query_engine, index), asked)
            return finding.harmed_by(Counter(f"source: {change}" for change, _ in asked.turns))

        yield run


SOURCE_KINDS = (Kind("sources", questions, asking, batch=100),)
