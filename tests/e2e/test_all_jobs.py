"""Traces through chains of jobs: records carry the numbers of the lines that made them, so every answer is known."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.tracing.budget import TooMuchError
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query import all_jobs
from lineage_query.answers import Answer
from lineage_query.trace_query import LEVELS, TraceQuery
from tests.support.api_server import readers, serving
from tests.support.job_runs import STORE, Begin, app_of, lineage, part_files

pytestmark = pytest.mark.e2e
LINES = [f"{key},{number}" for number, key in enumerate("abcabcaddeab", 1)]


def merged(left: str, right: str) -> str:
    """Numbers of both, as text."""
    return " ".join(sorted({*left.split(), *right.split()}, key=int))


@pytest.fixture(scope="module")
def apps(folder: Path, begin: Begin, spark: SparkSession) -> dict[str, str]:
    """Three jobs, one after another: of RDDs, of DataFrames, of RDDs again, which reads of both."""
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    found = {}
    with begin() as lc:
        found["first"] = app_of(lc)
        pairs = lc.textFile(str(folder / "in.txt"), 2).map(
            lambda line: (line.split(",")[0], line.split(",")[1])
        )
        grouped = pairs.reduceByKey(merged, 2).map(lambda pair: f"{pair[0]},{pair[1]}")
        grouped.saveAsTextFile(str(folder / "one"))
    with begin() as lc:
        found["second"] = app_of(lc)
        frame = spark.read.schema("key string, numbers string").csv(str(folder / "one"))
        by_half = frame.withColumn("half", F.col("key") < "c").groupBy("half")
        halves = by_half.agg(F.concat_ws(" ", F.collect_list("numbers")).alias("numbers"))
        halves.coalesce(1).write.csv(str(folder / "two"))
    with begin() as lc:
        found["third"] = app_of(lc)
        two = lc.textFile(f"{folder}/two/part-*").map(lambda line: line.split(",")[1])
        one = lc.textFile(f"{folder}/one/part-*").map(lambda line: line.split(",")[1])
        two.union(one).filter(lambda text: "9" not in text.split()).saveAsTextFile(
            str(folder / "three")
        )
    return found


def lines_of(folder: Path, answer: Answer) -> set[str]:
    assert {group.path for group in answer.groups} <= {str(folder / "in.txt")}
    return {item.text or "" for group in answer.groups for item in group.items}


def rows(out: Path) -> Iterator[tuple[str, str]]:
    """Places and texts of an output's rows."""
    for part in part_files(out):
        for number, text in enumerate(part.read_text().splitlines(), 1):
            yield f"{part}:{number}", text


def back(place: str, **more: object) -> TraceQuery:
    return TraceQuery(Direction.BACKWARD, (place,), all_jobs=True, **more)  # type: ignore[arg-type]


def test_back_to_the_lines_that_nobody_wrote(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    for out in ("one", "two", "three"):
        seen = 0
        for place, text in rows(folder / out):
            numbers = text.split(",")[-1].split()
            answer = access.ask(back(place))
            assert lines_of(folder, answer) == {LINES[int(number) - 1] for number in numbers}
            assert (answer.exact, answer.complete, answer.not_queried) == (True, True, ())
            assert {group.app for group in answer.groups} == {apps["first"]}
            seen += 1
        assert seen > 1


def test_forward_to_the_rows_that_nobody_read(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    for number, line in enumerate(LINES, 1):
        query = TraceQuery(Direction.FORWARD, (f"{folder}/in.txt:{number}",), all_jobs=True)
        answer = access.ask(query)
        found = {item.location for group in answer.groups for item in group.items}
        of = [place for place, text in rows(folder / "three") if str(number) in text.split()]
        # A line of number 9 is in rows that the last job read and did not write.
        assert found == set(of), line
        assert (answer.exact, answer.complete) == (True, True)
        assert {group.app for group in answer.groups} <= {apps["third"]}


def test_one_application_ends_at_its_own_sources(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    place, _ = next(rows(folder / "three"))
    answer = access.ask(TraceQuery(Direction.BACKWARD, (place,)))
    assert all("in.txt" not in (group.path or "") for group in answer.groups)


def test_the_same_over_http_and_on_the_command_line(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    place, text = list(rows(folder / "one"))[-1]
    wanted = access.ask(back(place)).to_json()
    with serving(f"sqlite:///{folder / STORE}", api_roots=str(folder)) as address:
        for store in (f"sqlite:///{folder / STORE}", address):
            done = lineage(folder, "--store", store, "back", place, "--all-jobs")
            assert done.returncode == 0, done.stderr
            assert f"in.txt:{text.split(',')[1].split()[0]}: " in done.stdout
    assert wanted["complete"]


@pytest.mark.long
def test_exports_through_all_jobs_have_the_rows_of_the_answer(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    place, _ = list(rows(folder / "three"))[-1]
    answer = access.ask(back(place))
    expected = sorted(
        (group.app, item.location or "", item.text or "")
        for group in answer.groups
        for item in group.items
    )
    with serving(f"sqlite:///{folder / STORE}", api_roots=str(folder)) as address:
        # The server has no Spark, which the second job needs: it says that it could not go on.
        for number, store in enumerate((f"sqlite:///{folder / STORE}", address)):
            out = folder / f"rows{number}.csv"
            done = lineage(
                folder, "--store", store, "export", place, "--all-jobs", "-o", str(out), "--json"
            )
            assert done.returncode == 0, done.stderr
            report = json.loads(done.stdout)
            assert report["complete"] or number
            if not number:
                with out.open(newline="") as stream:
                    found = [row for row in csv.DictReader(stream) if row["role"] == "found"]
                assert expected == sorted(
                    (row["app"], row["location"], row["text"]) for row in found
                )
                assert (report["found"], report["exact"]) == (len(expected), answer.exact)
            refused = lineage(
                folder, "--store", store, "export", place, "--all-jobs", "-o", "x.mmd"
            )
            assert refused.returncode == 2
            assert "give one of csv" in refused.stderr


def test_a_version_that_nobody_wrote_ends_the_trace(
    folder: Path, begin: Begin, access: StoredAccess
) -> None:
    source, middle = folder / "own.txt", folder / "edited"
    source.write_text("a\nb\n")
    with begin() as lc:
        writer = app_of(lc)
        lc.textFile(str(source), 1).map(str.upper).saveAsTextFile(str(middle))
    (part,) = part_files(middle)
    was = part.stat()
    part.write_text("A\nZ\n")
    (part.parent / f".{part.name}.crc").unlink()
    # Of the same size: the time alone tells.
    os.utime(part, ns=(was.st_atime_ns, was.st_mtime_ns + 5_000_000_000))
    with begin() as lc:
        reader = app_of(lc)
        lc.textFile(str(part), 1).saveAsTextFile(str(folder / "after"))
    (place, _), *_ = rows(folder / "after")
    answer = access.ask(back(place))
    assert [group.path for group in answer.groups] == [str(part)]
    assert not answer.complete
    gaps = {gap.app: gap.reason for gap in answer.not_queried}
    assert gaps.keys() == {writer, reader}
    assert "it wrote 4 bytes of" in gaps[writer]
    assert f"{reader} read 4 bytes of" in gaps[writer]
    # The file that was read is younger, by its time, than the one that it was copied to.
    assert "whether one was copied from the other is not known" in gaps[reader]
    # Run again, it writes what the next reader reads.
    (middle / "_SUCCESS").unlink()
    part.unlink()
    for left in middle.iterdir():
        left.unlink()
    middle.rmdir()
    with begin() as lc:
        again = app_of(lc)
        lc.textFile(str(source), 1).map(str.upper).saveAsTextFile(str(middle))
    with begin() as lc:
        lc.textFile(str(part), 1).saveAsTextFile(str(folder / "after2"))
    (place, _), *_ = rows(folder / "after2")
    answer = access.ask(back(place))
    assert [(group.path, group.app) for group in answer.groups] == [(str(source), again)]
    assert answer.complete
    # What was read before is as it was.
    (place, _), *_ = rows(folder / "after")
    assert not access.ask(back(place)).complete


def test_a_job_that_reads_its_own_output(folder: Path, begin: Begin, access: StoredAccess) -> None:
    (folder / "loop.txt").write_text("1\n2\n3\n")
    with begin() as lc:
        app = app_of(lc)
        read = str(folder / "loop.txt")
        for turn in range(3):
            written = str(folder / f"loop{turn}")
            lc.textFile(read, 1).map(lambda text: f"{text}+").saveAsTextFile(written)
            read = str(part_files(Path(written))[0])
    place, text = list(rows(folder / "loop2"))[1]
    assert text == "2+++"
    answer = access.ask(back(place))
    assert [(g.app, [i.location for i in g.items]) for g in answer.groups] == [
        (app, [f"{folder}/loop.txt:2"])
    ]
    assert answer.complete
    answer = access.ask(TraceQuery(Direction.FORWARD, (f"{folder}/loop.txt:2",), all_jobs=True))
    assert [item.location for group in answer.groups for item in group.items] == [place]


def test_ends_that_are_asked_for_lead_on(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    """A row of a source is asked where it came from, and one of an output where it went, of one application."""
    place, text = next(rows(folder / "one"))
    own = access.ask(TraceQuery(Direction.BACKWARD, (place,), app=apps["third"]))
    assert [item.location for group in own.groups for item in group.items] == [place]
    wanted = {LINES[int(number) - 1] for number in text.split(",")[1].split()}
    assert lines_of(folder, access.ask(back(place, app=apps["third"]))) == wanted
    into = TraceQuery(Direction.FORWARD, (f"{folder}/in.txt:9",), app=apps["first"])
    (group,) = access.ask(into).groups
    (item,) = group.items
    written = TraceQuery(Direction.FORWARD, (item.address,), app=apps["first"])
    assert [group.items for group in access.ask(written).groups] == [(item,)]
    by_address = access.ask(replace(written, all_jobs=True))
    by_place = access.ask(replace(into, app=None, all_jobs=True))
    assert by_address.groups == by_place.groups
    assert by_address.apps == (apps["first"], apps["third"], apps["second"])


def test_rows_in_no_file_are_as_many_as_there_are(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess
) -> None:
    (folder / "solo.txt").write_text("a\nb\n")
    with begin():
        frame = spark.read.text(str(folder / "solo.txt"))
        frame.select("value", F.explode(F.array(F.lit(1), F.lit(2)))).collect()
    query = TraceQuery(Direction.FORWARD, (f"{folder}/solo.txt:1",))
    single, whole = access.ask(query), access.ask(replace(query, all_jobs=True))
    assert [group.count for group in whole.groups] == [2]
    assert [group.items for group in whole.groups] == [group.items for group in single.groups]


def test_a_row_that_leads_no_further_ends_the_trace_and_no_other_row_does(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess
) -> None:
    (folder / "named.txt").write_text("a\nb\n")
    with begin() as lc:
        writer = app_of(lc)
        frame = spark.read.text(str(folder / "named.txt")).coalesce(1)
        frame.write.option("header", True).csv(str(folder / "headed"))
    (part,) = part_files(folder / "headed")
    with begin() as lc:
        lines = lc.textFile(str(part), 1).map(lambda line: ("all", line))
        lines.reduceByKey(lambda one, other: f"{one} {other}", 1).saveAsTextFile(
            str(folder / "sum")
        )
    ((place, text),) = rows(folder / "sum")
    assert text == "('all', 'value a b')"
    answer = access.ask(back(place))
    found = {item.location for group in answer.groups for item in group.items}
    # The header is no row of the DataFrame.
    assert found == {f"{part}:1", f"{folder}/named.txt:1", f"{folder}/named.txt:2"}
    assert not answer.complete
    assert [gap.app for gap in answer.not_queried] == [writer]


def test_who_may_have_read_it_is_named(folder: Path, begin: Begin, access: StoredAccess) -> None:
    """A file whose time alone is another than what was written may hold just that, and nothing tells."""
    (folder / "touch.txt").write_text("x\n")
    with begin(checksums=False) as lc:
        lc.textFile(str(folder / "touch.txt"), 1).saveAsTextFile(str(folder / "touched"))
    (part,) = part_files(folder / "touched")
    was = part.stat()
    os.utime(part, ns=(was.st_atime_ns, was.st_mtime_ns + 5_000_000_000))
    with begin() as lc:
        reader = app_of(lc)
        lc.textFile(str(part), 1).saveAsTextFile(str(folder / "doubtful"))
    answer = access.ask(TraceQuery(Direction.FORWARD, (f"{folder}/touch.txt:1",), all_jobs=True))
    assert [group.path for group in answer.groups] == [str(part.parent)]
    assert [gap.app for gap in answer.not_queried] == [reader]
    assert not answer.complete


def by_file(answer: Answer) -> dict[str, int]:
    """How many of the listed rows lie in each file."""
    places = {item.location or "" for group in answer.groups for item in group.items}
    return dict(Counter(place.rpartition(":")[0] for place in places))


def containers(answer: Answer) -> dict[str, int]:
    return {container.name: container.rows for container in answer.containers}


@pytest.mark.long
@pytest.mark.parametrize("through_all", [False, True])
def test_levels_count_the_rows_of_rdds_and_of_dataframes(
    folder: Path, apps: dict[str, str], access: StoredAccess, through_all: bool
) -> None:
    places = [next(rows(folder / out))[0] for out in ("one", "two", "three")]
    backward = [TraceQuery(Direction.BACKWARD, (place,), all_jobs=through_all) for place in places]
    # In one application a line goes on into the files of two others.
    forward = [
        TraceQuery(Direction.FORWARD, (place,), all_jobs=through_all)
        for place in (f"{folder}/in.txt:1", places[0])
    ]
    jobs = {run.app: run.job for job in access.jobs(None) for run in access.runs(job.name, None)}
    for query in (*backward, *forward):
        by_rows = access.ask(query)
        files = by_file(by_rows)
        answers = {level: access.ask(replace(query, by=level)) for level in LEVELS[1:]}
        assert containers(answers["file"]) == files
        datasets = Counter[str]()
        for file, count in files.items():
            # The third job named the files that it read by a pattern: each is a dataset of its own.
            by_pattern = query.direction is Direction.BACKWARD and by_rows.app == apps["third"]
            is_named = by_pattern or file == f"{folder}/in.txt"
            datasets[f"file:{file if is_named else Path(file).parent}"] += count
        assert containers(answers["dataset"]) == dict(datasets)
        of_apps, of_jobs = Counter[str](), Counter[str]()
        for group in by_rows.groups:
            of_apps[group.app or by_rows.app] += group.count
            of_jobs[jobs[group.app or by_rows.app]] += group.count
        assert containers(answers["application"]) == dict(of_apps)
        assert containers(answers["job"]) == dict(of_jobs)
        assert sum(one.rows for one in answers["node"].containers) == sum(of_apps.values())
        of_records = sum(
            group.count for group in by_rows.groups if (group.app or by_rows.app) != apps["second"]
        )
        assert sum(rows.rows for rows in answers["task"].outside) == (
            sum(of_apps.values()) - of_records
        )
        assert bool(answers["task"].containers) == bool(of_records)
        assert answers["stage"].outside == answers["task"].outside
        assert bool(answers["stage"].containers) == bool(of_records)
        assert all(one.name.startswith("stage ") for one in answers["stage"].containers)
        assert answers["stage"].containers_total <= answers["task"].containers_total
        for answer in answers.values():
            assert (answer.exact, answer.reasons) == (by_rows.exact, by_rows.reasons)
            assert (answer.complete, answer.changed) == (by_rows.complete, by_rows.changed)
            assert answer.not_queried == by_rows.not_queried


def found_in(answer: Answer) -> set[str]:
    return {item.location or "" for group in answer.groups for item in group.items}


@pytest.mark.long
def test_folders_files_and_tasks_are_all_of_their_rows(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    lines = {f"{folder}/in.txt:{number}" for number in range(1, len(LINES) + 1)}
    whole = TraceQuery(Direction.BACKWARD, (f"{folder}/one",))
    assert found_in(access.ask(whole)) == lines
    by_task = access.ask(replace(whole, by="task"))
    assert sum(one.rows for one in by_task.containers) == len(LINES)
    of_tasks: set[str] = set()
    for task in by_task.containers:
        answer = access.ask(TraceQuery(Direction.BACKWARD, (task.name,), app=apps["first"]))
        found = found_in(answer)
        assert (len(found), answer.exact, answer.complete) == (task.rows, True, True)
        of_tasks |= found
    assert of_tasks == lines
    parts = [str(part) for part in part_files(folder / "three")]
    for place in (*parts, f"{folder}/three"):
        rows_of_place = [row for row, _ in rows(folder / "three") if row.startswith(place)]
        one_by_one = [found_in(access.ask(back(row))) for row in rows_of_place]
        assert found_in(access.ask(back(place))) == set().union(*one_by_one)
    forward = TraceQuery(Direction.FORWARD, (f"{folder}/in.txt",), all_jobs=True, by="application")
    assert containers(access.ask(forward)) == {
        apps["third"]: sum(1 for _ in rows(folder / "three"))
    }
    for place in (f"{folder}/two", str(part_files(folder / "two")[0])):
        one_by_one = [
            found_in(access.ask(TraceQuery(Direction.BACKWARD, (row,))))
            for row, _ in rows(folder / "two")
        ]
        whole_frame = access.ask(TraceQuery(Direction.BACKWARD, (place,)))
        assert found_in(whole_frame) == set().union(*one_by_one) != set()


def test_rows_that_records_and_dataframes_share_count_once(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess
) -> None:
    (folder / "shared.csv").write_text("".join(f"s,{number}\n" for number in range(50, 55)))
    with begin() as lc:
        lc.textFile(str(folder / "shared.csv"), 1).saveAsTextFile(str(folder / "as records"))
    with begin():
        frame = spark.read.schema("key string, number int").csv(str(folder / "shared.csv"))
        frame.where("number > 51").coalesce(1).write.csv(str(folder / "as rows"))
    with begin() as lc:
        both = lc.textFile(f"{folder}/as r*/part-*", 1).map(lambda line: ("all", line))
        both.reduceByKey(lambda one, other: f"{one} {other}", 1).saveAsTextFile(
            str(folder / "shared sum")
        )
    ((place, _),) = rows(folder / "shared sum")
    answer = access.ask(back(place, by="file"))
    assert [(one.name, one.rows) for one in answer.containers] == [(f"{folder}/shared.csv", 5)]
    assert answer.complete


def test_a_folder_that_was_moved_is_found_without_checksums(
    folder: Path, begin: Begin, access: StoredAccess
) -> None:
    """Name, size and time are left, and are no proof."""
    (folder / "parcel.txt").write_text("a\nb\n")
    with begin(checksums=False) as lc:
        writer = app_of(lc)
        lc.textFile(str(folder / "parcel.txt"), 1).map(str.upper).saveAsTextFile(
            str(folder / "sent")
        )
    (folder / "sent").rename(folder / "arrived")
    (part,) = part_files(folder / "arrived")
    with begin(checksums=False) as lc:
        reader = app_of(lc)
        lc.textFile(str(part), 1).map(str.lower).saveAsTextFile(str(folder / "unpacked"))
    place, _ = list(rows(folder / "unpacked"))[1]
    answer = access.ask(back(place))
    assert [item.location for group in answer.groups for item in group.items] == [
        f"{folder}/parcel.txt:2"
    ]
    assert (answer.exact, answer.complete) == (False, True)
    (reason,) = answer.reasons
    assert writer in reason
    assert reader in reason
    assert "no checksum" in reason
    query = TraceQuery(Direction.FORWARD, (f"{folder}/parcel.txt:2",), all_jobs=True)
    answer = access.ask(query)
    assert [item.location for group in answer.groups for item in group.items] == [place]
    assert (answer.exact, answer.complete) == (False, True)


@pytest.mark.parametrize(
    ("way", "reader"),
    [
        ("copied", "DataFrame"),
        ("copied", "RDD"),
        ("moved", "DataFrame"),
        ("moved", "RDD"),
        ("touched", "RDD"),
        ("without checksums", "DataFrame"),
    ],
)
def test_copies_of_what_rdds_wrote_are_found_by_their_checksum(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess, way: str, reader: str
) -> None:
    own = folder / f"records {way} {reader}"
    own.mkdir()
    # No two of these files have the same content.
    (own / "in.txt").write_text(f"a {way} {reader},1\nb,2\n")
    with begin(checksums=way != "without checksums") as lc:
        first = app_of(lc)
        lc.textFile(str(own / "in.txt"), 1).map(str.upper).saveAsTextFile(str(own / "one"))
    (written,) = part_files(own / "one")
    read = own / "arrived.csv"
    if way == "moved":
        written.rename(read)
    elif way == "touched":
        read = written
        os.utime(read, ns=(0, read.stat().st_mtime_ns + 5_000_000_000))
    else:
        read.write_bytes(written.read_bytes())
    with begin() as lc:
        if reader == "RDD":
            lines = lc.textFile(str(read), 1).filter(lambda line: line.endswith("2"))
            lines.saveAsTextFile(str(own / "two"))
        else:
            frame = spark.read.schema("key string, number int").csv(str(read))
            frame.where("number > 1").coalesce(1).write.csv(str(own / "two"))
    ((place, _),) = rows(own / "two")
    answer = access.ask(back(place))
    found = [item.location for group in answer.groups for item in group.items]
    if way == "without checksums":
        assert found == [f"{read}:2"]
        return
    said = " ".join(answer.reasons if way == "copied" else answer.warnings)
    assert first in said
    assert "checksum" in said
    assert found == [f"{own}/in.txt:2"]
    assert (answer.complete, answer.exact) == (True, way != "copied"), answer.reasons
    if way == "copied":
        query = TraceQuery(Direction.FORWARD, (f"{own}/in.txt:2",), all_jobs=True)
        answer = access.ask(query)
        assert [item.location for group in answer.groups for item in group.items] == [place]


def test_who_read_rows_that_are_gone_since_is_named(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess
) -> None:
    """Rows of a DataFrame's output are found by what its files hold; where these are gone, another job may have read them."""
    (folder / "passing.csv").write_text("p,18\nq,19\n")
    schema = "key string, number int"
    # No two of these files have the same content.
    for added, name in enumerate(("once", "again"), 1):
        with begin():
            frame = spark.read.schema(schema).csv(str(folder / "passing.csv"))
            passed = frame.withColumn("number", F.col("number") + added)
            passed.coalesce(1).write.csv(str(folder / f"passed {name}"))
    with begin() as lc:
        reader = app_of(lc)
        frame = spark.read.schema(schema).csv(str(folder / "passed once"))
        frame.select("key").write.csv(str(folder / "kept"))
    for name in ("once", "again"):
        shutil.rmtree(folder / f"passed {name}")
    query = TraceQuery(Direction.FORWARD, (f"{folder}/passing.csv:1",), all_jobs=True)
    answer = access.ask(query)
    assert {group.path for group in answer.groups} == {
        str(folder / f"passed {name}") for name in ("once", "again")
    }
    assert not answer.complete
    # Nobody read the other.
    (gap,) = answer.not_queried
    assert gap.app == reader
    assert "have no place in its files now" in gap.reason


def test_what_is_hidden_is_not_told(
    folder: Path, apps: dict[str, str], access: StoredAccess, tmp_path: Path
) -> None:
    secrets, tokens = readers(tmp_path)
    grants = tmp_path / "grants.toml"
    grants.write_text(
        '[[grant]]\ncallers = ["*"]\napplications = ["*"]\nrows = true\n'
        f'[[hide]]\ndatasets = ["{folder}/in.txt"]\n'
    )
    with (
        serving(
            f"sqlite:///{folder / STORE}",
            api_roots=str(folder),
            api_tokens=tokens,
            api_grants=grants,
        ) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        headers = {"Authorization": f"Bearer {secrets['reads']}"}
        for app in (None, *apps.values()):
            for out in ("one", "three"):
                place, _ = next(rows(folder / out))
                body = {"direction": "backward", "places": [place], "all_jobs": True, "app": app}
                answer = client.post("/v1/answers", json=body, headers=headers)
                assert answer.status_code < 500, answer.text
                assert "in.txt" not in answer.text
                shown = answer.json().get("sources", ())
                assert not {item["text"] for group in shown for item in group["items"]} & {*LINES}


def test_what_is_too_much_or_only_a_part_is_refused(
    folder: Path, apps: dict[str, str], access: StoredAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = next(rows(folder / "three"))
    with pytest.raises(TraceError, match="leave out --step"):
        access.ask(back(place, steps=1))
    for limit in ("ROWS_MAX", "QUERIES_MAX", "ITEMS_MAX", "QUEUED_MAX"):
        with monkeypatch.context() as limited:
            limited.setattr(all_jobs, limit, 0)
            with pytest.raises(TooMuchError, match="lie on the way"):
                access.ask(back(place))
    monkeypatch.setattr(all_jobs, "REFUSALS_MAX", -1)
    with pytest.raises(TooMuchError, match="lie on the way"):
        access.ask(back(place))


def test_jobs_and_datasets_name_what_real_jobs_read_and_wrote(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    runs = {run.app: run for job in access.jobs(None) for run in access.runs(job.name, None)}
    contents = {name: runs[app].content for name, app in apps.items()}
    assert all(
        content is not None and not content.reads_without_files for content in contents.values()
    )
    used = {
        name: ({use.name for use in content.reads}, {use.name for use in content.writes})
        for name, content in contents.items()
        if content is not None
    }
    assert used["first"] == ({str(folder / "in.txt")}, {str(folder / "one")})
    assert used["second"] == ({str(folder / "one")}, {str(folder / "two")})
    assert used["third"][1] == {str(folder / "three")}
    # What `collect_list` gathers has no order of its own.
    assert [runs[apps[name]].exact for name in ("first", "second")] == [True, False]
    assert all(run.complete and run.status == "ok" for run in runs.values())

    def users(out: str) -> list[tuple[str, bool]]:
        """Who wrote and read a folder, in order."""
        found = access.dataset_runs("file", str(folder / out)).items
        return list(dict.fromkeys((run.app, run.wrote) for run in reversed(found)))

    assert users("in.txt") == [(apps["first"], False)]
    # The third job named files of the folder by a pattern.
    assert users("one") == [(apps["first"], True), (apps["second"], False), (apps["third"], False)]
    assert users("two") == [(apps["second"], True), (apps["third"], False)]
    assert users("three") == [(apps["third"], True)]


@pytest.mark.parametrize("way", ["copied", "moved", "touched"])
def test_files_that_were_copied_or_moved_are_found_by_their_checksum(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess, way: str
) -> None:
    own = folder / f"by checksum {way}"
    own.mkdir()
    (own / "in.csv").write_text("a,1\nb,2\n")
    with begin() as lc:
        first = app_of(lc)
        frame = spark.read.schema("key string, number int").csv(str(own / "in.csv"))
        frame.withColumn("number", F.col("number") + 1).coalesce(1).write.csv(str(own / "one"))
    (written,) = part_files(own / "one")
    read = own / "arrived.csv"
    match way:
        case "copied":
            read.write_bytes(written.read_bytes())
        case "moved":
            written.rename(read)
        case _:
            read = written
            os.utime(read, ns=(0, read.stat().st_mtime_ns + 5_000_000_000))
    with begin() as lc:
        second = app_of(lc)
        frame = spark.read.schema("key string, number int").csv(str(read))
        frame.where("number > 2").coalesce(1).write.csv(str(own / "two"))
    ((place, text),) = rows(own / "two")
    assert text == "b,3"
    answer = access.ask(back(place))
    found = [item.location for group in answer.groups for item in group.items]
    said = " ".join(answer.reasons if way == "copied" else answer.warnings)
    assert first in said
    assert second in said
    assert "checksum" in said
    found_back = [f"{own}/in.csv:2"]
    assert found == found_back
    assert (answer.complete, answer.exact) == (True, way != "copied"), answer.reasons
    forward = access.ask(TraceQuery(Direction.FORWARD, (f"{own}/in.csv:2",), all_jobs=True))
    found = [item.location for group in forward.groups for item in group.items]
    assert found == [place]
    assert (forward.complete, forward.exact) == (True, way != "copied"), forward.not_queried
    if way == "moved":
        with begin() as lc:
            lc.textFile(str(read), 1).saveAsTextFile(str(own / "three"))
        (*_, (place, text)) = rows(own / "three")
        assert text == "b,3"
        answer = access.ask(back(place))
        assert [item.location for group in answer.groups for item in group.items] == found_back
        assert (answer.complete, answer.exact) == (True, True)
        # Where its content is in no file any more, the row is not known.
        read.write_text("a,2\nb,4\n")
        answer = access.ask(back(place))
        assert {gap.app for gap in answer.not_queried} == {first}
        assert not answer.complete
        forward = access.ask(TraceQuery(Direction.FORWARD, (f"{own}/in.csv:2",), all_jobs=True))
        # The last job has written the same content: so it is known where the row was written, and who read it.
        found = [item.location for group in forward.groups for item in group.items]
        assert set(found) == {f"{written}:2", place}
        assert {gap.app for gap in forward.not_queried} == {second}
        assert not forward.complete
