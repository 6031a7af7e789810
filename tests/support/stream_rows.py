"""Streams of files that tests draw, and rows that sinks of files have of them, by batch."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery

Row: TypeAlias = dict[str, Any]
Places: TypeAlias = dict[str, str]
"""Where each record stands, by its identity."""


def drawn_files(draw: random.Random, folder: Path, side: str, *, late: bool = True) -> Places:
    """The files of a stream, whose event times go on from file to file, and where ``late``, sometimes back."""
    (folder / side).mkdir()
    places = {}
    for number in range(draw.randint(3, 5)):
        path = folder / side / f"{number}.json"
        lines = []
        for at in range(draw.randint(0, 4)):
            behind = draw.choice((0, 0, 0, 20)) if late else 0
            time = 100 + 8 * number + draw.randint(-4, 6) - behind
            key = draw.choice(("a", "a", "b", "c", None))
            place = f"{side}{number}.{at}"
            when = draw.choice((time, time, time, time, None))
            lines.append({"id": place, "key": key, "v": draw.randint(1, 2), "t": when})
            places[place] = f"{path}:{at + 1}"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (1_700_000_000 + number,) * 2)
    return places


def made_of(row: Row, places: Places) -> frozenset[str]:
    """Where the records stand that a row was made of, as its column ``ids`` says itself."""
    return frozenset(places[name] for name in row["ids"])


def traced_places(
    access: StoredAccess, direction: Direction, place: str
) -> tuple[frozenset[str], bool]:
    """Where the rows stand that a trace finds, and whether it is exact."""
    answer = access.ask(TraceQuery(direction, (place,), texts=False))
    items = (str(item.location) for group in answer.groups for item in group.items if item.location)
    return frozenset(items), answer.exact


def written(folder: Path) -> Iterator[tuple[int, Path]]:
    """The files of a sink with their batches, as its own log has them."""
    for log in sorted((folder / "_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.name)):
        for line in log.read_text().splitlines()[1:]:
            path = unquote(json.loads(line)["path"]).removeprefix("file://")
            yield int(log.name), Path(path)


def rows_of(folder: Path) -> list[tuple[int, str, Row]]:
    """The rows of a sink, with their batches and places."""
    return [
        (number, f"{path}:{at + 1}", json.loads(line))
        for number, path in written(folder)
        for at, line in enumerate(path.read_text().splitlines())
    ]
