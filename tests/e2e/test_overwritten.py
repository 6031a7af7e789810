"""Files that are not any more what a job read or wrote: said before Spark starts, or traced over as they are now."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lineage import frame_traces
from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import ChangedSourceError, RowError
from lineage_emitter import LineageContext, frame_lineage
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_query_api.spark_session_holder import SparkSessionHolder
from tests.support.api_server import serving
from tests.support.job_runs import STORE, part_files, stored

pytestmark = pytest.mark.e2e
Capture = Callable[..., LineageContext]
LINES = ["Oslo,1.5", "Rome,2.5", "Oslo,3.5", "Lima,9.0"]


@pytest.fixture
def ran(capture: Capture, spark: SparkSession, tmp_path: Path) -> Path:
    """Two applications: sums of a file, and the copy of a folder that is written anew."""
    (tmp_path / "in.csv").write_text("\n".join(LINES) + "\n")
    write_day(tmp_path, ["a,1", "b,2"])
    sums(capture, spark, tmp_path)
    with capture():
        read = spark.read.schema("k string, n int").csv(str(tmp_path / "day"))
        read.coalesce(1).write.parquet(str(tmp_path / "copy"))
    return tmp_path


def sums(capture: Capture, spark: SparkSession, folder: Path) -> None:
    with capture():
        read = spark.read.schema("city string, amount double").csv(str(folder / "in.csv"))
        totals = read.groupBy("city").sum("amount").toDF("city", "total").orderBy("city")
        totals.coalesce(1).write.mode("overwrite").parquet(str(folder / "out"))


def write_day(folder: Path, lines: list[str]) -> None:
    """A folder as Spark overwrites it: other files with other names."""
    (folder / "day").mkdir(exist_ok=True)
    for old in (folder / "day").iterdir():
        old.unlink()
    for at, line in enumerate(lines):
        (folder / "day" / f"part-{at}-{len(lines)}.csv").write_text(f"{line}\n")
    (folder / "day" / "_SUCCESS").touch()


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts Spark for a question fails."""

    def refuse(*_: object, **__: object) -> Iterator[None]:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(frame_traces, "spark_session", refuse)
    monkeypatch.setattr(SparkSessionHolder, "run", refuse)


def apps_of(access: StoredAccess) -> list[str]:
    """The first begun first."""
    return list(access.store.application_ids())[::-1]


def back(folder: Path, place: str, **more: Any) -> Answer:
    with stored(folder) as access:
        return access.ask(TraceQuery(Direction.BACKWARD, (place,), **more))


def forward(folder: Path, place: str, **more: Any) -> Answer:
    with stored(folder) as access:
        return access.ask(TraceQuery(Direction.FORWARD, (place,), **more))


def locations(answer: Answer) -> list[str | None]:
    return [item.location for group in answer.groups for item in group.items]


def served(folder: Path, body: dict[str, Any]) -> httpx.Response:
    url = f"sqlite:///{folder / STORE}"
    with (
        serving(url, api_roots=str(folder), spark_master="local[1]", api_query_s=500) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        return client.post("/v1/answers", json=body)


def test_changed_sources_are_refused_before_spark_starts(ran: Path, no_spark: None) -> None:
    source, (out,) = ran / "in.csv", part_files(ran / "out")
    size = source.stat().st_size
    with stored(ran) as access:
        app, _ = apps_of(access)
        source.write_text("\n".join(["Bonn,7.0", *LINES]) + "\n")
        asked = [
            TraceQuery(Direction.BACKWARD, (f"{out}#1",)),
            TraceQuery(Direction.BACKWARD, (f"{ran / 'out'}#city=Oslo",)),
            TraceQuery(Direction.FORWARD, (f"{source}#city=Oslo",)),
            TraceQuery(Direction.FORWARD, (f"{source}:2",)),
        ]
        for question in asked:
            with pytest.raises(ChangedSourceError) as refused:
                access.ask(question)
            said = str(refused.value)
            assert f"then {size} bytes of " in said, question
            assert f"now {source.stat().st_size} bytes of " in said
            assert f"{app} (" in said
            assert "--as-now" in said
        with pytest.raises(ChangedSourceError, match=r"in\.csv was written since"):
            access.ask(
                replace(TraceQuery(Direction.BACKWARD, (str(ran / "out"),)), where="city = 'Oslo'")
            )
        source.unlink()
        with pytest.raises(
            ChangedSourceError, match=r"in\.csv is gone; .* read it; run the job again"
        ):
            access.ask(asked[0])
    answer = served(ran, {"direction": "backward", "places": [f"{out}#1"]})
    assert (answer.status_code, answer.json()["error"]) == (422, "ChangedSourceError")


@pytest.mark.long
def test_files_as_they_are_now_are_traced_when_asked_for_and_the_answer_says_so(
    ran: Path, capture: Capture, spark: SparkSession
) -> None:
    source, (out,) = ran / "in.csv", part_files(ran / "out")
    place = f"{out}#1"
    # Nothing has changed: the option changes nothing.
    calm = back(ran, place, as_now=True)
    assert (locations(calm), calm.exact, calm.complete) == (
        [f"{source}:1", f"{source}:3"],
        True,
        True,
    )
    os.utime(source, (1.0, 1.0))
    touched = back(ran, place)
    assert (locations(touched), touched.exact) == ([f"{source}:1", f"{source}:3"], True)
    source.write_text("\n".join(["Bonn,7.0", *LINES]) + "\n")
    for answer in (
        back(ran, place, as_now=True),
        back(ran, f"{ran / 'out'}#city=Oslo", as_now=True),
    ):
        assert locations(answer) == [f"{source}:2", f"{source}:4"]
        assert (answer.exact, answer.complete, answer.changed) == (False, False, True)
        assert "in.csv was written since the job ran" in answer.reasons[0]
        assert {item.binding for item in answer.groups[0].items} == {"now"}
        assert answer.groups[0].file_status == "changed"
    reached = forward(ran, f"{source}:1", as_now=True)
    assert (reached.exact, reached.complete) == (False, False)
    body = {"direction": "backward", "places": [place], "as_now": True}
    told = served(ran, body).json()
    assert (told["exact"], told["complete"], told["changed"]) == (False, False, True)
    # A program says it, too.
    frame = spark.read.schema("city string, amount double").csv(str(source))
    lineage = frame_lineage(frame.groupBy("city").count())
    os.utime(source, (1.0, 1.0))
    assert (lineage.back(("Oslo", 2)).exact, lineage.forward(f"{source}:1").exact) == (True, True)
    source.write_text("\n".join(LINES) + "\n")
    with pytest.raises(ChangedSourceError):
        lineage.back(("Oslo", 2))
    rows = lineage.back(("Oslo", 2), as_now=True)
    assert (rows.exact, rows.count, "was written since" in rows.reasons[0]) == (False, 2, True)
    assert not lineage.forward(f"{source}:1", as_now=True).exact


def test_a_server_keeps_no_answer_of_files_as_they_are_now(ran: Path) -> None:
    source, (out,) = ran / "in.csv", part_files(ran / "out")
    url = f"sqlite:///{ran / STORE}"
    start = {"places": [f"{out}#1"]}
    with (
        stored(ran) as access,
        serving(url, api_roots=str(ran), spark_master="local[1]", api_query_s=500) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        app, _ = apps_of(access)

        def trace(*, as_now: bool) -> httpx.Response:
            body = {"direction": "backward", "start": start, "as_now": as_now}
            return client.post(f"/v1/applications/{app}/traces", json=body)

        calm = trace(as_now=False).json()
        assert (calm["exact"], calm["complete"], calm["count"]) == (True, True, 2)
        source.write_text("\n".join(["Bonn,7.0", *LINES]) + "\n")
        assert trace(as_now=False).status_code == 422
        marked = trace(as_now=True).json()
        assert (marked["exact"], marked["complete"], marked["changed"]) == (False, False, True)
        assert marked["trace"] != calm["trace"]
        source.write_text("Oslo,5.0\n")
        again = client.get(f"/v1/traces/{marked['trace']}").json()
        assert (again["exact"], again["count"]) == (False, 1)
        assert client.get(f"/v1/traces/{calm['trace']}").status_code == 422


def test_a_folder_that_was_overwritten_is_read_as_it_is_now(ran: Path) -> None:
    write_day(ran, ["a,1", "c,3", "b,2"])
    (out,) = part_files(ran / "copy")
    row = pq.read_table(out)["k"].to_pylist().index("b")
    with pytest.raises(ChangedSourceError, match=r"is gone \(and 1 more"):
        back(ran, f"{out}#{row}")
    answer = back(ran, f"{out}#{row}", as_now=True)
    files = sorted((ran / "day").glob("*.csv"))
    assert locations(answer) == [f"{files[2]}:1"]
    assert (answer.exact, answer.complete) == (False, False)
    write_day(ran, [])
    with pytest.raises(ChangedSourceError, match="run the job again"):
        back(ran, f"{out}#1", as_now=True)


def test_a_row_of_a_file_that_a_rerun_replaced(
    ran: Path, capture: Capture, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    (old,) = part_files(ran / "out")
    sums(capture, spark, ran)
    (new,) = part_files(ran / "out")
    with stored(ran) as access:
        first, _, last = apps_of(access)
    answer = back(ran, "0#city=Oslo", app=first)
    assert (len(locations(answer)), answer.exact) == (2, True)
    answer = forward(ran, f"{ran / 'in.csv'}:1")
    assert answer.changed
    made = {
        group.app: (group.file_status, len(group.items), group.items[0].location)
        for group in answer.groups
    }
    # The rerun wrote the same content: the row's place in the file that is gone is known by it.
    assert made == {first: ("gone", 1, f"{old}#1"), last: ("same", 1, f"{new}#1")}
    request.getfixturevalue("no_spark")
    for place in (f"{old}#1", f"{old}#0"):
        with pytest.raises(ChangedSourceError) as refused:
            back(ran, place)
        said = str(refused.value)
        assert f"{old} is gone: {first} (" in said
        assert f"a write of {last} (" in said
        assert f"such as file:{new}" in said or f"such as {new}" in said
        assert f"lineage back '0#COLUMN=VALUE' --app {first}" in said
    body = {"direction": "backward", "places": [f"{old}#1"]}
    answer_of_server = served(ran, body)
    assert (answer_of_server.status_code, "is gone" in answer_of_server.text) == (422, True)


def test_between_two_questions_no_answer_is_wrong(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    day = tmp_path / "day"
    day.mkdir()
    first, second = day / "a.csv", day / "b.csv"
    first.write_text("a,1\nb,2\n")
    second.write_text("c,3\nd,4\n")
    then = {path: path.read_bytes() for path in (first, second)}
    with capture():
        read = spark.read.schema("k string, n int").csv(str(day))
        read.where("n > 1").orderBy("n").coalesce(1).write.parquet(str(tmp_path / "kept"))
    (out,) = part_files(tmp_path / "kept")
    made_of = {0: (f"{first}:2", "b"), 1: (f"{second}:1", "c"), 2: (f"{second}:2", "d")}

    def back_in_time(path: Path, content: bytes) -> None:
        state = path.stat()
        path.write_bytes(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    harms: list[Callable[[], object]] = [
        lambda: os.utime(first, (1.0, 1.0)),
        lambda: (day / "c.csv").write_text("b,2\n"),
        lambda: back_in_time(second, b"d,4\nc,3\n"),
        lambda: second.write_bytes(then[second]),
        lambda: first.write_bytes(b"x,9\n" + then[first]),
        first.unlink,
        lambda: first.write_bytes(then[first]),
        second.unlink,
        lambda: second.write_bytes(then[second]),
    ]
    for number, harm in enumerate(harms):
        harm()
        same = all(path.exists() and path.read_bytes() == then[path] for path in then)
        row, (place, key) = number % 3, made_of[number % 3]
        for asked in (f"{out}#{row}", f"{tmp_path / 'kept'}#k={key}"):
            try:
                answer = back(tmp_path, asked)
                assert same, number
                assert (locations(answer), answer.exact, answer.complete) == ([place], True, True)
            except ChangedSourceError:
                assert not same, number
            try:
                now = back(tmp_path, asked, as_now=True)
            except RowError:
                # It is made of a file that is not there any more.
                assert not same, number
                continue
            assert (now.exact, now.complete) == (same, same), number
            stands = [str(location).rpartition(":") for location in locations(now)]
            texts = [Path(path).read_text().splitlines()[int(line) - 1] for path, _, line in stands]
            assert {text[0] for text in texts} == {key}, number
            assert not same or locations(now) == [place]
