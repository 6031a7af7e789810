import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import sdk
from benchmarks.catalog import WORKLOADS
from benchmarks.generate import (
    VOCABULARY,
    WORDS_MAX,
    WORDS_MIN,
    parse_size,
    probabilities,
    vocabulary,
    write_flights,
    write_text,
)
from benchmarks.generate_records import VILLAGE, write_graph, write_records, write_tweets
from benchmarks.intervals import median_interval
from benchmarks.meter import Meter, Usage
from benchmarks.modes import MODES
from benchmarks.pairs import LAUNCHERS, PLAIN, SPOOL, Run, RunError, check_same_output
from benchmarks.report.page import TEXT
from benchmarks.sdk import RUN_LENGTH, WrongFlowsError, sdk_row
from benchmarks.spark_events import AppTimes, read_times
from benchmarks.totals import totals_until_queryable
from benchmarks.workloads.tweets import ANY, TITLES, is_about_films, title_in, votes_in

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "size"), [("100MB", 10**8), ("1gb", 10**9), ("1.5 kb", 1500), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size("much")


def test_text_is_the_same_for_the_same_arguments_and_as_large_as_asked(tmp_path: Path) -> None:
    size = 300_000
    write_text(tmp_path / "a", size)
    write_text(tmp_path / "b", size)
    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    assert content.endswith(b"\n")
    assert size <= len(content) < size + 120
    assert {len(line.split(b" ")) for line in content.splitlines()} == set(
        range(WORDS_MIN, WORDS_MAX + 1)
    )


def test_words_follow_zipf(tmp_path: Path) -> None:
    write_text(tmp_path / "a", 1_000_000)
    words, counts = np.unique((tmp_path / "a").read_bytes().split(), return_counts=True)
    seen = dict(zip(words.tolist(), counts.tolist(), strict=True))
    assert len(set(vocabulary())) == VOCABULARY
    for rank in range(8):
        share = seen[vocabulary()[rank]] / counts.sum()
        assert share == pytest.approx(probabilities()[rank], rel=0.05)


def test_flights_are_repeated_to_the_size_and_keep_one_header(tmp_path: Path) -> None:
    write_flights(tmp_path, 40_000_000)
    content = (tmp_path / "flights.csv").read_bytes()
    assert 40_000_000 <= len(content) < 40_000_200
    assert content.count(b"year,month") == 1
    assert sorted(path.name for path in tmp_path.glob("*.csv")) == [
        "airlines.csv",
        "airports.csv",
        "flights.csv",
        "planes.csv",
        "weather.csv",
    ]


def test_median_lies_within_its_interval() -> None:
    found = median_interval([1.0, 1.1, 0.9, 1.05, 0.95, 1.2, 1.0])
    assert found["median"] == 1.0
    assert 0.9 <= found["low"] <= found["median"] <= found["high"] <= 1.2


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        median_interval([])


@pytest.mark.parametrize(
    "change", [lambda out: (out / "part-0").write_bytes(b"x"), lambda out: (out / "new").touch()]
)
def test_outputs_that_differ_are_an_error(tmp_path: Path, change: Callable[[Path], object]) -> None:
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        (tmp_path / side / "part-0").write_bytes(b"y")
    check_same_output(tmp_path / "a", tmp_path / "b")
    change(tmp_path / "b")
    with pytest.raises(RunError, match=r"differ|other files"):
        check_same_output(tmp_path / "a", tmp_path / "b")


def test_times_are_read_from_an_event_log(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_text(
        """{"Event":"SparkListenerApplicationStart","Timestamp":1000}
{"Event":"SparkListenerJobStart","Submission Time":2000}
{"Event":"SparkListenerTaskEnd"}
{"Event":"SparkListenerJobEnd","Completion Time":3500}
{"Event":"SparkListenerApplicationEnd","Timestamp":4000}
""",
        encoding="utf-8",
    )
    times = read_times(tmp_path)
    assert (times.app_s, times.jobs_s) == (3.0, 1.5)


def test_a_log_without_the_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "local-1").write_text(
        '{"Event":"SparkListenerApplicationStart","Timestamp":1000}\n', encoding="utf-8"
    )
    with pytest.raises(ValueError, match="has no event"):
        read_times(tmp_path)


@pytest.mark.long
def test_the_sdk_row_counts_what_was_told_and_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = sdk_row(tmp_path / "sdk", flows=300, tasks=2)
    assert [form["flows_found"] for form in row["calls"].values()] == [600] * 4
    assert row["columns"]["regions"]["associations_found"] == 600 * RUN_LENGTH
    assert 0 < row["calls_per_cpu_s_min"] <= row["calls"]["opaque"]["calls_per_cpu_s"]
    found = sdk._flows_of
    monkeypatch.setattr(sdk, "_flows_of", lambda block: list(found(block))[1:])
    with pytest.raises(WrongFlowsError, match="2 flows are missing, 0 were never reported"):
        sdk_row(tmp_path / "sdk", flows=300, tasks=2)


def test_every_workload_is_there() -> None:
    assert set(WORKLOADS) == {
        *("wordcount", "grep", "flights", "tweets", "join", "join-key"),
        *("sort", "distinct", "group", "pagerank"),
    }
    assert all(workload.script.exists() for workload in WORKLOADS.values())
    assert WORKLOADS["join-key"].settings == {"LINEAGE_GRANULARITY": "key"}
    detailed = WORKLOADS["tweets"].with_settings("tweets-detailed", LINEAGE_DETAILED="true")
    assert (detailed.script, detailed.settings) == (
        WORKLOADS["tweets"].script,
        {"LINEAGE_DETAILED": "true"},
    )


@pytest.mark.parametrize(("write", "size"), [(write_tweets, 900_000), (write_records, 90_000)])
def test_lines_are_the_same_for_the_same_size_and_as_large_as_asked(
    tmp_path: Path, write: Callable[[Path, int], None], size: int
) -> None:
    for name in ("a", "b"):
        write(tmp_path / name, size)
    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    assert size <= len(content) < size + 600
    assert content.endswith(b"\n")


def test_one_tweet_in_100_is_about_films(tmp_path: Path) -> None:
    write_tweets(tmp_path / "a", 2_000_000)
    lines = (tmp_path / "a").read_text().splitlines()
    assert np.mean(list(map(len, lines))) == pytest.approx(420, rel=0.03)
    about = [json.loads(line)["text"].lower() for line in lines if is_about_films(line)]
    assert len(about) / len(lines) == pytest.approx(0.01, rel=0.3)
    assert {title_in(text) for text in about} == {*TITLES, ANY}
    assert {votes_in(text) for text in about} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_villages_have_no_edges_between_them(tmp_path: Path) -> None:
    write_graph(tmp_path / "a", 4_000)
    edges = [
        tuple(int(name[1:]) for name in line.split(" "))
        for line in (tmp_path / "a").read_text().splitlines()
    ]
    assert len(edges) == 4_000
    town = 4_000 // 10 // 2
    assert all((a < town and b < town) or a // VILLAGE == b // VILLAGE for a, b in edges)


def run_of(kind: str, cpu_s: float, jvm_mb: float) -> Run:
    peaks = {"jvm": jvm_mb, "worker": 50.0}
    return Run(kind, Path(), 1.0, cpu_s, 0.0, 50.0, 20.0, peaks, AppTimes(0, 1, 0, 1), 0.0)


def test_lineage_costs_what_all_processes_used_less_the_plain_job() -> None:
    plain = [run_of(PLAIN, 10.0, 300), run_of(PLAIN, 12.0, 320)]
    captured = [run_of(SPOOL, 11.0, 310), run_of(SPOOL, 13.0, 400)]
    usages = [Usage(9.0, {"kafka": cpu_s, "neo4j": 2.0}, {"neo4j": 600.0}) for cpu_s in (1.0, 3.0)]
    found = totals_until_queryable(plain, captured, usages)
    assert found["lineage_cpu_s"]["median"] == 5.0  # of 11 + 1 + 2 - 10 and 13 + 3 + 2 - 12
    assert found["cpu_s"] == {"job": 12.0, "kafka": 2.0, "neo4j": 2.0}
    assert found["peak_mb"] == {"jvm": 400.0, "neo4j": 600.0, "worker": 50.0}
    assert found["plain_peak_mb"] == {"jvm": 320.0, "worker": 50.0}


def test_without_servers_it_is_the_difference_of_the_jobs() -> None:
    found = totals_until_queryable([run_of(PLAIN, 10.0, 300)], [run_of(SPOOL, 9.5, 300)])
    assert (found["lineage_cpu_s"]["median"], found["cpu_s"]) == (-0.5, {"job": 9.5})


def test_a_meter_reads_time_and_memory_of_a_process() -> None:
    meter = Meter({"me": os.getpid()})
    began = time.process_time()
    block = b"x" * 50_000_000
    while time.process_time() - began < 0.2:
        pass
    usage = meter.read()
    assert usage.cpu_s["me"] >= 0.15  # the kernel counts in hundredths
    assert usage.peak_mb["me"] * 1e6 > len(block)


def test_the_page_says_what_each_mode_is() -> None:
    text = TEXT.read_text(encoding="utf-8")
    assert all(f"`{mode}`" in text for mode in MODES)
    assert LAUNCHERS.keys() >= {"plain", "spool", "kafka", "record-level"}
