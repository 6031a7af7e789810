"""Messages of streams in the SQLite store: what they have in common is stored once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.message import (
    Begin,
    Link,
    Message,
    Recipe,
    RecordFiles,
    Register,
    SinkFile,
    Split,
    Splits,
    Stream,
)
from lineage_core.recipe.document import ERASED
from lineage_store.errors import StoreError
from lineage_store.folding import FoldedBody, expanded_body, folded_body, packed_body
from lineage_store.sqlite import schema
from lineage_store.sqlite.store import SqliteStore

APP = "local-1"
RUN = "3c2f0f6e-7c35-4f3c-9d35-0a60a6f5f1c7"
SETTINGS = {f"spark.sql.setting{number}": str(number) for number in range(60)}
BATCHES = 200
BATCH_BYTES_MAX = 2_000


def batch(number: int, query: str = "large") -> Iterator[Message]:
    """What is recorded of a micro-batch."""
    path, node = f"file:/data/in/orders-{number:09}.csv", f"{query}{number}"
    written = f"file:/data/{query}/part-00000-{number * 7919 % 99991:016x}.parquet"
    recipe = {"version": 3, "settings": SETTINGS, "batch": number, "path": path, "query": query}
    split = Split(partition=0, path=path, start=0, length=9, file_size=9, mtime=number)
    file = SinkFile(partition=0, path=written, size=number, mtime=number)
    yield Register(app=APP, node=f"{node}.0", kind="frame-source", op="csv", path=path)
    yield Splits(app=APP, node=f"{node}.0", splits=(split,))
    yield Register(app=APP, node=node, kind="frame", op="start", path=f"file:/data/{query}")
    yield Link(app=APP, src=f"{node}.0", dest=node)
    yield Recipe(app=APP, node=node, recipe=json.dumps(recipe))
    yield RecordFiles(app=APP, node=node, path=f"file:/data/{query}", files=(file,))
    yield Stream(app=APP, query=query, run=RUN, state="batch", number=number)


def begun(*queries: str) -> list[Message]:
    start = Begin(app=APP, name="job", started_at=1)
    return [start, *(Stream(app=APP, query=query, run=RUN, state="started") for query in queries)]


def stored_bytes(store: SqliteStore) -> int:
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return store.path.stat().st_size


def test_batches_of_a_stream_take_less_than_two_kilobytes_each(tmp_path: Path) -> None:
    messages = begun("large")
    with SqliteStore(tmp_path / "lineage.db") as store:
        sizes = []
        for number in range(2 * BATCHES):
            one = list(batch(number))
            store.write(APP, one)
            messages += one
            if (number + 1) % BATCHES == 0:
                sizes.append(stored_bytes(store))
        store.write(APP, messages[:2])
    assert (sizes[1] - sizes[0]) / BATCHES <= BATCH_BYTES_MAX
    with SqliteStore(tmp_path / "lineage.db") as store:
        graph = store.graph(APP)
        read = [message for message in graph.messages() if message not in messages[:2]]
        assert read == messages[2:]
        for message in messages:
            if isinstance(message, Recipe):
                assert graph.recipe(message.node) == message.recipe
        assert len(graph.nodes()) == 4 * BATCHES
        assert graph.counts().recipes == {f"large{number}" for number in range(2 * BATCHES)}


def test_queries_side_by_side_refer_to_their_own(tmp_path: Path) -> None:
    queries = [f"query-{number}" for number in range(4)]
    messages = begun(*queries)
    messages += [message for n in range(20) for query in queries for message in batch(n, query)]
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, messages)
        # Again, as after a crash.
        store.write(APP, messages)
        assert list(store.messages(APP)) == messages
        whole = "SELECT count(*) FROM message WHERE type = 'recipe' AND base IS NULL"
        assert store._db.execute(whole).fetchone()[0] <= len(queries)


def test_other_applications_are_stored_as_before(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        messages = [m for n in range(9) for m in batch(n) if not isinstance(m, Stream)]
        store.write(APP, messages)
        assert store._db.execute("SELECT count(base) FROM message").fetchone() == (0,)
        assert list(store.messages(APP)) == messages


def test_a_recipe_to_which_others_refer_is_erased_alone(tmp_path: Path) -> None:
    messages = [*begun("large"), *(m for n in range(9) for m in batch(n))]
    recipes = {m.node: m.recipe for m in messages if isinstance(m, Recipe)}
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, messages)
        for node in ("large0", "large5"):
            store.erase(APP, lambda block: None, [Recipe(app=APP, node=node, recipe=ERASED)])
            recipes[node] = ERASED
            assert {name: store.graph(APP).recipe(name) for name in recipes} == recipes
        assert b"orders-000000000.csv" not in b"".join(
            expanded_body(body).encode()
            for (body,) in store._db.execute(
                "SELECT body FROM message WHERE type = 'recipe' AND base IS NULL"
            )
        )
        # What comes later refers to nothing that is gone.
        store.write(APP, list(batch(20)))
        assert store.graph(APP).recipe("large20") is not None
        store.delete(APP)
        assert store._db.execute("SELECT count(*) FROM message_base").fetchone() == (0,)


def test_a_store_of_before_takes_batches(tmp_path: Path) -> None:
    messages = [*begun("large"), *(m for n in range(3) for m in batch(n))]
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(APP, messages)
        bodies = store._db.execute(
            "SELECT message.id, message.type, message.body, base.body FROM message "
            "JOIN message base ON base.id = message.base"
        ).fetchall()
        for number, kind, folded, base in bodies:
            body = expanded_body(FoldedBody(folded, base))
            store._db.execute(
                "UPDATE message SET body = ? WHERE id = ?",
                (packed_body(body) if kind == "recipe" else body, number),
            )
        store._db.execute("DROP TABLE message_base")
        store._db.execute("ALTER TABLE message DROP COLUMN base")
        store._db.execute(f"PRAGMA user_version = {len(schema.STEPS) - 1}")
    later = [m for n in range(3, 9) for m in batch(n)]
    with SqliteStore(tmp_path / "lineage.db") as store:
        assert list(store.messages(APP)) == messages
        store.write(APP, later)
        assert list(store.messages(APP)) == messages + later
        assert store._db.execute("SELECT count(base) FROM message").fetchone()[0] > 0


@given(st.text(), st.text())
def test_a_folded_text_is_read_with_its_base(text: str, base: str) -> None:
    folded = folded_body(text, base)
    assert expanded_body(FoldedBody(folded, base)) == text
    assert expanded_body(FoldedBody(folded, packed_body(base))) == text


@given(st.text(min_size=20), st.text(min_size=20), st.data())
def test_another_base_or_damage_is_refused(base: str, other: str, data: st.DataObject) -> None:
    folded = folded_body(base + base, base)
    if other != base:
        with pytest.raises(StoreError):
            expanded_body(FoldedBody(folded, other))
    cut = data.draw(st.integers(0, len(folded) - 1))
    with pytest.raises(StoreError):
        expanded_body(FoldedBody(folded[:cut], base))
