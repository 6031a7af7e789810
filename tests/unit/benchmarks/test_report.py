"""The page of the benchmarks is what the rows say, and what is committed is what they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.modes import MODES
from benchmarks.report import arrays, triples
from benchmarks.report.fit import growth
from benchmarks.report.page import draw, page
from benchmarks.report.pictures import COLOURS
from benchmarks.report.published import PUBLISHED
from benchmarks.report.rows import ResultsError, Row, latest, read_rows, size_label
from benchmarks.report.tables import NO_ROWS, of_targets
from benchmarks.report.target_tables import ACROSS_JOBS, ARRAYS, FAULTS, LAKE, TABLES
from benchmarks.report.targets import OF_JOBS

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def row(benchmark: str, mode: str, megabytes: int, at: str = "2026-01-01", **fields: Any) -> Row:
    provenance = {
        "at": at,
        "command": f"python -m benchmarks {benchmark} --mode {mode} --size {megabytes}MB",
        "commit": "abc",
        "cores": 2,
        "memory_gb": 25.3,
        "system": "Linux",
    }
    return Row(
        {
            "benchmark": benchmark,
            "mode": mode,
            "input_bytes": megabytes * 10**6 + 26,
            "pairs": 3,
            "provenance": provenance,
            **fields,
        }
    )


def median(value: float) -> dict[str, float]:
    return {"median": value, "low": value * 0.9, "high": value * 1.1}


def measured(mode: str, megabytes: int, **more: Any) -> Row:
    """A word count whose figures grow in proportion; the published design's are 40 times ours."""
    times = 40 if mode == "record-level" else 1
    return row(
        *("wordcount", mode, megabytes),
        jobs_ratio=median(0.9 * times),
        queryable_s=median(0.01 * megabytes * times),
        lineage_cpu_s=median(0.02 * megabytes * times),
        store_bytes=50_000 * megabytes * times,
        store_ratio=0.05 * times,
        cpu_s={"job": 1.0 * megabytes, "neo4j": 0.5},
        peak_mb={"jvm": 300.0, "neo4j": 600.0},
        trace={"points": [[1, 0.5], [10, 0.9]], "positions": {"p50_ms": 0.7, "p95_ms": 1.9}},
        **more,
    )


ROWS = [measured(mode, size) for mode in ("kafka", "record-level") for size in (1, 3, 10)]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_a_power_law_is_found_again(exponent: float) -> None:
    sizes = [1.0, 3.0, 10.0, 30.0]
    found = growth(sizes, [7 * size**exponent for size in sizes])
    assert found is not None
    assert (found.exponent, found.low, found.high) == pytest.approx((exponent,) * 3)


def test_the_interval_is_that_of_ordinary_least_squares() -> None:
    # By hand: x = 0, 1, 2, 3 and y = 0, 1, 2, 4 give slope 1.3, residual 0.3, so 4.303 * sqrt(0.15 / 5).
    found = growth(np.exp([0, 1, 2, 3]).tolist(), np.exp([0, 1, 2, 4]).tolist())
    assert found is not None
    assert found.exponent == pytest.approx(1.3)
    assert found.high - found.exponent == pytest.approx(4.303 * (0.15 / 5) ** 0.5)


@pytest.mark.parametrize("sizes", [[1.0, 2.0], [1.0, 1.0, 1.0]])
def test_too_few_sizes_have_no_growth(sizes: list[float]) -> None:
    assert growth(sizes, [1.0] * len(sizes)) is None


@pytest.mark.parametrize(
    ("size", "label"),
    [(1_000_026, "1 MB"), (30_000_001, "30 MB"), (10**9, "1 GB"), (13_600_000, "14 MB"), (0, "")],
)
def test_sizes_as_a_person_says_them(size: int, label: str) -> None:
    assert size_label(size) == label


def test_of_rows_about_the_same_the_latest_counts() -> None:
    rows = [
        row("grep", "spool", 1, at="2026-02-01", jobs_ratio=1.5),
        row("grep", "spool", 1, at="2026-01-01", jobs_ratio=1.0),
        row("grep", "spool", 3, at="2026-01-01", jobs_ratio=1.0),
    ]
    assert [(one.size, one.value("jobs_ratio")) for one in latest(rows)] == [
        ("1 MB", 1.5),
        ("3 MB", 1.0),
    ]


def test_a_command_is_shown_without_places_of_the_machine() -> None:
    one = row("grep", "spool", 1)
    words = one.fields["provenance"]["command"]
    one.fields["provenance"]["command"] = (
        f"{words} --json-out /here/a.jsonl --folder /there --pairs 2"
    )
    assert one.command == f"{words} --pairs 2"


def test_a_line_without_provenance_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"benchmark": "grep"}\n')
    with pytest.raises(ResultsError, match=r"a\.jsonl:1"):
        read_rows(tmp_path)


def test_the_page_holds_every_row_its_command_and_what_is_worse() -> None:
    text = page([*ROWS, row("grep", "spool", 1, jobs_ratio=median(1.7), store_ratio=0.3)])
    assert "| grep | spool | 1 MB | 3 | 1.7 (1.53 to 1.87) |" in text
    for one in ROWS:
        assert text.count(f"`{one.command}`") == 1
        assert f"\n{one.command}\n" in text  # below a picture


def test_the_page_sets_the_published_design_beside_ours_and_as_published() -> None:
    lines = page(ROWS).splitlines()
    assert "| wordcount | 10 MB | times | 40 | 40 | 40 | 40 |" in lines
    published = [line for line in lines if "| as published, there (32 CPUs) |" in line]
    assert [line.split(" | ")[3] for line in published] == ["4", "6"]
    assert " | 8,640 | " in published[0]
    assert published[0].endswith(" | 21,000 |")  # 42 times 500 MB


def test_growth_is_fitted_for_each_mode() -> None:
    (line,) = (
        one for one in page(ROWS).splitlines() if "| record-level | 1 MB, 3 MB, 10 MB |" in one
    )
    assert line.count("1.00 (1.00 to 1.00)") == 3


def test_targets_say_what_was_measured_and_whether_it_is_enough() -> None:
    lines = page([*ROWS, row("grep", "spool", 100, wall_ratio=median(1.2))]).splitlines()
    assert "| grep, time | ≤ 1.05 | 1.2 at 100 MB | **no** |" in lines
    assert any(line.startswith("| word count, time | ≤ 1.00 | not measured |") for line in lines)
    dearer = next(line for line in lines if "CPU seconds of all processes" in line)
    assert dearer.endswith("| ≥ 20 times | 40 times at 10 MB | yes |")
    stored = next(line for line in lines if line.startswith("| published design over ours, store"))
    assert stored.endswith("| ≥ 100 times | 40 times at 10 MB | **no** |")


def test_a_join_with_an_inexact_trace_is_not_enough() -> None:
    witnesses = {"rows": 20, "superset_rows": 1}
    rows = [row("join", "spool", 60, wall_ratio=1.1, witnesses=witnesses)]
    (target,) = (one for one in OF_JOBS if one.what.startswith("join"))
    found = target.measured(rows)
    assert found is not None
    assert not found.met


def test_capture_that_costs_less_than_nothing_has_no_multiple() -> None:
    rows = [measured("record-level", 10), measured("kafka", 10)]
    cheap = Row({**rows[1].fields, "lineage_cpu_s": median(-1.0)})
    (target,) = (one for one in OF_JOBS if "CPU seconds" in one.what)
    found = target.measured([rows[0], cheap])
    assert found is not None
    assert (found.text, found.met) == ("8 to -1 at 10 MB", True)


def stored(benchmark: str, at: str, **fields: Any) -> Row:
    provenance = {"at": at, "command": f"python -m benchmarks.{benchmark} --at {at}", "commit": at}
    return Row({"bench": benchmark, "provenance": provenance, **fields})


CHAIN = {"rows": 1_000_000, "jobs": 10, "applications": 10_000}


def target_lines(rows: list[Row], what: str) -> list[str]:
    return [line for line in of_targets(rows, ACROSS_JOBS).splitlines() if what in line]


def test_a_figure_of_another_benchmark_is_that_of_its_latest_row_of_that_size() -> None:
    rows = [
        stored("chain", "2", ratio={"positions": 1.4}, **CHAIN),
        stored("chain", "1", ratio={"positions": 1.1}, **CHAIN),
        stored("chain", "3", ratio={"positions": 1.0}, **{**CHAIN, "applications": 10}),
    ]
    (line,) = target_lines(rows, "10,000 more applications")
    assert line.endswith("| ≤ 1.3 times | 1.4, at 2 | **no** |")
    assert target_lines(rows[2:], "10,000 more applications")[0].endswith("| not measured |  |")
    slow = stored("chain", "4", median={"small": {"positions": 0.1}}, **CHAIN)
    (line,) = target_lines([slow], "ten jobs")
    assert line.endswith("| ≤ 100 ms | 100, at 4 | yes |")


def test_what_is_not_reached_is_explained_and_what_is_reached_is_not() -> None:
    def row_of(ratio: float) -> Row:
        return stored("engines", "1", engine="dask", input_bytes=10**7, cpu_ratio=median(ratio))

    dearer, reason = target_lines([row_of(1.4)], "word count of Dask, processor")
    assert dearer.endswith("| 1.4 (1.26 to 1.54), at 1 | **no** |")
    assert reason.startswith("- *a word count of Dask")
    (cheaper,) = target_lines([row_of(1.05)], "word count of Dask, processor")
    assert cheaper.endswith("| yes |")
    assert not target_lines([], "What stands in the way")


def test_every_table_of_figures_is_on_the_page_and_names_what_is_not_measured() -> None:
    text = page([])
    for targets in TABLES.values():
        for target in targets:
            assert f"| {target.what} | {target.wanted} | not measured |  |" in text


def test_a_faulty_actor_must_be_first_at_each_magnitude() -> None:
    (target,) = (one for one in FAULTS if "faulty actor" in one.what)
    found = {"20 bad and 20 good": {"first": "10/10"}}
    magnitudes = dict.fromkeys(("5", "10", "100", "1000"), found)
    reached = target.measured([stored("faulty-actors", "1", magnitudes=magnitudes)])
    assert reached is not None
    assert reached.met
    magnitudes["100"] = {"20 bad and 20 good": {"first": "9/10"}}
    missed = target.measured([stored("faulty-actors", "1", magnitudes=magnitudes)])
    assert missed is not None
    assert not missed.met


def triples_row(factor: int, cold_s: float) -> Row:
    way = {
        "median_s": 0.1,
        "worst_s": 0.3,
        "median_read": 16_384,
        "peak_mib": 200,
        "same": 9,
        "items": 10,
    }
    found = {
        "cold": {"median_s": cold_s, "worst_s": 1.0},
        **dict.fromkeys(("auto", "rq", "ccprov", "csprov"), way),
    }
    index = {"cpu_s": 100.0, "peak_mib": 900}
    return stored(
        "triples", str(factor), factor=factor, nodes=10, edges=20, bytes_per_edge=11.04, index=index,
        index_bytes_per_edge=60.2, added={"index": {"cpu_s": 2.5}, "ratio": 0.025},
        classes=dict.fromkeys(("SC-SL", "LC-SL", "LC-LL"), found),
    )  # fmt: skip


def test_traces_of_triples_stand_beside_what_was_published_and_what_is_to_be_reached() -> None:
    rows = [triples_row(9, 0.15), triples_row(1, 0.1)]
    text = triples.traces(rows) + triples.indexes(rows)
    assert "| 9 | 10 | 20 | large component, small lineage | 0.15 (1.00) |" in text
    assert "| 36 of 40 | 0.8 |" in text
    assert "| 9 | 10 | 20 | 11.0 | 100 | 900 | 60 | 2.5 | 2.5% |" in text
    assert text.index("| 1 | 10 | 20 |") < text.index("| 9 | 10 | 20 |")
    lines = of_targets(rows, LAKE).splitlines()
    cold, large, *_ = (
        line for line in lines if line.startswith("| 97 million items and triples, nothing")
    )
    assert cold.endswith("| ≤ 0.1 | 0.15, at 9 | **no** |")
    assert large.endswith("| ≤ 0.2 | 0.15, at 9 | yes |")
    (grown, *_) = (line for line in lines if "over a ninth" in line)
    assert grown.endswith("| ≤ 1.3 times | 1.5 times, at 9 | **no** |")
    assert "| 200, at 9 | yes |" in next(
        line for line in lines if "97 million items and triples, memory" in line
    )
    assert "| 24 | 53 | 0.18 | 0.18 | 0.18 | 2 | 0.9 |" in triples.grown(rows)
    assert "| 48 | 107 | 0.20 |" in triples.grown(rows)
    assert triples.grown(rows[1:]) == NO_ROWS
    of_one = [line for line in of_targets(rows[1:], LAKE).splitlines() if "97 million" in line]
    assert of_one
    assert all("not measured" in line for line in of_one)


def test_traces_by_spark_name_what_they_read() -> None:
    found = {"s": 1.24, "triples": 5, "read": 16_384, "steps": 2, "same": False}
    questions = {"SC-SL, 1 items": {"csprov": found}, "many": {"rq": found}}
    row = stored("triples by spark", "1", factor=9, nodes=10, edges=20, questions=questions)
    text = triples.by_spark([row])
    assert "| small component, 1 item | `csprov` | 1.2 | 16,384 | 5 | 2 | **no** | 0.4 |" in text
    assert "| 100,000 items of all | `rq` | 1.2 | 16,384 | 5 | 2 | **no** |  |" in text
    (line, *_) = (
        line
        for line in of_targets([row], LAKE).splitlines()
        if "97 million items and triples, by Spark" in line
    )
    assert line.endswith("| ≤ 0.4 | 1.24, at 1 | **no** |")


def test_figures_of_arrays_are_those_of_their_rows() -> None:
    seconds = {"s": 0.002, "first_s": 0.5}
    kind = {"associations": 10**6, "ranges": 3, "bytes": 144, "write_s": 0.25}
    query = {"associations": 10**8, "backward": seconds, "forward": seconds}
    ratios = dict.fromkeys(
        ("bytes", "write_s", "backward_s", "forward_s", "backward_1_s", "forward_1_s"), 1.5
    )
    rows = [
        row("arrays-kinds", "", 0, kinds={"sum": kind}, ranges_max=3, queries={"sum": query}, query_ms_max=2.0, associations=10**8),
        row("arrays-spatial", "", 0, figures={"r-tree": ratios}, parts=[]),
        row("arrays-solver", "", 0, operators=100, strategies=12, solve_ms=median(20)),
        row("arrays-astronomy", "", 0, figures={"run_ratio": median(1.0), "backward_times": 100.0}),
    ]  # fmt: skip
    text = page(rows)
    assert "| sum | 1,000,000 | 3 | 144 | 250 |" in text
    assert "| sum | 100,000,000 | 2 | 500 | 2 | 500 |" in text
    assert "| r-tree | 1.5 | 1.5 | 1.5 | 1.5 | 1.5 | 1.5 |" in text
    assert "| field | value |" not in text, "not once more among the rows of other programs"
    lines = of_targets(rows, ARRAYS).splitlines()
    ends = {
        "ranges of an operator": "| ≤ 2 | 3, at abc | **no** |",
        "a range query over": "| ≤ 100 ms | 2, at abc | yes |",
        "the optimiser over": "| ≤ 50 ms | 20 (18 to 22), at abc | yes |",
        "astronomy by the optimiser": "| ≤ 1.05 | 1 (0.9 to 1.1), at abc | yes |",
        "astronomy, backward queries": "| ≥ 255 times | 100, at abc | **no** |",
        "genomics without a limit, lineage": "| not measured |  |",
    }
    for what, end in ends.items():
        assert next(line for line in lines if line.startswith(f"| {what}")).endswith(end)
    assert NO_ROWS in arrays.kinds([])


def workflow_part(strategy: str, back_s: float) -> dict[str, Any]:
    seconds = {"star": back_s, "pixel": back_s / 3, "pixel-forward": 0.5}
    return {
        "shape": [512, 2000], "strategy": strategy, "wall_ratio": median(1.0), "lineage_over_inputs": 0.004,
        "lineage_bytes": 4_000_000, "query_s": seconds, "auto_s": {**seconds, "pixel-forward": 0.25},
    }  # fmt: skip


def test_each_strategy_of_arrays_has_its_line() -> None:
    parts = [workflow_part("blackbox-all", 0.3), workflow_part("plan-any", 0.003)]
    rows = [stored("arrays-astronomy", "1", parts=parts)]
    text = arrays.astronomy(rows)
    assert (
        "| 512 x 2000 | `plan-any` | 1 (0.9 to 1.1) | 0.004 | 2 | 3 | 500 | 2 | 3 | 250 |" in text
    )
    assert "| `plan-any` | 1 (0.9 to 1.1) | 4 | 3 | 1 | 500 | 3 | 1 | 250 |" in arrays.genomics(
        rows
    )
    question = {
        "operator": "functions", "question": "one cell", "blackbox_s": 0.1, "stored_s": 1.0, "auto_s": 0.15,
        "auto_over_blackbox": median(1.5), "auto": "rerun: reading would take longer",
    }  # fmt: skip
    asked = stored("arrays-query-time", "1", questions=[question], worst_over_blackbox=1.5)
    line = "| functions | one cell | 100 | 1e+03 | 150 | 1.5 (1.35 to 1.65) | rerun: reading would take longer |"
    assert line in arrays.query_time([asked])
    assert "| ≤ 2 times | 1.5, at 1 | yes |" in of_targets([asked], ARRAYS)


def test_without_rows_the_page_says_so() -> None:
    assert NO_ROWS in page([])
    assert "{{" not in page([])


def test_pictures_are_the_same_for_the_same_rows_and_mark_what_was_published(
    tmp_path: Path,
) -> None:
    (tmp_path / "old.svg").write_text("")
    names = {path.name for path in draw(ROWS, tmp_path)}
    assert names == {path.name for path in tmp_path.iterdir()}
    assert names == {"overhead.svg", "queryable.svg", "store.svg", "trace.svg"}
    first = {name: (tmp_path / name).read_bytes() for name in names}
    draw(ROWS, tmp_path)
    assert first == {name: (tmp_path / name).read_bytes() for name in names}
    for picture in {one.field for one in PUBLISHED}:
        name = {"jobs_ratio": "overhead", "queryable_s": "queryable", "store_ratio": "store"}[
            picture
        ]
        assert b"published (32 CPUs)" in first[f"{name}.svg"]


def test_every_mode_that_leaves_lineage_has_a_colour_of_its_own() -> None:
    assert COLOURS.keys() == MODES.keys() - {"emission"}
    assert len({*COLOURS.values()}) == len(COLOURS)


def test_the_page_in_the_repository_is_that_of_its_rows() -> None:
    profiles = sorted(path.name for path in (DOCS / "profiles").glob("*.md"))
    wanted = page(read_rows(ROOT / "benchmarks" / "results"), profiles)
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == wanted, "run `make report`"


def test_rows_are_read_as_they_were_printed(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(one.fields) + "\n" for one in ROWS))
    assert read_rows(tmp_path) == ROWS
