# ruff: noqa: SIM113, UP028
"""Functions over partitions: what is proved or declared is exact, all else is a superset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext, exact
from lineage_store.url import open_store
from tests.support.job_runs import STORE, ask, judged, traced
from tests.support.own_keys import User

pytestmark = pytest.mark.e2e

LINES = [json.dumps({"id": n, "tags": ["a", "b"][: n % 3]}) for n in range(8)] + ["", "nothing"]


def parsed(records: Iterable[str]) -> Iterator[Any]:
    for line in records:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        for tag in row["tags"]:
            yield f"{tag} {row['id']}"


def running(records: Iterable[str]) -> Iterator[Any]:
    seen = 0
    for _ in records:
        seen += 1
        yield seen


@exact
def declared(records: Iterable[Any]) -> Iterator[Any]:
    for found in map(str.strip, iter(records)):
        yield found


def of_users(records: Iterable[Any]) -> Iterator[Any]:
    for user in records:
        yield [user]


@pytest.fixture
def capture(spark_context: SparkContext, tmp_path: Path) -> Any:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    return LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}")


def saved(capture: Any, folder: Path, make: Any) -> str:
    with capture as lc:
        make(lc.textFile(str(folder / "in.txt"), 2)).saveAsTextFile(str(folder / "out"))
        return str(lc.app)


def rule_of(folder: Path, app: str) -> tuple[bool, str, str]:
    with open_store(f"sqlite:///{folder / STORE}") as store:
        (node,) = (n for n in store.graph(app).nodes() if n.name.startswith("mapPartitions"))
    return node.exact, node.description, node.reason


def test_a_parser_is_exact(capture: Any, tmp_path: Path) -> None:
    app = saved(capture, tmp_path, lambda lines: lines.mapPartitions(parsed))
    assert judged(tmp_path, app).complete
    assert not judged(tmp_path, app).superset
    rows = [(text, witnesses) for text, witnesses in traced(tmp_path, tmp_path / "out")]
    assert len(rows) == sum(len(json.loads(line)["tags"]) for line in LINES[:8])
    for text, witnesses in rows:
        assert witnesses == (f"in.txt:{int(text.split()[1]) + 1}",)
    is_exact, description, _ = rule_of(tmp_path, app)
    assert is_exact
    assert "proved" in description


def test_what_is_declared_is_exact_and_says_so(capture: Any, tmp_path: Path) -> None:
    app = saved(capture, tmp_path, lambda lines: lines.mapPartitions(declared))
    assert [witnesses for _, witnesses in traced(tmp_path, tmp_path / "out")] == [
        (f"in.txt:{n}",) for n in range(1, 11)
    ]
    is_exact, description, _ = rule_of(tmp_path, app)
    assert is_exact
    assert "declared" in description


def test_a_running_total_is_a_superset_that_says_why(capture: Any, tmp_path: Path) -> None:
    app = saved(capture, tmp_path, lambda lines: lines.mapPartitions(running))
    is_exact, _, reason = rule_of(tmp_path, app)
    assert not is_exact
    assert "seen may hold what an earlier record left there" in reason
    answer = ask(tmp_path, Direction.BACKWARD, f"{tmp_path / 'out'}/part-00000:3")
    assert not answer.exact


def test_records_of_own_classes_make_supersets(capture: Any, tmp_path: Path) -> None:
    """Nobody knows what they keep: the proof is of plain records."""
    app = saved(
        capture,
        tmp_path,
        lambda lines: lines.map(lambda line: User(line, 1) if "7" in line else line).mapPartitions(
            of_users
        ),
    )
    rows = list(traced(tmp_path, tmp_path / "out"))
    plain = [n for n, line in enumerate(LINES, 1) if "7" not in line]
    for number, (_, witnesses) in enumerate(rows, 1):
        assert f"in.txt:{number}" in witnesses
    assert len(plain) < len(rows)
    assert judged(tmp_path, app).superset
    (last,) = (witnesses for n, (_, witnesses) in enumerate(rows, 1) if n == 8)
    assert len(last) > 1


def test_what_takes_no_mark_is_refused() -> None:
    with pytest.raises(TypeError, match="wrap it"):
        exact(len)
