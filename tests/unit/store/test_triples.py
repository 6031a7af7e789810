"""Provenance triples in a lake: what is refused, kept, replaced and removed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tracemalloc
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.tracing.budget import TooMuchError
from lineage_store.errors import DamagedError, StoreError, StoreUnavailableError
from lineage_store.triples import numbering, tracing, updating
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.following import recursion
from lineage_store.triples.indexing import Graph, whole_index
from lineage_store.triples.numbering import (
    codes_of,
    distinct_numbers,
    distinct_rows,
    encoded_texts,
    with_new,
)
from lineage_store.triples.partitioning import components, connected_sets, without_tiny
from lineage_store.triples.tracing import Method, trace
from lineage_store.triples.updating import update_index
from tests.oracle.budget import examples
from tests.support.triple_files import chain, written

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails here, and to wait for the disk takes most of the time."""
    monkeypatch.setattr("lineage_store.lake.file_writing.sync_files", lambda *_: None)


@pytest.fixture
def store(tmp_path: Path) -> TripleStore:
    return TripleStore(f"lake:{tmp_path}/lake", create=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"src": [1], "dst": [2]}, "no column 'op'"),
        ({"src": [1, None], "dst": [2, 2], "op": ["a", "a"]}, "row 2 has no src"),
        ({"src": ["x"], "dst": [""], "op": ["a"]}, "row 1 has no dst"),
        ({"src": [1], "dst": [2], "op": pa.array([None], pa.string())}, "row 1 has no op"),
        ({"src": [1.5], "dst": [2.5], "op": ["a"]}, "and not double"),
        ({"src": [1], "dst": ["x"], "op": ["a"]}, "of different types"),
        ({"src": pa.array([1 << 63], pa.uint64()), "dst": pa.array([1], pa.uint64()), "op": ["a"]}, "can't read"),
        ({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64()), "op": pa.array([], pa.string())}, "no rows"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_and_nothing_is_kept(
    store: TripleStore, tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    good = chain(tmp_path / "good.parquet")
    with pytest.raises(StoreError, match=message):
        store.add("set", [good, written(tmp_path / "bad.parquet", **columns)])
    assert store.data_sets() == []
    assert not list(Path(store.table.address.location).rglob("*waiting*"))


def not_utf8() -> Any:
    """A text that Parquet can hold, and nobody read."""
    raw: Any = pa.array([b"a\xff"], pa.binary())
    return pa.StringArray.from_buffers(1, *raw.buffers()[1:])


@pytest.mark.parametrize("name", ["src", "op"])
def test_texts_that_are_not_utf_8_are_refused(
    store: TripleStore, tmp_path: Path, name: str
) -> None:
    columns = {"src": pa.array(["a"]), "dst": pa.array(["b"]), "op": pa.array(["x"])}
    with pytest.raises(StoreError, match="Invalid UTF8"):
        store.add("set", [written(tmp_path / "bad.parquet", **{**columns, name: not_utf8()})])
    assert store.data_sets() == []


def test_columns_of_one_name_are_refused(store: TripleStore, tmp_path: Path) -> None:
    columns = [pa.array(["a"]), pa.array(["c"]), pa.array(["b"]), pa.array(["x"])]
    names = ["src", "src", "dst", "op"]
    pq.write_table(pa.Table.from_arrays(columns, names), tmp_path / "two.parquet")
    (tmp_path / "two.csv").write_text("src,src,dst,op\na,c,b,x\n")
    (tmp_path / "quoted.tsv").write_text('\ufeff\n\ndst\tsrc\t"dst"\top\na\tb\tc\tx\n')
    for path, column in (("two.parquet", "src"), ("two.csv", "src"), ("quoted.tsv", "dst")):
        with pytest.raises(StoreError, match=f"{path} has 2 columns '{column}'"):
            store.add("set", [tmp_path / path])
    assert store.data_sets() == []


def test_line_ends_stand_in_values_wherever_a_block_ends(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.triples.sources.BLOCK_BYTES", 64)
    path = tmp_path / "lines.csv"
    # What stands behind a line end looks like a row.
    rows = [(f"a{at}\nb,c,d", f"to{at}", "x") for at in range(20)]
    path.write_text("src,dst,op\n" + "".join(f'"{src}",{dst},{op}\n' for src, dst, op in rows))
    store.add("set", [path])
    store.index("set")
    assert [trace(store, "set", dst, is_back=True).triples for _, dst, _ in rows] == [
        [row] for row in rows
    ]


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rows_end_as_spark_and_pandas_have_it(
    store: TripleStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    block_bytes: int,
) -> None:
    monkeypatch.setattr("lineage_store.triples.sources.BLOCK_BYTES", block_bytes)
    path = tmp_path / "lines.csv"
    lines = ["src,dst,op", *(f"a{at},to{at},x" for at in range(20)), '"b\rc",d,y']
    path.write_bytes(end.join([*lines, ""]).encode())
    (imported,) = store.add("set", [path])
    store.index("set")
    assert imported.rows == 21
    assert trace(store, "set", "to7", is_back=True).triples == [("a7", "to7", "x")]
    assert trace(store, "set", "d", is_back=True).triples == [("b\rc", "d", "y")]


def test_names_with_half_a_character_are_refused(store: TripleStore, tmp_path: Path) -> None:
    """As of arguments that are not UTF-8."""
    path = chain(tmp_path / "a.parquet")
    for name, file in (
        ("\udcff", path),
        ("set", Path(shutil.copy(path, tmp_path / "\udcff.parquet"))),
    ):
        with pytest.raises(StoreError, match="half a character"):
            store.add(name, [file])
    assert store.data_sets() == []
    store.add("set", [path])
    store.index("set")
    with pytest.raises(StoreError, match="half a character"):
        trace(store, "set", "\udcff", is_back=True)


def test_what_is_no_parquet_is_refused(store: TripleStore, tmp_path: Path) -> None:
    (tmp_path / "no.txt").write_text("nothing")
    with pytest.raises(StoreError, match=r"no.txt as Parquet, .* in none of .csv, .tsv, .json, "):
        store.add("set", [tmp_path / "no.txt"])
    with pytest.raises(StoreError, match="can't read"):
        store.add("set", [tmp_path / "missing.parquet"])


def test_the_same_bytes_are_imported_once(store: TripleStore, tmp_path: Path) -> None:
    path = chain(tmp_path / "chain.parquet")
    assert [one.is_new for one in store.add("set", [path, path])] == [True, False]
    store.index("set")
    version = store.table.snapshot(newest=True).version
    assert [one.is_new for one in store.add("set", [path])] == [False]
    assert store.index("set") is None
    assert store.table.snapshot(newest=True).version == version


def test_what_waits_is_never_left_out_of_an_answer(store: TripleStore, tmp_path: Path) -> None:
    store.add("set", [chain(tmp_path / "chain.parquet")])
    with pytest.raises(StoreError, match="wait; run `lineage triples index set`"):
        trace(store, "set", "2", is_back=True)
    store.index("set")
    store.add("set", [written(tmp_path / "more.parquet", src=[9], dst=[1], op=["z"])])
    with pytest.raises(StoreError, match="wait"):
        trace(store, "set", "2", is_back=True)
    store.index("set")
    assert trace(store, "set", "2", is_back=True).items == [1, 9]


@pytest.mark.parametrize("is_older", [False, True])
def test_a_footer_that_changed_is_never_parsed(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_older: bool
) -> None:
    if is_older:
        # Names of versions before have no digest: they are read all the same.
        monkeypatch.setattr(
            "lineage_store.triples.files._path_of", lambda named, _: f"{named}.parquet"
        )
    store.add("set", [chain(tmp_path / "chain.parquet")])
    store.index("set")
    assert trace(store, "set", "4", is_back=True).items == [1, 2, 3]
    for path in (tmp_path / "lake.triples").rglob("app=*/*.parquet"):
        data = bytearray(path.read_bytes())
        # In the name of the program that wrote it.
        data[-16] ^= 1
        path.write_bytes(data)
    # What it has read before is in memory.
    assert trace(store, "set", "4", is_back=True).items == [1, 2, 3]
    fresh = TripleStore(f"lake:{tmp_path}/lake")
    if is_older:
        assert trace(fresh, "set", "4", is_back=True).items == [1, 2, 3]
    else:
        with pytest.raises(DamagedError, match="footer has other bytes"):
            trace(fresh, "set", "4", is_back=True)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _changed(path: Path) -> None:
    """A bit of the last page of its first column."""
    column = pq.read_metadata(path).row_group(0).column(0)
    first = column.dictionary_page_offset or column.data_page_offset
    data = bytearray(path.read_bytes())
    data[first + column.total_compressed_size - 1] ^= 4
    path.write_bytes(data)


OF_TRIPLES = {"forward", "items", "node_of", "nodes", "ops"}
"""Parts that all others are made of again."""
NOT_BACKWARD = {"children", "counts", "forward", "node_of", "nodes"}


@pytest.mark.parametrize("damage", [_cut, _changed, Path.unlink])
def test_a_damaged_file_is_named_with_the_way_out(
    store: TripleStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
) -> None:
    """Whichever it is: an answer is right, or refused; and what is said to help does."""
    # What is added is a segment of its own.
    monkeypatch.setattr(updating, "TAKEN_IN", 0)
    tree = written(
        tmp_path / "a.parquet", src=[1, 2, 2, 7], dst=[2, 3, 4, 8], op=["a", "b", "a", "c"]
    )
    nodes = written(tmp_path / "a.nodes", item=[1, 2, 3, 4], node=["n", "m", "o", "o"])
    more = written(tmp_path / "b.parquet", src=[4, 7], dst=[5, 3], op=["a", "a"])
    known = written(tmp_path / "b.nodes", item=[7], node=["n"])
    for sources in ([tree], [nodes]), ([more], [known]):
        store.add("set", *sources)
        store.index("set", set_items=1)
    expected = trace(store, "set", "3", is_back=True).triples
    assert len(expected) == 3
    # Of the first segment, where both have the part.
    files = sorted(store.files("set"), key=lambda file: file.digest, reverse=True)
    parts = {str(file.part): file.file.path for file in files}
    assert len(parts) == 14
    for part, path in parts.items():
        if part == "source":
            continue
        place = tmp_path / f"{part}.triples"
        shutil.copytree(tmp_path / "lake.triples", place)
        damage(place / path)
        copy = TripleStore(f"lake:{tmp_path}/{part}")
        refused = []
        for method in Method:
            try:
                assert trace(copy, "set", "3", is_back=True, method=method).triples == expected
            except DamagedError as error:
                refused.append(str(error))
        assert refused or part in NOT_BACKWARD
        for said in refused:
            assert f"{part}." in said
            assert "`lineage triples index set --whole`" in said
        said = ""
        try:
            copy.index("set", is_whole=True)
        except DamagedError as error:
            said = str(error)
        # A column that nothing reads may be damaged.
        assert bool(said) is (part in OF_TRIPLES) or damage is _changed
        if said:
            assert part in OF_TRIPLES
            assert said.endswith(
                "; put the file back, of a copy, or remove the data set and import it again: `lineage triples rm set`"
            )
            shutil.copy(tmp_path / "lake.triples" / path, place / path)
            copy = TripleStore(f"lake:{tmp_path}/{part}")
        assert trace(copy, "set", "3", is_back=True).triples == expected


def test_a_data_set_whose_sources_are_lost_is_listed_and_removed(
    store: TripleStore, tmp_path: Path
) -> None:
    for name in ("other", "set"):
        store.add(name, [chain(tmp_path / "chain.parquet")])
        store.index(name)
    (lost,) = (file.file.path for file in store.files("set") if file.part == "source")
    (tmp_path / "lake.triples" / lost).unlink()
    listed = {one.name: one for one in store.data_sets()}
    assert listed["other"].damaged == ""
    folder = lost.partition("/")[0]
    assert (listed[folder].rows, listed[folder].sources) == (0, 1)
    assert listed[folder].damaged == f"{lost} of the lake is missing"
    # Answers need nothing of it.
    assert trace(store, "set", "4", is_back=True).items == [1, 2, 3]
    store.remove(folder)
    assert [one.name for one in store.data_sets()] == ["other"]


def test_integers_and_texts_do_not_mix(store: TripleStore, tmp_path: Path) -> None:
    store.add("set", [chain(tmp_path / "chain.parquet")])
    texts = written(tmp_path / "texts.parquet", src=["1"], dst=["2"], op=["a"])
    with pytest.raises(StoreError, match="not both"):
        store.add("set", [texts])
    with pytest.raises(StoreError, match="not both"):
        store.add("other", [chain(tmp_path / "again.parquet"), texts])


def test_items_of_csv_are_texts(store: TripleStore, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("op,dst,src\njoin,007,7\n")
    store.add("set", [tmp_path / "a.csv"])
    store.index("set")
    assert trace(store, "set", "007", is_back=True).triples == [("7", "007", "join")]
    assert trace(store, "set", "7", is_back=True).triples == []


@pytest.mark.parametrize("item", ["5", "02", " 2", "2.0", "x", "", str(1 << 64), "1_0"])
def test_unknown_items_are_refused(store: TripleStore, tmp_path: Path, item: str) -> None:
    store.add("set", [chain(tmp_path / "chain.parquet")])
    store.index("set")
    with pytest.raises(StoreError, match="has no item"):
        trace(store, "set", item, is_back=True)


def test_texts_with_one_key_are_told_apart(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.triples.numbering.text_key", len)
    store.add(
        "set", [written(tmp_path / "a.parquet", src=["a", "b"], dst=["b", "c"], op=["x", "y"])]
    )
    store.index("set")
    assert trace(store, "set", "c", is_back=True).items == ["a", "b"]
    assert trace(store, "set", "b", is_back=True).items == ["a"]
    with pytest.raises(StoreError, match="has no item"):
        trace(store, "set", "d", is_back=True)


def test_removed_sets_leave_no_files(store: TripleStore, tmp_path: Path) -> None:
    store.add("kept", [chain(tmp_path / "chain.parquet")])
    store.add("set", [tmp_path / "chain.parquet"])
    store.index("set")
    store.remove("set")
    assert [one.name for one in store.data_sets()] == ["kept"]
    assert len(list(Path(store.table.address.location).rglob("*.parquet"))) == len(
        store.files("kept")
    )
    with pytest.raises(StoreError, match="there are no triples"):
        trace(store, "set", "1", is_back=True)


def test_a_set_that_is_called_like_the_folder_of_another_is_removed_alone(
    store: TripleStore, tmp_path: Path
) -> None:
    path = chain(tmp_path / "chain.parquet")
    store.add("set", [path])
    (file, *_) = store.files("set")
    folder = file.file.path.partition("/")[0]
    store.add(folder, [path])
    store.remove(folder)
    assert [one.name for one in store.data_sets()] == ["set"]


def test_an_index_that_somebody_else_made_meanwhile_is_not_replaced(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("set", [chain(tmp_path / "chain.parquet")])
    other = TripleStore(str(store.table.address).removesuffix(".triples"))
    monkeypatch.setattr("lineage_store.triples.data_sets.update_index", IndexedByAnother(other))
    with pytest.raises(StoreError, match="somebody else changed"):
        store.index("set")
    monkeypatch.undo()
    assert trace(store, "set", "4", is_back=True).items == [1, 2, 3]
    assert len(list(Path(store.table.address.location).rglob("*.parquet"))) == len(
        store.files("set")
    )


class IndexedByAnother:
    """Lets another process index the data set while this one does."""

    def __init__(self, other: TripleStore) -> None:
        self._update = update_index
        self._other = other
        self._is_first = True

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if self._is_first:
            self._is_first = False
            self._other.index("set")
        return self._update(*arguments, **options)


def test_a_commit_whose_outcome_is_unknown_deletes_nothing(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = store.table.commit

    def lose_the_answer(*arguments: Any) -> None:
        commit(*arguments)
        raise StoreUnavailableError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(store.table, "commit", lose_the_answer)
        with pytest.raises(StoreUnavailableError):
            store.add("set", [chain(tmp_path / "chain.parquet")])
        with pytest.raises(StoreUnavailableError):
            store.index("set")
    assert trace(store, "set", "4", is_back=True).items == [1, 2, 3]


def test_a_file_that_changes_while_it_is_read_is_refused(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = iter(["before", "after"])
    monkeypatch.setattr("lineage_store.triples.data_sets.digest_of", lambda _: next(digests))
    with pytest.raises(StoreError, match="changed while it was read"):
        store.add("set", [chain(tmp_path / "chain.parquet")])
    assert store.data_sets() == []


def test_answers_are_bounded(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("set", [chain(tmp_path / "chain.parquet")])
    store.index("set")
    monkeypatch.setattr(tracing, "MOST_ANSWERED", 2)
    for method in Method:
        assert len(trace(store, "set", "3", is_back=True, method=method).triples) == 2
        with pytest.raises(TooMuchError):
            trace(store, "set", "4", is_back=True, method=method)


def test_what_is_too_much_is_not_read(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step may find any number of triples: the bound ends it while it reads."""
    monkeypatch.setattr("lineage_store.triples.files.GROUP_ROWS", 10)
    many = list(range(2, 1_002))
    hub = written(tmp_path / "hub.parquet", src=[1] * 1_000, dst=many, op=["a"] * 1_000)
    store.add("set", [hub])
    store.index("set")
    with closing(tracing.Reading(store, "set")) as reading:
        start = reading.numbers_of(pa.array([1]))
        with pytest.raises(TooMuchError, match="takes 30 triples, more than 25"):
            recursion(reading.part(Part.FORWARD), start, "src", "dst", 25)
        assert reading.reader.counts.triples == 30


def test_sets_are_connected_and_small() -> None:
    draw = np.random.default_rng(5)
    for _ in range(50):
        count, kinds, most = 60, int(draw.integers(1, 8)), int(draw.integers(1, 30))
        src = draw.integers(0, count, count)
        dst = draw.integers(0, count, count)
        of_item = components(count, src, dst)
        largest = np.bincount(of_item).argmax()
        members = np.flatnonzero(of_item == largest)
        local = np.full(count, -1)
        local[members] = np.arange(len(members))
        inner = of_item[src] == largest
        src, dst = local[src[inner]], local[dst[inner]]
        nodes = draw.integers(0, kinds, len(members))
        sets = connected_sets(nodes, src, dst, most)
        by_set = defaultdict(list)
        for item, name in enumerate(sets.tolist()):
            by_set[name].append(item)
        assert sorted(by_set) == list(range(len(by_set)))
        for name, items in by_set.items():
            place = {item: at for at, item in enumerate(items)}
            kept = [
                (place[a], place[b])
                for a, b in zip(src.tolist(), dst.tolist(), strict=True)
                if sets[a] == sets[b] == name
            ]
            ends = np.array(kept, np.int64).reshape(-1, 2)
            assert len(items) == 1 or not components(len(items), ends[:, 0], ends[:, 1]).any()
            assert len(items) <= most or len(set(nodes[items].tolist())) == 1


def test_sets_with_triples_between_them_have_numbers_near_each_other() -> None:
    draw = np.random.default_rng(6)
    count, most = 4_000, 40
    # A chain of items that are named at random, through as many nodes as there are sets.
    item = draw.permutation(count)
    nodes = np.empty(count, np.int64)
    nodes[item] = np.arange(count) // most
    sets = connected_sets(nodes, item[:-1], item[1:], most)
    assert len(np.unique(sets)) >= count // most
    assert np.abs(np.diff(sets[item])).max() == 1


def test_a_component_of_sets_of_sets_is_split_as_often_as_needed() -> None:
    draw = np.random.default_rng(8)
    count, most = 3_000, 10
    # A tree, whose nodes are drawn: a cut leaves very many small parts, and some large ones.
    src = draw.integers(0, np.arange(1, count))
    nodes = draw.integers(0, 6, count)
    sets = connected_sets(nodes, src, np.arange(1, count), most)
    sizes = np.bincount(sets)
    assert sizes.min() > 0
    for name in np.flatnonzero(sizes > most).tolist():
        assert len(np.unique(nodes[sets == name])) == 1
    inner = np.flatnonzero(sets[src] == sets[1:])
    connected = components(count, src[inner], inner + 1)
    assert len(np.unique(connected)) == len(sizes)
    assert len(np.unique(np.stack([connected, sets]), axis=1).T) == len(sizes)


def test_numbers_of_many_columns_are_each_there_once() -> None:
    draw = np.random.default_rng(9)
    columns = [draw.integers(-50, 50, int(size)) for size in draw.integers(0, 40, 30)]
    values = distinct_numbers(iter(columns))
    assert values.tolist() == sorted({number for column in columns for number in column.tolist()})
    for column in columns:
        assert np.array_equal(values[codes_of(values, column)], column)
    assert not len(distinct_numbers([]))


def test_numbers_that_are_found_again_are_not_new() -> None:
    draw = np.random.default_rng(5)
    for size in (0, 1, 20):
        seen = np.unique(draw.integers(0, 30, size))
        for count in (0, 1, 40):
            found = draw.integers(0, 40, count)
            all_of_them, new = with_new(seen, found)
            assert all_of_them.tolist() == sorted({*seen.tolist(), *found.tolist()})
            assert new.tolist() == sorted({*found.tolist()} - {*seen.tolist()})


def test_tiny_sets_join_the_only_one_beside_them() -> None:
    """Two sets of 40, ten items derived from the first of them alone, ten from both, and ten that both were derived from or one of them."""
    sets = np.r_[np.repeat([0, 1], 40), np.arange(2, 32)]
    only, both, before = np.arange(80, 90), np.arange(90, 100), np.arange(100, 110)
    src = np.r_[only * 0, both * 0, both * 0 + 40, before, before[5:]]
    dst = np.r_[only, both, both, before * 0 + 40, before[5:] * 0]
    joined = without_tiny(sets, src, dst, 54)
    assert joined[only].tolist() == [0] * 10
    assert joined[both].tolist() == sets[both].tolist()
    assert joined[before].tolist() == [1] * 5 + sets[before[5:]].tolist()
    assert np.bincount(without_tiny(sets, src, dst, 43))[:2].tolist() == [43, 43]


def test_chunks_of_texts_have_the_codes_of_all_of_them() -> None:
    columns = [["b", "a", "b"], [], ["é", "a"], ["c"]]
    chunks = [
        [pa.array(column[:2], pa.string()), pa.array(column[2:], pa.string())] for column in columns
    ]
    encoded = encoded_texts(chunks)
    assert encoded.values.to_pylist() == ["a", "b", "c", "é"]
    assert [codes.tolist() for codes in encoded.codes] == [[1, 0, 1], [], [3, 0], [2]]
    assert [codes.tolist() for codes in encoded_texts([[], []]).codes] == [[], []]


def test_an_index_takes_few_bytes_of_memory_a_triple(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbering, "UNPACKED_ROWS", 1 << 14)
    draw = np.random.default_rng(10)
    count = 300_000
    items = np.arange(count * 3 // 4)
    src, dst = (draw.integers(0, len(items), count).astype(np.int32) for _ in range(2))
    is_near = np.arange(count) % 10 > 0
    # Components of 30 items, most of them.
    dst[is_near] = np.minimum(src[is_near] // 30 * 30 + dst[is_near] % 30, len(items) - 1)
    fill = np.zeros(count, np.int32)
    held = src.nbytes + dst.nbytes + fill.nbytes + items.nbytes
    graph = Graph(
        items, pa.array(["a"]), pa.array([], pa.string()), src, dst, fill, fill[: len(items)] - 1
    )
    tracemalloc.start()
    for _ in whole_index(graph, 1_000):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (peak + held) / count < 70


some_ends = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=40)


@settings(max_examples=examples(50), deadline=None)
@given(some_ends, st.integers(1, 300), st.permutations(range(31)))
def test_components_are_those_of_a_search(
    ends: list[tuple[int, int]], times: int, names: list[int]
) -> None:
    """Items that no triple has are components of their own; equal triples change nothing."""
    # A chain and a star beside them, whose items are named at random.
    ends = [*ends, *((names[at], names[at + 1]) for at in range(6))]
    ends += [(names[at], names[30]) for at in range(20, 24)]
    beside = {item: {item} for item in range(32)}
    for src, dst in ends:
        joined = beside[src] | beside[dst]
        beside |= dict.fromkeys(joined, joined)
    smallest = [min(beside[item]) for item in range(32)]
    expected = [sorted(set(smallest)).index(item) for item in smallest]
    src, dst = np.array(ends * times, np.int64).T
    assert components(32, src, dst).tolist() == expected
    assert components(32, src.astype(np.int32), dst.astype(np.int32)).tolist() == expected


def test_long_chains_and_deep_trees_take_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(12)
    count = 1 << 14
    rounds: list[int] = []
    minimum = np.minimum

    class Counted:
        """`numpy.minimum`, whose roots are taken once a round."""

        __call__ = staticmethod(minimum)

        @staticmethod
        def at(*arguments: Any) -> None:
            rounds.append(1)
            minimum.at(*arguments)

    monkeypatch.setattr(np, "minimum", Counted())
    chain_of, centre = draw.permutation(count), np.full(count - 1, count - 1)
    for src, dst in (
        (np.arange(count - 1), np.arange(1, count)),
        (chain_of[:-1], chain_of[1:]),
        (np.arange(count - 1), centre),
        (draw.integers(0, np.arange(1, count)), np.arange(1, count)),
    ):
        rounds.clear()
        assert not components(count, src, dst).any()
        assert 0 < len(rounds) <= 28
    assert components(0, src[:0], dst[:0]).tolist() == []


def test_rows_too_wide_to_be_packed_are_the_same() -> None:
    draw = np.random.default_rng(7)
    columns = [draw.integers(0, 3, 100) for _ in range(3)]
    expected = sorted(set(zip(*(column.tolist() for column in columns), strict=True)))
    rows = distinct_rows(*columns)
    assert list(zip(*(column.tolist() for column in rows), strict=True)) == expected
    wide = 1 << 40
    rows = distinct_rows(*(column * wide for column in columns))
    found = [
        tuple(value // wide for value in row)
        for row in zip(*(column.tolist() for column in rows), strict=True)
    ]
    assert found == expected


def test_a_trace_and_what_is_added_do_without_pandas_and_scipy(tmp_path: Path) -> None:
    """They take longer to import than a trace takes, or the index of what is added."""
    file, more, url = tmp_path / "steps.csv", tmp_path / "more.csv", f"lake:{tmp_path / 'lake'}"
    file.write_text("src,dst,op\n" + "".join(f"{at},{at + 1},op\n" for at in range(30)))
    more.write_text("src,dst,op\n30,b,op\n")
    store = TripleStore(url, create=True)
    store.add("steps", [file])
    store.index("steps")
    program = (
        "import sys; from pathlib import Path; from lineage_store.triples.data_sets import TripleStore; "
        "from lineage_store.triples.tracing import trace; "
        f"store = TripleStore({url!r}); store.add('steps', [Path({str(more)!r})]); store.index('steps'); "
        "print(len(trace(store, 'steps', 'b', is_back=True).items), *{'pandas', 'scipy'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert done.stdout.split() == [b"31"]
    assert {file.segment for file in store.files("steps") if file.part == "back"} == {0, 1}
