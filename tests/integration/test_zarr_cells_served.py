"""Values of arrays of Zarr over HTTP: of the very files of their folders, and of no others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import zarr

from lineage_arrays import Recording
from lineage_arrays.saved import store_recording
from lineage_query_api import array_trees
from tests.integration.test_array_cells_served import Served
from tests.support.api_server import readers, serving

pytestmark = pytest.mark.integration

codecs: Any = import_module("zarr.codecs")
numcodecs: Any = import_module("numcodecs")
FLUX = np.random.default_rng(8).normal(size=(3, 10, 8))
KINDS: dict[str, dict[str, Any]] = {
    "flux": {},
    "blosc": {"compressors": codecs.BloscCodec()},
    "sharded": {"shards": (3, 10, 8)},
    "old": {"zarr_format": 2, "compressors": numcodecs.Zlib()},
    "old-f": {"zarr_format": 2, "order": "F", "compressors": numcodecs.LZ4()},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("zarr")
    url = f"sqlite:///{folder}/lineage.db"
    before = os.getcwd()
    (folder / "seen").mkdir()
    os.chdir(folder / "seen")
    try:
        recording = Recording()
        for name, how in KINDS.items():
            array = zarr.create_array(
                f"cube.zarr/{name}", shape=FLUX.shape, chunks=(1, 5, 4), dtype="f8", **how
            )
            array[...] = FLUX
            recording.output(f"total of {name}", recording.load(f"cube.zarr/{name}").sum(axis=0))
        zarr.create_array("../hidden.zarr", data=FLUX)
        recording.output("hidden", recording.load("../hidden.zarr")[0])
        app = store_recording(recording, "adding", url)
    finally:
        os.chdir(before)
    tokens, file = readers(folder)
    with (
        serving(
            url,
            api_roots=str(folder / "seen"),
            api_tokens=file,
            api_open=False,
            api_rate="1000/second",
        ) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield Served(client, folder / "seen", app, recording, {}, tokens)


@pytest.mark.parametrize("name", KINDS)
def test_arrays_in_folders_have_values_and_pictures(served: Served, name: str) -> None:
    key = served.id_of(f"cube.zarr/{name}", source=True)
    (listed,) = [one for one in served.get()["items"] if one["id"] == key]
    assert listed["file"]["standing"] == "unknown"  # of a folder it takes a look at each file
    found = served.get(f"/{key}/values", ranges="3-5 117", limit=3)
    assert found["count"] == 4
    assert [one["text"] for one in found["values"]] == [str(FLUX.flat[at]) for at in (3, 4, 5)]
    picture = served.get(f"/{key}/picture", plane="1,:,2:6", side=64)
    assert picture["size"] == [10, 4]
    assert picture["low"] == pytest.approx(FLUX[1, :, 2:6].min())
    assert "no position" in served.get(f"/{key}/values", 422, ranges="240")["detail"]
    trace = served.trace(direction="backward", cells=f"total of {name}[2,3]")
    (cells,) = [one for one in trace["arrays"] if one["count"]]
    assert (cells["array"]["name"], cells["ranges"]) == (f"cube.zarr/{name}", "19 99 179")
    for path, more in (("picture", {}), ("values", {"ranges": "3"})):
        assert served.get(f"/{key}/{path}", by="looks", **more, status=403)


def with_another_chunk(array: Path) -> None:
    chunk = array / "c/0/1/1"
    status, content = chunk.stat(), bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(content)
    os.utime(chunk, ns=(status.st_atime_ns, status.st_mtime_ns))


def with_a_file_more(array: Path) -> None:
    (array / "more").write_text("x")


def without_a_chunk(array: Path) -> None:
    (array / "c/0/1/1").unlink()


def with_a_chunk_elsewhere(array: Path) -> None:
    """The bytes are the same, and lie outside of what may be read."""
    chunk, other = array / "c/0/1/1", array.parent.parent.parent / "outside"
    shutil.move(chunk, other)
    chunk.symlink_to(other)


def with_chunks_elsewhere(array: Path) -> None:
    other = array.parent.parent.parent / "outside"
    shutil.move(array / "c/0", other)
    (array / "c/0").symlink_to(other)


def with_a_pipe(array: Path) -> None:
    os.mkfifo(array / "c/0/1/9")


def in_another_place(array: Path) -> None:
    other = array.parent.parent.parent / "outside"
    shutil.move(array, other)
    array.symlink_to(other)


def gone(array: Path) -> None:
    shutil.rmtree(array)


def as_a_file(array: Path) -> None:
    shutil.rmtree(array)
    array.write_bytes(b"x")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_another_chunk, "has changed"),
        (with_a_file_more, "has changed"),
        (without_a_chunk, "has changed"),
        (with_a_chunk_elsewhere, "is a link"),
        (with_chunks_elsewhere, "is a link"),
        (with_a_pipe, "no file"),
        (in_another_place, "link|not read by this server"),
        (gone, "is gone"),
        (as_a_file, "has changed"),
    ],
)
def test_other_files_show_nothing(
    served: Served, change: Callable[[Path], None], said: str
) -> None:
    array = served.folder / "cube.zarr/flux"
    kept, outside = served.folder / "kept", served.folder.parent / "outside"
    shutil.copytree(array, kept)
    key = served.id_of("cube.zarr/flux", source=True)
    try:
        change(array)
        for path, more in (("picture", {}), ("values", {"ranges": "3"})):
            answer = served.client.get(
                f"/v1/applications/{served.app}/arrays/{key}/{path}",
                params=more, headers={"Authorization": f"Bearer {served.tokens['reads']}"},
            )  # fmt: skip
            assert answer.status_code == 422, answer.text
            assert any(part in answer.json()["detail"] for part in said.split("|")), answer.text
    finally:
        for place in (array, outside):
            if place.is_symlink() or place.is_file():
                place.unlink()
            elif place.exists():
                shutil.rmtree(place)
        shutil.move(kept, array)
    assert served.get(f"/{key}/values", ranges="3")["values"][0]["text"] == str(FLUX.flat[3])


def test_folders_outside_and_of_too_many_files_are_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = [one["id"] for one in served.get()["items"] if one["name"].endswith("hidden.zarr")]
    assert "not read by this server" in served.get(f"/{name}/values", 422, ranges="3")["detail"]
    monkeypatch.setattr(array_trees, "FILES_MAX", 3)
    key = served.id_of("cube.zarr/flux", source=True)
    assert "more than 3 files" in served.get(f"/{key}/values", 422, ranges="3")["detail"]


def test_files_are_read_as_if_they_were_joined(tmp_path: Path) -> None:
    from lineage_query.rows.reader import RowReader

    for name, content in (("b", b"defgh"), ("a", b"abc"), ("c/d", b""), ("c/e", b"ij")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    tree = array_trees.files_of(str(tmp_path))
    assert tree.files == [("a", 3), ("b", 5), ("c/d", 0), ("c/e", 2)]
    stream = array_trees.joined(RowReader(), tree)
    for begin in range(11):
        for length in range(11):
            stream.seek(begin)
            assert stream.read(length) == b"abcdefghij"[begin : begin + length]
    assert stream.seek(0, os.SEEK_END) == 10
    (tmp_path / "b").write_bytes(b"d")
    stream.seek(0)
    assert stream.read(-1) == b"abcdij"
