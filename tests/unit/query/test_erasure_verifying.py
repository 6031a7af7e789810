"""What an erasure left is found by trace and by reading; what can't be looked at is never called clean."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import (
    Begin,
    Fail,
    Link,
    Message,
    Recipe,
    RecordSplit,
    RecordSplits,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
    Stream,
)
from lineage_core.recipe.document import ERASED, StreamBatch
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.plan import Attribute, Filter, Literal, OpaqueExpression, Values
from lineage_query.engine import QueryEngine
from lineage_query.erasure.applying import apply_plan
from lineage_query.erasure.finding import SubjectQuery, Subjects
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.known_values import known_values
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.source_rows import SourceForm
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.stream_states import queries_with_state
from lineage_query.erasure.verified import Verified
from lineage_query.erasure.verifying import Verifying
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import Job, World, world_of_four_rows
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows

pytestmark = pytest.mark.unit
FORM = SourceForm(format="csv", separator=";", columns=("key", "token"))


class Erasure:
    """A world of a source (r1x to r4x), a copy and a count of it, and a plan for r3x, the only row of its key."""

    def __init__(self, world: World) -> None:
        self.world, self.store = world, world.store
        self.source = world.datasets[0].path
        self.query = SubjectQuery(str(self.source), where="token = 'r3x'", form=FORM)
        folder = world.folder
        self.place = StorePlace(
            "sqlite:///x", folder / "rows", folder / "spool", folder / "index", False, False
        )
        self.document = self.make().to_json()

    def make(self) -> Plan:
        reader = RowReader()
        engine = QueryEngine(self.store, reader)
        return make_plan("erase", self.query, self.store, reader, engine, self.place)

    def apply(self) -> None:
        apply_plan(self.document, self.query, self.make, self.store, self.place)

    def verify(self, **changed: Any) -> Verified:
        reader = RowReader()
        engine = QueryEngine(self.store, reader)
        given: dict[str, Any] = {"query": self.query, "document": self.document} | changed
        return Verifying(
            store=self.store,
            reader=reader,
            engine=engine,
            place=self.place,
            make=self.make,
            **given,
        ).verify()

    def delete_outputs(self) -> None:
        for name in ("out2", "out3"):
            for path in (self.world.folder / name).iterdir():
                path.unlink()

    def delete_source_row(self) -> None:
        lines = self.source.read_text().splitlines(keepends=True)
        self.source.write_text("".join(line for line in lines if "r3x" not in line))

    def erase(self) -> None:
        self.apply()
        self.delete_outputs()
        self.delete_source_row()


@pytest.fixture
def erasure(tmp_path: Path) -> Iterator[Erasure]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield Erasure(world_of_four_rows(tmp_path, store, "copy", "count"))


def kinds(verified: Verified) -> list[tuple[str, str]]:
    return [(left.kind, Path(left.where.partition(":")[0]).parent.name) for left in verified.left]


def test_before_anything_is_done_all_is_left(erasure: Erasure) -> None:
    verified = erasure.verify()
    assert not verified.clean
    assert {kind for kind, _ in kinds(verified)} >= {"source", "carries", "text", "lineage"}
    shown = "\n".join(verified.lines())
    assert "the plan is not carried out" in shown
    assert "the row is there" in shown
    assert json.loads(json.dumps(verified.to_json()))["clean"] is False


def test_when_all_is_done_nothing_is_left(erasure: Erasure) -> None:
    erasure.erase()
    verified = erasure.verify()
    assert verified.clean, list(verified.lines())
    assert next(verified.lines()).startswith("clean")


def test_each_kind_that_is_left_is_found(erasure: Erasure) -> None:
    erasure.erase()
    app = erasure.store.application_ids()[0]
    out = erasure.world.folder / "out2"
    found: dict[str, Verified] = {}
    # The row in an output that somebody wrote without capture, and in the source.
    (out / "part-copied").write_text("a;r1x\nc;R3X\n")
    found["text"] = erasure.verify()
    (out / "part-copied").unlink()
    with erasure.source.open("a") as file:
        file.write("c;r3x\n")
    found["source"] = erasure.verify()
    erasure.delete_source_row()
    # A kept spool.
    spool = erasure.place.spool / app
    (spool / "blocks").mkdir(parents=True)
    steps = [{"kind": "spool", "app": app, "folder": str(spool)}]
    assert erasure.verify().clean
    journal = next(erasure.place.journals.iterdir())
    begun, *lines = journal.read_text().splitlines(keepends=True)
    document = json.loads(begun)
    kept = erasure.world.folder / "kept.parquet"
    kept.write_text("x")
    document["steps"] += [*steps, {"kind": "kept rows", "files": [str(kept)]}]
    journal.write_text("".join([json.dumps(document) + "\n", *lines]))
    found["lineage"] = erasure.verify()
    assert {left.why for left in found["lineage"].left} == {"a spool", "kept rows"}
    (spool / "blocks").rmdir()
    spool.rmdir()
    kept.unlink()
    # A text, and a constant.
    extra = flows(BlockId("7", 0, 0, 0), "6#0", "7#0", [([0], 0)], app)
    erasure.store.write(app, blocks=[replace(extra, values=["c;r3x"])])
    column = Attribute(1, "v", "string")
    recipe = Document("3.5", {}, (), (Values((column,), ((Literal("r3x", "string"),),)),))
    erasure.store.write(app, [Recipe(app=app, node="f1", recipe=recipe.to_json())])
    found["store"] = erasure.verify()
    assert {left.why for left in found["store"].left} == {
        "1 texts are stored",
        "the recipe of f1 may hold values",
    }
    for kind, verified in found.items():
        assert not verified.clean, kind
        assert {left.kind for left in verified.left} >= {kind.replace("store", "lineage")}


def test_a_text_that_came_back_is_found_by_its_position(erasure: Erasure) -> None:
    erasure.erase()
    app = erasure.store.application_ids()[-1]

    def restore(block: Any) -> Any:
        # It does not hold the value that identifies.
        values = ["of c" if text == "[erased]" else text for text in block.values or ()]
        return replace(block, values=values) if block.values else None

    erasure.store.erase(app, restore, [])
    assert [left.why for left in erasure.verify().left] == ["1 texts are stored"]


def test_an_output_that_was_not_deleted_is_left(erasure: Erasure) -> None:
    erasure.apply()
    erasure.delete_source_row()
    verified = erasure.verify()
    # The count shows no value of the row, and is found by trace.
    assert ("carries", "out3") in kinds(verified)
    assert ("carries", "out2") in kinds(verified)


def test_a_changed_file_is_clean_only_where_its_row_can_be_told(erasure: Erasure) -> None:
    erasure.erase()
    folder = erasure.world.folder
    copied = next(
        row["place"] for row in erasure.document["rows"] if "out2" in row["place"]
    ).rpartition(":")[0]
    # The copy showed the token, so reading tells: without it the file is clean.
    Path(copied).write_text("a;r1x\n")
    assert erasure.verify().unseen == {} or "columns" in str(erasure.document["rows"])
    counted = next(
        row["place"] for row in erasure.document["rows"] if "out3" in row["place"]
    ).rpartition(":")[0]
    Path(counted).write_text("a;2\nc;1\n")
    verified = erasure.verify()
    assert not verified.clean
    assert any("out3" in reason and "is not known" in reason for reason in verified.unseen)
    assert folder.exists()


def test_an_output_that_a_later_job_wrote_again_is_clean(erasure: Erasure) -> None:
    erasure.erase()
    counted = next(row for row in erasure.document["rows"] if "out3" in row["place"])
    path = Path(counted["place"].rpartition(":")[0])
    path.write_text("a;2\nb;1\n")
    assert not erasure.verify().clean
    status = path.stat()
    file = SinkFile(partition=0, path=f"file:{path}", size=status.st_size, mtime=status.st_mtime)
    spool = Spool(erasure.place.spool, "later")
    spool.begin(2e9)
    spool.node("9", "sink", "saveAsTextFile", path=str(path.parent), partitions=1)
    spool.task("9", 0, 0, [], rows=2)
    spool.job("9", n9=1)
    spool.send(SinkFiles(app="later", node="9", path=str(path.parent), files=(file,)))
    ingest(erasure.store, spool.folder)
    # It is not known yet what that job read.
    assert not erasure.verify().clean
    spool.end(blocks=0, tasks=1)
    ingest(erasure.store, spool.folder)
    verified = erasure.verify()
    assert verified.clean, list(verified.lines())


def test_an_output_that_was_made_anew_of_a_copy_is_not_clean(erasure: Erasure) -> None:
    copy, other = erasure.world.folder / "backup.txt", erasure.world.datasets[1].path
    copy.write_bytes(erasure.source.read_bytes())
    erasure.erase()
    counted = next(row for row in erasure.document["rows"] if "out3" in row["place"])
    path = Path(counted["place"].rpartition(":")[0])
    for made_of, is_clean in ((erasure.source, True), (other, False), (copy, False)):
        # No value that identifies stands in it.
        path.write_text(f"a;2\nb;1\nc;1\n{made_of.name}\n")
        later = f"of-{made_of.stem}"
        spool, status, read = Spool(erasure.place.spool, later), path.stat(), made_of.stat()
        spool.begin(2e9)
        spool.node("1", "source", "textFile", path=str(made_of), partitions=1)
        split = Split(
            partition=0,
            path=f"file:{made_of}",
            start=0,
            length=read.st_size,
            file_size=read.st_size,
            mtime=read.st_mtime,
        )
        spool.send(Splits(app=later, node="1", splits=(split,)))
        spool.node("9", "sink", "saveAsTextFile", path=str(path.parent), partitions=1)
        spool.send(Link(app=later, src="1", dest="9"))
        spool.task("9", 0, 0, [], rows=4)
        spool.job("9", n9=1)
        file = SinkFile(
            partition=0, path=f"file:{path}", size=status.st_size, mtime=status.st_mtime
        )
        spool.send(SinkFiles(app=later, node="9", path=str(path.parent), files=(file,)))
        spool.end(blocks=0, tasks=1)
        ingest(erasure.store, spool.folder)
        assert erasure.verify().clean == is_clean, made_of


def test_values_in_messages_are_found(erasure: Erasure) -> None:
    erasure.erase()
    app = erasure.store.application_ids()[0]
    error = "ValueError: invalid literal for int() with base 10: 'c;r3x'"
    split = RecordSplit(
        partition=0, path="/o/Token=r3x/f.parquet", start=0, length=1, file_size=1, mtime=1.0
    )
    not_meant = split.model_copy(update={"path": "/o/other=r3x/r3x.parquet"})
    nodes: Any = {"app": app, "node": "8", "whole": False}
    messages: dict[str, Message] = {
        "an error at 9": Fail(app=app, node="9", partition=0, attempt=7, reason=error),
        "the path of a file of 8": RecordSplits(splits=(split,), **nodes),
        "an argument of the program": Begin(app=app, name="j", started_at=1.0, argv=("x", "R3X")),
    }
    erasure.store.write(app, [RecordSplits(splits=(not_meant,), **nodes)])
    assert erasure.verify().clean
    for number, (what, message) in enumerate(messages.items(), 1):
        erasure.store.write(app, [message])
        verified = erasure.verify()
        assert f"{what} holds the values" in {left.why for left in verified.left}
        assert len(verified.left) == number


def test_values_in_rows_that_any_application_keeps_are_found(erasure: Erasure) -> None:
    """Rows that went through the driver's memory are reached by no trace."""
    erasure.erase()
    kept = erasure.place.rows / "app-7" / "list-3" / "rows.parquet"
    hits = (
        erasure.place.spool
        / erasure.store.application_ids()[0]
        / "watch"
        / "hits"
        / "a1"
        / "x.jsonl"
    )
    for path in (kept, hits):
        path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"token": ["r4x"]}), kept)
    hits.write_text('{"text":"r4x"}\n')
    assert erasure.verify().clean
    pq.write_table(pa.table({"token": ["r4x", "r3x"]}), kept)
    hits.write_text('{"text":"R3X"}\n')
    assert {Path(left.where.partition(",")[0]).name for left in erasure.verify().left} == {
        "rows.parquet",
        "x.jsonl",
    }
    kept.unlink()
    hits.unlink()
    kept.with_suffix(".parquet.part").write_bytes(b"PAR1\0r3x")
    assert any("parquet.part" in reason for reason in erasure.verify().unseen)


def test_values_in_what_is_said_of_streams_are_found(erasure: Erasure) -> None:
    erasure.erase()
    app = erasure.store.application_ids()[0]
    column = Attribute(1, "v", "string")
    others, own = (
        Document("3.5", {}, (), (Values((column,), ((Literal(text, "string"),),)),)).to_json()
        for text in ("r4x", "r3x")
    )
    facts: Any = {"app": app, "query": "q", "run": "r"}
    erasure.store.write(
        app,
        [
            Stream(**facts, state="begun", reads=("/in/other=r3x",)),
            Stream(**facts, state="batch", number=1, windows=others),
        ],
    )
    assert erasure.verify().clean
    expected = {
        "the recipe of the windows of the query q may hold values": Stream(
            **facts, state="batch", number=2, windows=own
        ),
        "a folder that the query q reads holds the values": Stream(
            **facts, state="begun", reads=("/in/token=r3x",)
        ),
        "why the query q is not recorded holds the values": Stream(
            **facts, state="lost", reason="no such file: r3x.csv"
        ),
    }
    for number, (why, message) in enumerate(expected.items(), 1):
        erasure.store.write(app, [message])
        verified = erasure.verify()
        assert why in {left.why for left in verified.left}
        assert len(verified.left) == number


@pytest.mark.parametrize(
    ("messages", "has_state"),
    [
        ([{"state": "begun"}], False),
        ([{"state": "begun", "keeps": "windows"}], True),
        ([{"state": "begun"}, {"state": "begun", "keeps": "more"}], True),
        ([{"state": "started"}, {"state": "lost", "reason": "no"}], True),
        ([{"state": "started"}, {"state": "begun"}, {"state": "over"}], False),
    ],
)
def test_state_of_streams_is_named_and_never_clean(
    erasure: Erasure, messages: list[dict[str, Any]], has_state: bool
) -> None:
    app = erasure.store.application_ids()[0]
    stream: list[Message] = [Stream(app=app, query="q", run="r", **facts) for facts in messages]
    erasure.store.write(app, stream)
    erasure.document = erasure.make().to_json()
    named = [line for line in erasure.document["not_removed"] if f"q ({app})" in line]
    assert bool(named) is has_state
    erasure.erase()
    said = [reason for reason in erasure.verify().unseen if "keeps state" in reason]
    assert bool(said) is has_state
    assert erasure.verify().clean is not has_state


@pytest.mark.parametrize(
    ("name", "erased", "has_state"),
    [("state", False, True), ("rand", False, False), ("rand", True, True)],
)
def test_a_query_that_leaves_rows_out_by_its_state_keeps_some(
    erasure: Erasure, name: str, erased: bool, has_state: bool
) -> None:
    app = erasure.store.application_ids()[0]
    column = Attribute(1, "v", "string")
    rows = Values((column,), ((Literal("r4x", "string"),),))
    chosen = Filter((column,), 0, OpaqueExpression(name, "not kept", (), "boolean"))
    recipe = Document("3.5", {}, (), (rows, chosen)).of_batch(StreamBatch("q", "r", 0))
    text = ERASED if erased else recipe.to_json()
    erasure.store.write(
        app,
        [
            Stream(app=app, query="q", run="r", state="begun"),
            Recipe(app=app, node="77", recipe=text),
        ],
    )
    assert queries_with_state(erasure.store, app) == ["q"] * has_state


def test_subjects_without_a_row_and_values_that_can_not_be_read_are_not_clean(
    erasure: Erasure,
) -> None:
    both = Subjects(("token",), (("r3x",), ("r9x",)))
    erasure.query = replace(erasure.query, where="", subjects=both)
    erasure.document = erasure.make().to_json()
    assert erasure.document["not_found"] == 1
    erasure.erase()
    (reason,) = erasure.verify().unseen
    assert reason.startswith("1 of the subjects had no row")
    with erasure.source.open("ab") as file:
        file.write("a;r\u00e9x\n".encode("latin-1"))
    assert any("not all in UTF-8" in reason for reason in erasure.verify().unseen)


def test_a_job_that_read_the_row_since_is_told(erasure: Erasure) -> None:
    erasure.apply()
    erasure.world.run(Job((0,), "copy", 1, "new", 0, lands_again=False), random.Random(0))
    erasure.delete_outputs()
    for path in (erasure.world.folder / "out4").iterdir():
        path.unlink()
    erasure.delete_source_row()
    verified = erasure.verify()
    assert any("app-003 read" in reason for reason in verified.unseen)


def test_what_could_not_be_looked_at_is_not_clean(erasure: Erasure) -> None:
    erasure.erase()
    rows = replace(erasure.query, where="", rows=(3,))
    unseen = erasure.verify(query=rows, document=erasure.document | {"condition": "rows 3"}).unseen
    assert any("--rows names lines" in reason for reason in unseen)
    assert any("values of the subject are not known" in reason for reason in unseen)
    gaps = [{"app": "app-9", "node": "", "reason": "lost"}]
    assert any(
        "app-9: lost" in reason
        for reason in erasure.verify(document=erasure.document | {"gaps": gaps}).unseen
    )
    handed = erasure.document["rows"][0] | {"place": None, "path": None, "what": "max"}
    rows_of_plan = [*erasure.document["rows"], handed]
    unseen = erasure.verify(document=erasure.document | {"rows": rows_of_plan}).unseen
    assert any("max (9) gave values to the program" in reason for reason in unseen), unseen
    out = erasure.world.folder / "out2"
    (out / "part-packed").write_bytes(b"ORC\0\1")
    assert any("no text" in reason for reason in erasure.verify().unseen)
    (out / "part-packed").unlink()
    (out / "part-locked").symlink_to(out / "part-locked")
    assert any("symbolic links" in reason for reason in erasure.verify().unseen)
    (out / "part-locked").unlink()
    (erasure.place.spool / "not-linked").mkdir(parents=True)
    (erasure.place.spool / "not-linked" / "driver.jsonl").write_text("{}")
    assert any("not linked" in reason for reason in erasure.verify().unseen)
    kafka = replace(erasure.place, has_pipeline=True)
    erasure.place = kafka
    assert any("dead letters" in reason for reason in erasure.verify().unseen)


def test_values_that_a_query_names() -> None:
    def of(where: str) -> Any:
        return known_values(SubjectQuery("x", where=where))

    assert of("id = 42") == [{"id": "42"}]
    assert of("id IN (1, 2) AND name = 'ann'") == [
        {"id": "1", "name": "ann"},
        {"id": "2", "name": "ann"},
    ]
    assert of("id > 42") == of("NOT id = 42") == of("id = 1 OR id = 2") == of("id <> 1") == []
    by = Subjects(("id",), (("7",), ("8",)))
    assert known_values(SubjectQuery("x", subjects=by)) == [{"id": "7"}, {"id": "8"}]


def test_another_subject_is_refused_instead_of_called_clean(erasure: Erasure) -> None:
    erasure.apply()
    other = replace(erasure.query, where="token = 'r9x'")
    with pytest.raises(ErasureError, match="give the options it was made with"):
        erasure.verify(query=other)


def test_subjects_by_keys_are_bound_to_the_plan_without_their_keys(erasure: Erasure) -> None:
    erasure.query = replace(erasure.query, where="", subjects=Subjects(("token",), (("r3x",),)))
    erasure.document = erasure.make().to_json()
    erasure.erase()
    assert erasure.verify().clean
    assert "r3x" not in next(erasure.place.journals.iterdir()).read_text()
    other = replace(erasure.query, subjects=Subjects(("token",), (("r9x",),)))
    with pytest.raises(ErasureError, match="not the subjects"):
        erasure.verify(query=other)
