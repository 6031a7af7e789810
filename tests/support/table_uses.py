"""Applications that read and wrote versions of tables, in a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lineage_core.contract.message import (
    Begin,
    Link,
    Message,
    Recipe,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
)
from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.plan import Attribute, Range
from lineage_store.port import GraphStore

PLAN = (Range((Attribute(0, "id", "bigint"),), 0, 1, 1),)


def wrote_table(
    store: GraphStore,
    app: str,
    output: Output,
    files: Iterable[str | Path],
    at: float | None = None,
) -> None:
    """An application that wrote a version of a table. ``at``: when its files were written; None: they are there."""
    node = Register(app=app, node="0", kind="frame", op="write", name="write", path=output.path)
    named = tuple(
        SinkFile(partition=0, path=str(file), size=size, mtime=time)
        for file, size, time in _states(files, at)
    )
    recipe = Document("4.1", {}, (), PLAN, output).to_json()
    messages: list[Message] = [Begin(app=app, name=app, started_at=at or 1.0), node]
    messages += [Recipe(app=app, node="0", recipe=recipe)]
    messages += [RecordFiles(app=app, node="0", path=output.path or "", files=named)]
    store.write(app, messages)


def read_table(
    store: GraphStore,
    app: str,
    source: Source,
    files: Iterable[str | Path],
    at: float | None = None,
) -> None:
    """An application that read a version of a table. ``at``: as of :func:`wrote_table`."""
    node = Register(
        app=app, node="0.0", kind="frame-source", op=source.format, name="", path=source.name
    )
    reader = Register(app=app, node="0", kind="frame", op="write", name="write")
    splits = tuple(
        RecordSplit(partition=0, path=str(file), start=0, length=size, file_size=size, mtime=time)
        for file, size, time in _states(files, at)
    )
    messages: list[Message] = [Begin(app=app, name=app, started_at=at or 1.0), node, reader]
    messages += [Link(app=app, src="0.0", dest="0")]
    messages += [Recipe(app=app, node="0", recipe=Document("4.1", {}, (source,), PLAN).to_json())]
    messages += [RecordSplits(app=app, node="0.0", whole=False, splits=splits)]
    store.write(app, messages)


def _states(
    files: Iterable[str | Path], at: float | None
) -> Iterator[tuple[str | Path, int, float]]:
    for file in files:
        if at is None:
            status = Path(file).stat()
            yield file, status.st_size, status.st_mtime
        else:
            yield file, 1, at
