import bz2
import gzip
import os
import zlib
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pytest

from lineage_query.rows.cut_texts import TEXT_BYTES_MAX, is_cut
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError, canonical, current_file_state

pytestmark = pytest.mark.unit

LINES = [f"line {n} " + "x" * (n % 50) for n in range(60_000)]
CONTENT = ("\n".join(LINES) + "\n").encode()


def u64(*values: int) -> np.ndarray:
    return np.array(values, np.uint64)


def packed(name: str) -> bytes:
    """The content in two streams, one behind the other."""
    half = len(CONTENT) // 2
    return b"".join(compressed(name, part) for part in (CONTENT[:half], CONTENT[half:]))


def compressed(name: str, content: bytes) -> bytes:
    match name.rpartition(".")[2]:
        case "gz":
            return gzip.compress(content)
        case "bz2":
            return bz2.compress(content)
        case "deflate":
            return zlib.compress(content)
        case "zst":
            return bytes(pa.compress(content, "zstd", asbytes=True))
        case _:
            return content


@pytest.mark.parametrize("name", ["a.gz", "a.bz2", "a.deflate", "a.zst"])
@pytest.mark.parametrize("missing", [1, 9, 2_000])
def test_a_compressed_file_that_was_cut_off_is_no_shorter_one(
    tmp_path: Path, name: str, missing: int
) -> None:
    path = tmp_path / name
    path.write_bytes(packed(name)[:-missing])
    with pytest.raises(RowsError, match=name):
        RowReader().rows(str(path), u64(60_000))


@pytest.mark.parametrize("name", ["a.txt", "a.gz", "a.bz2", "a.deflate", "a.zst"])
def test_rows_of_plain_and_compressed_files(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(packed(name))
    reader = RowReader(tmp_path / "index")
    wanted = [0, 1, 777, 778, 30_000, 59_999]
    assert reader.rows(str(path), u64(*wanted)) == [LINES[row] for row in wanted]
    assert reader.rows(str(path), u64(59_999, 60_000)) == [LINES[-1], None]
    assert reader.lines(str(path), u64(3, 9), u64(4, 9)) == ["\n".join(LINES[2:4]), LINES[8]]
    assert reader.rows_in_split(str(path), 0, path.stat().st_size) == 60_000


def test_a_row_longer_than_any_window(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"a\n" + b"b" * 9_000_000 + b"\nc")
    texts = RowReader().rows(str(path), u64(0, 1, 2))
    shown = "b" * TEXT_BYTES_MAX + " [cut: 65,536 of about 8,994,816 bytes]"
    assert texts == ["a", shown, "c"]
    assert [is_cut(text) for text in texts] == [False, True, False]


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 200_000, 2_000_000])
@pytest.mark.parametrize("name", ["long.txt", "long.txt.gz", "long.txt.deflate"])
def test_long_rows_are_cut_and_say_so(length: int, name: str, tmp_path: Path) -> None:
    rows = ["é" * (length // 2) + "b" * (length % 2), "short", "c" * length, ""]
    held = ("\ufeff" + "\r\n".join(rows)).encode()
    path = tmp_path / name
    match name.rpartition(".")[2]:
        case "gz":
            path.write_bytes(gzip.compress(held))
        case "deflate":
            path.write_bytes(zlib.compress(held))
        case _:
            path.write_bytes(held)
    texts = RowReader().rows(str(path), u64(0, 1, 2, 3))
    assert texts[1] == "short"
    for text, row in zip((texts[0], texts[2]), (rows[0], rows[2]), strict=True):
        assert text is not None
        assert is_cut(text) == (length > TEXT_BYTES_MAX)
        assert row.startswith(text.partition(" [cut: ")[0])
        assert len(text.partition(" [cut: ")[0].encode()) >= min(length, TEXT_BYTES_MAX - 3)


def test_the_index_is_kept_and_dropped_when_the_file_changes(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.txt", tmp_path / "index"
    path.write_bytes(CONTENT)
    RowReader(folder).rows(str(path), u64(5))
    (saved,) = folder.iterdir()
    written = saved.stat().st_mtime_ns
    reader = RowReader(folder)
    assert reader.rows(str(path), u64(5)) == [LINES[5]]
    assert saved.stat().st_mtime_ns == written
    path.write_bytes(b"new\n" + CONTENT)
    assert reader.rows(str(path), u64(0, 6)) == ["new", LINES[5]]
    saved.write_bytes(b"PK spoiled")
    assert RowReader(folder).rows(str(path), u64(0)) == ["new"]


def test_a_folder_that_is_not_writable_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(CONTENT)
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert RowReader(blocked / "index").rows(str(path), u64(5)) == [LINES[5]]


def test_through_fsspec() -> None:
    with fsspec.open("memory://bucket/a.txt", "wb") as file:
        file.write(b"x\ny\n")
    assert RowReader().rows("memory://bucket/a.txt", u64(1)) == ["y"]


def test_what_cannot_be_read_says_so(tmp_path: Path) -> None:
    reader = RowReader()
    with pytest.raises(RowsError, match="no such file"):
        reader.rows(str(tmp_path / "gone"), u64(0))
    snappy = tmp_path / "a.snappy"
    snappy.write_bytes(b"x")
    with pytest.raises(RowsError, match="can't be read here"):
        reader.rows(str(snappy), u64(0))
    broken = tmp_path / "a.gz"
    broken.write_bytes(gzip.compress(CONTENT)[:-400])
    with pytest.raises(RowsError, match=r"a\.gz"):
        reader.rows(str(broken), u64(0))
    (tmp_path / "b.bz2").write_bytes(bz2.compress(b"x\n"))
    with pytest.raises(RowsError, match="split of a compressed"):
        reader.rows_in_split(str(tmp_path / "b.bz2"), 5, 10)
    with pytest.raises(RowsError, match="nosuchscheme"):
        reader.rows("nosuchscheme://a/b", u64(0))


def test_paths_have_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "real" / "a.txt"
    file.parent.mkdir()
    file.write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    real = os.path.realpath(file)
    for path in (
        "real/a.txt",
        "./real//a.txt",
        "link/a.txt",
        str(file),
        f"file:{file}",
        f"file://{file}",
        "real/../link/a.txt",
    ):
        assert canonical(path) == real
    assert canonical("a.txt", str(file.parent)) == real
    assert canonical("hdfs://host:8020//a///b") == "hdfs://host:8020/a/b"
    assert canonical("s3a://bucket/key") == "s3a://bucket/key"
    state = current_file_state(real)
    assert state is not None
    assert state.is_still(1, file.stat().st_mtime)
    assert not state.is_still(1, file.stat().st_mtime - 1)
    assert current_file_state(str(tmp_path / "gone")) is None
