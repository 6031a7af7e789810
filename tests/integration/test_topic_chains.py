"""Jobs that are linked by a topic of Kafka: which offsets they read and wrote, and what traces say of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewTopic

from tests.support.fetched_jars import fetched_jars
from tests.support.job_runs import STORE, answered, run_plain
from tests.support.servers import KafkaUnderTest
from tests.support.versions import only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("a connector for Kafka", "4.1")]

TOPIC = "orders.of-jobs"
WRITERS = ("writer1", "writer2", "hasty")
UNCERTAIN = {"cached", "meddled"}
READERS = ("first", "second", *UNCERTAIN, "streamed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaUnderTest) -> Path:
    """Where the jobs have run."""
    home = tmp_path_factory.mktemp("topics")
    admin = kafka.admin()
    for created in admin.create_topics(
        [NewTopic(TOPIC, num_partitions=2, replication_factor=1)]
    ).values():
        created.result()
    jars = ",".join(map(str, sorted(fetched_jars(HERE / "topics").glob("*.jar"))))
    (home / "conf").mkdir()
    (home / "conf/spark-defaults.conf").write_text(f"{SMALL_SPARK}spark.jars {jars}\n")
    script, store = str(HERE / "topic_job.py"), f"sqlite:///{home / STORE}"
    settings = {"SPARK_CONF_DIR": str(home / "conf")}
    done = run_plain(home, script, store, kafka.bootstrap, TOPIC, env=settings)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "topics.json").read_text())
    return found


def version(rows: list[tuple[str, int, int]]) -> str:
    """The ranges that rows with their partitions and offsets lie in."""
    ranges: dict[int, tuple[int, int]] = {}
    for _, partition, offset in rows:
        first, end = ranges.get(partition, (offset, offset + 1))
        ranges[partition] = min(first, offset), max(end, offset + 1)
    return " ".join(f"{number}:{first}-{end}" for number, (first, end) in sorted(ranges.items()))


def test_offsets_that_were_read_and_written_are_recorded(said: dict[str, Any]) -> None:
    """Held against the offsets that the rows themselves say."""
    used = {app: (wrote, versions) for app, wrote, versions in said["uses"]}
    by_name = {name: used[app] for name, app in said["apps"].items() if app in used}
    assert {name for name, (wrote, _) in by_name.items() if wrote} == set(WRITERS)
    for name in ("first", "second", "streamed"):
        assert by_name[name][1] == [version(said["read"][name])]
    for name in ("writer1", "writer2"):
        written = [row for row in said["topic"] if row[0].startswith(f"{name} ")]
        assert len(written) == 3
        # Nobody else wrote meanwhile.
        assert by_name[name][1] == [version(written)]
    assert said["of_any"] == [said["apps"]["rows"]]
    # Acknowledged by one broker alone, cached at another time, and written to meanwhile: not certain.
    assert [by_name[name][1] for name in ("hasty", "cached", "meddled")] == [[], [], []]


def test_forward_the_readers_whose_offsets_may_hold_the_rows_are_named(
    said: dict[str, Any],
) -> None:
    names = {app: name for name, app in said["apps"].items()}
    for writer in WRITERS:
        forward = said["forward"][writer]
        assert not forward["complete"]
        named = {names[app] for app, _ in forward["refused"]} - {writer}
        held = {
            name
            for name in READERS
            if any(row[0].startswith(f"{writer} ") for row in said["read"][name])
        }
        assert named >= held
        if writer == "writer1":
            # The offsets of the second begin behind it.
            assert named == {"first", "cached", "meddled", "streamed"}
        reasons = dict(forward["refused"])
        assert (
            "whether another application read its rows is not known"
            in reasons[said["apps"][writer]]
        )
    reason = dict(said["forward"]["writer1"]["refused"])[said["apps"]["first"]]
    assert re.search(r"it read kafka://\S+/orders\.of-jobs at \S+ \(offsets \d:", reason)


def test_back_through_a_topic_to_the_lines_that_were_written_to_it(
    said: dict[str, Any], folder: Path, kafka: KafkaUnderTest
) -> None:
    for asked, trace in said["through"]["back"].items():
        _, _, value = asked.rpartition("/")
        writer, number = value.split()
        records = tuple(f"[{p}]@{offset}" for text, p, offset in said["topic"] if text == value)
        places = {place for place, _ in trace["found"]}
        if writer in ("writer1", "writer2"):
            assert places == {f"{folder}/{writer}.csv:{int(number) + 1}"}, trace
            assert (trace["exact"], trace["complete"]) == (True, True), trace
        else:
            # Two jobs do not say at which offsets they wrote: these records may be theirs.
            (place,) = places
            assert place.startswith(f"kafka://{kafka.bootstrap}/{TOPIC}[")
            assert place.endswith(records)
            assert not trace["complete"]
            reasons = dict(trace["refused"])
            assert reasons.keys() == {said["apps"]["hasty"], said["apps"]["rows"]}
            assert "at offsets that are not known" in reasons[said["apps"]["hasty"]]
            assert "topics that its rows name" in reasons[said["apps"]["rows"]]


def test_forward_through_a_topic_to_what_was_made_of_its_records(
    said: dict[str, Any], folder: Path
) -> None:
    names = {app: name for name, app in said["apps"].items()}
    for writer, trace in said["through"]["forward"].items():
        value = f"{writer} 1"
        readers = {name for name in READERS if any(row[0] == value for row in said["read"][name])}
        assert {Path(place).parent.name for place, _ in trace["found"]} == readers - UNCERTAIN
        assert all(value in text for _, text in trace["found"])
        # Which offsets these two read is not known.
        assert {names[app] for app, _ in trace["refused"]} == UNCERTAIN
        assert not trace["complete"]


def test_of_the_options_servers_and_topic_alone_are_recorded(
    said: dict[str, Any], folder: Path
) -> None:
    assert said["apps"]
    recorded = b"".join(path.read_bytes() for path in (folder / STORE).parent.rglob("*.db*"))
    assert TOPIC.encode() in recorded
    assert b"not-to-be-recorded" not in recorded


def test_back_from_rows_of_a_topic_its_servers_must_be_named(
    said: dict[str, Any], folder: Path, kafka: KafkaUnderTest
) -> None:
    assert "LINEAGE_TOPICS_SERVERS names" in said["refusal"]
    shown = answered(folder, "datasets", f"kafka://{kafka.bootstrap}/{TOPIC}")
    assert shown.exit_code == 0, shown.output
    graph = answered(folder, "graph", "--jobs").stdout
    assert TOPIC in graph
