"""Streams that read tables of Delta Lake and Iceberg, traced to the rows of the files that each batch read, by the real thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from lineage_emitter.dataframes.streams import OTHER_RUN
from tests.integration.test_table_chains import CONF
from tests.support.stream_rows import rows_of
from tests.support.versions import only_in
from tests.tables.ran import Ran

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("Apache Iceberg", "4.1")]

TABLES = ("delta", "iceberg")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    made = Ran(tmp_path_factory.mktemp("reads"))
    made.run("stream_reads_job.py", "", CONF)
    places = [place for name in TABLES for place in (*of(made, name), *of(made, f"windows-{name}"))]
    places += [place for place, _ in of_function(made)]
    forward: dict[str, tuple[str, str | None, str]] = {
        place: (place, None, "forward")
        for recipe in made.batch_recipes()
        if recipe.output.path is not None and "/of-" in recipe.output.path and not recipe.opaque()
        for source in recipe.sources
        for file in source.files
        for place in [f"{file.path.removeprefix('file:')}#0"]
    }
    backward: dict[str, tuple[str, str | None, str]] = {
        place: (place, None, "backward") for place in places
    }
    made.ask(backward | forward)
    return made


def of(ran: Ran, name: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """The rows of an output by where they stand, with the batch."""
    return {place: (number, row) for number, place, row in rows_of(ran.folder / name)}


def of_function(ran: Ran) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted((ran.folder / "function").glob("part-*")):
        for at, line in enumerate(path.read_text().splitlines()):
            yield f"{path}:{at + 1}", json.loads(line)


def sources_of(ran: Ran, place: str) -> list[tuple[str, dict[str, Any]]]:
    """The rows that a row goes back to, exactly, as they stand in the very files, with these."""
    answer = ran.answers[place]
    assert "error" not in answer, (place, answer)
    assert not answer["reasons"], answer
    found = []
    for source, text in answer["rows"]:
        path, _, row = source.rpartition("#")
        (there,) = pq.read_table(path, partitioning=None).slice(int(row), 1).to_pylist()
        assert there["id"] == json.loads(text)["id"]
        found.append((path, there))
    return found


@pytest.mark.parametrize("table", TABLES)
def test_rows_go_back_to_the_files_that_their_batch_read(ran: Ran, table: str) -> None:
    rows = of(ran, f"of-{table}")
    batches: dict[str, set[int]] = {}
    again = max(number for number, row in rows.values() if row["id"] == 8)
    for place, (number, row) in rows.items():
        if number == again:
            # The first run of the batch is of another run of the query, whose note says by which plan.
            continue
        ((path, there),) = sources_of(ran, place)
        assert (there["id"], there["part"]) == (row["id"], row["part"])
        batches.setdefault(path, set()).add(number)
    # No file is in two batches, and the row that came twice is of two files.
    assert all(len(numbers) == 1 for numbers in batches.values())
    ids = sorted(row["id"] for _, row in rows.values())
    assert ids == [1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 30, 31]
    # One file a batch at first; then all that came before and behind the compaction, which gave nothing.
    first = {number for number, row in rows.values() if row["part"] == 0}
    assert len(first) >= 3
    assert {row["part"] for number, row in rows.values() if number == max(first) + 1} == {1, 2}


@pytest.mark.parametrize("table", TABLES)
def test_rows_of_files_go_forward_to_what_their_batch_made_of_them(ran: Ran, table: str) -> None:
    for recipe in ran.batch_recipes():
        if recipe.output.path is None or not recipe.output.path.endswith(f"/of-{table}"):
            continue
        if recipe.opaque():
            assert recipe.opaque() == [f"Batch: {OTHER_RUN}"]
            continue
        for file in (file for source in recipe.sources for file in source.files):
            path = file.path.removeprefix("file:")
            (row,) = pq.read_table(path, partitioning=None).slice(0, 1).to_pylist()
            answer = ran.answers[f"{path}#0"]
            assert "error" not in answer, answer
            made = {place for place, _ in answer["rows"] if f"/of-{table}/" in place}
            expected = {
                place
                for place, (number, one) in of(ran, f"of-{table}").items()
                if recipe.batch is not None
                and number == recipe.batch.number
                and one["id"] == row["id"]
            }
            assert made == expected


@pytest.mark.parametrize("table", TABLES)
def test_groups_go_back_to_the_rows_of_all_batches(ran: Ran, table: str) -> None:
    rows = of(ran, f"windows-{table}")
    assert {row["ids"] for _, row in rows.values()} == {78, 12}
    for place, (_, row) in rows.items():
        found = [there["id"] for _, there in sources_of(ran, place)]
        assert sum(found) == row["ids"]


def test_rows_that_a_function_wrote_go_back_to_those_of_their_batch(ran: Ran) -> None:
    for place, row in of_function(ran):
        ((_, there),) = sources_of(ran, place)
        assert (there["id"], there["part"]) == (row["id"], row["part"])


def test_options_by_which_other_files_are_read_are_named(ran: Ran) -> None:
    assert "a stream of a Delta table with the option excludeRegex" in ran.unknown()
