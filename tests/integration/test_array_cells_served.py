"""Cells of arrays over HTTP: the same answers as in the program, pictures and values of the very files, and to whom."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from lineage_arrays import Recording
from lineage_arrays.cells import Cells
from lineage_arrays.saved import store_recording
from lineage_core.contract.region import Region
from tests.support.api_server import readers, serving
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.integration


@dataclass
class Served:
    """A server over a recorded program, and the program's own recording."""

    client: httpx.Client
    folder: Path
    app: str
    recording: Recording
    arrays: dict[str, Any]
    tokens: dict[str, str]

    def get(self, path: str = "", status: int = 200, by: str = "reads", **params: Any) -> Any:
        return self._answered(self.client.get, path, status, by, params=params)

    def trace(self, status: int = 200, by: str = "reads", **body: Any) -> Any:
        return self._answered(self.client.post, "/trace", status, by, json=body)

    def _answered(self, send: Any, path: str, status: int, by: str, **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[by]}"}
        answer = send(f"/v1/applications/{self.app}/arrays{path}", headers=headers, **more)
        assert answer.status_code == status, answer.text
        return answer.json()

    def id_of(self, name: str, *, source: bool) -> str:
        (found,) = [
            one["id"]
            for one in self.get()["items"]
            if one["name"] == name and one["is_source"] == source
        ]
        return str(found)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("cells")
    url = f"sqlite:///{folder}/lineage.db"
    random = np.random.default_rng(3)
    before = os.getcwd()
    os.chdir(folder)
    try:
        np.save("image.npy", random.normal(size=(30, 40)))
        np.savez("cube.npz", flux=random.normal(size=(3, 8, 9)), texts=np.array(["a", "bc"]))
        Image.fromarray(random.integers(0, 255, (12, 10), np.uint8)).save("sky.png")
        recording = Recording()
        image, flux = recording.load("image.npy"), recording.load("cube.npz/flux")
        sky, texts = recording.load("sky.png"), recording.load("cube.npz/texts")
        rows = {name: pa.array(random.normal(size=20)) for name in "xyz"}
        pq.write_table(pa.table(rows), "rows.parquet", compression="zstd")
        pq.write_table(pa.table({"name": ["a", "bc"]}), "names.parquet", compression="gzip")
        smooth = (image[:, 1:] + image[:, :-1]) / 2
        np.save("smooth.npy", smooth)
        arrays = {
            "smooth.npy": smooth,
            "sorted": np.sort(image, axis=1),
            "total": flux.sum(axis=(0, 2)),
            "rolled": np.roll(flux, 2, axis=1),
            "scaled": sky[::2, ::3] * 2,
            "number": image.max(),
            "named": texts[::-1],
            "features": recording.load("rows.parquet").sum(axis=1),
            "names": recording.load("names.parquet")[::-1],
        }
        for name, array in arrays.items():
            if name != "smooth.npy":
                recording.output(name, array)
        app = store_recording(recording, "smoothing", url)
    finally:
        os.chdir(before)
    store_run(url, folder, "rows-1")
    tokens, file = readers(folder)
    with (
        serving(
            url,
            api_roots=str(folder),
            api_tokens=file,
            api_open=False,
            api_rate="1000/second",
            api_query_s=120,
        ) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield Served(client, folder, app, recording, arrays, tokens)


def cells_of(part: dict[str, Any]) -> Cells:
    return Cells.of_region(tuple(part["array"]["shape"]), Region.from_text(part["ranges"]))


def pixels_of(picture: dict[str, Any]) -> np.ndarray[Any, Any]:
    with Image.open(io.BytesIO(base64.b64decode(picture["png"]))) as image:
        return np.asarray(image.convert("LA"))


def test_arrays_are_listed_by_pages_with_their_files(served: Served) -> None:
    whole = served.get(by="looks")
    listed = {one["name"]: one for one in whole["items"]}
    assert whole["total"] == len(whole["items"]) == 6 + len(served.arrays)
    assert listed["image.npy"]["shape"] == [30, 40]
    assert listed["image.npy"]["file"]["standing"] == "same"
    assert listed["cube.npz/flux"]["file"]["member"] == "flux"
    assert (listed["sorted"]["file"], listed["number"]["shape"]) == (None, [])
    pages, cursor = [], None
    while True:
        page = served.get(limit=3, **({} if cursor is None else {"cursor": cursor}))
        pages += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    assert pages == whole["items"]


WHERE = {
    "smooth.npy": "3,4:9",
    "sorted": "2:4,7",
    "total": "5",
    "rolled": "1,:,3",
    "scaled": "1,...",
    "number": "",
    "named": "0",
    "features": "3",
}


def index_of(text: str) -> Any:
    """An index, read as Python reads it."""
    return eval(f"np.s_[{text}]", {"np": np}) if text else ...


@pytest.mark.parametrize("name", WHERE)
@pytest.mark.parametrize("choices", [False, True])
def test_traces_backward_are_those_of_the_program(served: Served, name: str, choices: bool) -> None:
    where = WHERE[name]
    answer = served.trace(
        direction="backward",
        cells=f"{name}[{where}]" if where else name,
        choices=choices,
        limit=10_000,
    )
    expected = served.recording.back(served.arrays[name], index_of(where), choices=choices)
    found = {part["array"]["name"]: cells_of(part) for part in answer["arrays"]}
    by_name = {os.path.basename(key): cells for key, cells in expected.cells.items()}
    assert {os.path.basename(key): cells for key, cells in found.items()} == by_name
    assert (answer["exact"], answer["complete"]) == (expected.exact, expected.complete)
    assert answer["superset_reasons"] == list(expected.superset_reasons)
    assert answer["incomplete_reasons"] == list(expected.incomplete_reasons)
    assert answer["chosen_by"] == list(expected.chosen_by)
    by_id = served.trace(
        direction="backward",
        array=served.id_of(name, source=False),
        index=where,
        choices=choices,
        limit=10_000,
    )
    assert by_id == answer


@pytest.mark.parametrize(
    ("source", "where"), [("image.npy", "4,5:8"), ("cube.npz/flux", "2,1"), ("sky.png", "4,...")]
)
def test_traces_forward_are_those_of_the_program(served: Served, source: str, where: str) -> None:
    if source == "cube.npz/flux":
        where += ",:"
    answer = served.trace(direction="forward", cells=f"{source}[{where}]", limit=10_000)
    found = {part["array"]["name"]: cells_of(part) for part in answer["arrays"]}
    assert any(found.values())
    for name, cells in found.items():
        expected = served.recording.forward(source, served.arrays[name], index_of(where))
        assert [cells] == list(expected.cells.values())
    (name,) = [name for name, cells in found.items() if cells][:1]
    one = served.trace(direction="forward", cells=f"{source}[{where}]", to=name, limit=10_000)
    assert [part["array"]["name"] for part in one["arrays"]] == [name]


def test_runs_come_by_pages(served: Served) -> None:
    whole = served.trace(direction="backward", cells="sorted[:,5]", limit=10_000)["arrays"][0]
    assert whole["ranges_total"] > 7
    runs: list[str] = []
    after: dict[str, str] = {}
    while True:
        answer = served.trace(direction="backward", cells="sorted[:,5]", limit=7, after=after)
        part = answer["arrays"][0]
        assert (part["count"], part["ranges_total"]) == (whole["count"], whole["ranges_total"])
        runs += part["ranges"].split(" ")
        if part["next"] is None:
            break
        after = {part["array"]["id"]: part["next"]}
    assert " ".join(runs) == whole["ranges"]


@pytest.mark.parametrize("side", [7, 100])
def test_pictures_mark_the_pixels_of_cells(served: Served, side: int) -> None:
    answer = served.trace(direction="backward", cells="sorted[3:9,1]", side=side, limit=10_000)
    (part,) = [one for one in answer["arrays"] if one["array"]["name"] == "image.npy"]
    picture = part["picture"]
    steps = picture["steps"]
    assert picture["plane"] == "0:30,0:40"
    marks = np.zeros(picture["size"], np.uint8)
    rows, columns = cells_of(part).coordinates().T
    marks[rows // steps[0], columns // steps[1]] = 255
    assert (pixels_of(picture)[:, :, 1] == marks).all()
    assert picture["count"] == part["count"]


def test_a_plane_of_more_axes_is_the_first_with_a_cell_or_is_chosen(served: Served) -> None:
    question: dict[str, Any] = {
        "direction": "backward",
        "cells": "rolled[2,3,4]",
        "side": 20,
        "limit": 5,
    }
    (part,) = [one for one in served.trace(**question)["arrays"] if one["count"]]
    assert (part["picture"]["plane"], part["picture"]["count"]) == ("2,0:8,0:9", 1)
    key = part["array"]["id"]
    chosen = served.trace(**question, planes={key: "0,:,2:5"}, only=[key])["arrays"]
    assert [(one["picture"]["plane"], one["picture"]["count"]) for one in chosen] == [
        ("0,0:8,2:5", 0)
    ]


def test_a_picture_has_the_means_of_the_files_cells(served: Served) -> None:
    values = np.load(served.folder / "image.npy")
    key = served.id_of("image.npy", source=True)
    picture = served.get(f"/{key}/picture", side=10)
    assert (picture["size"], picture["steps"]) == ([10, 10], [3, 4])
    means = values.reshape(10, 3, 10, 4).mean(axis=(1, 3))
    assert picture["low"] == pytest.approx(means.min())
    assert picture["high"] == pytest.approx(means.max())
    grey = pixels_of(picture)[:, :, 0]
    expected = (means - means.min()) / np.ptp(means) * 255
    assert np.abs(grey - expected).max() <= 1
    part = served.get(f"/{key}/picture", side=64, plane="4:9,10", low=-1, high=1)
    assert part["size"] == [1, 5]
    assert (part["low"], part["high"], part["plane"]) == (-1, 1, "4:9,10")


@pytest.mark.parametrize("name", ["sky.png", "cube.npz/flux", "rows.parquet"])
def test_other_formats_have_pictures_and_values(served: Served, name: str) -> None:
    key = served.id_of(name, source=True)
    assert served.get(f"/{key}/picture")["steps"] == [1, 1]
    values = served.get(f"/{key}/values", ranges="1-2 11", limit=2)
    assert values["count"] == 3
    if name == "rows.parquet":
        array = np.stack(
            [column.to_numpy() for column in pq.read_table(served.folder / name).columns], axis=1
        )
    elif name == "sky.png":
        array = np.asarray(Image.open(served.folder / name))
    else:
        array = np.load(served.folder / "cube.npz")["flux"]
    assert [one["text"] for one in values["values"]] == [str(array.flat[at]) for at in (1, 2)]
    assert [array[tuple(one["cell"])] for one in values["values"]] == list(array.flat[1:3])


@pytest.mark.parametrize("name", ["cube.npz/texts", "names.parquet"])
def test_texts_have_values_and_no_picture(served: Served, name: str) -> None:
    key = served.id_of(name, source=True)
    found = served.get(f"/{key}/values", ranges="0-1")["values"]
    assert [one["text"] for one in found] == ["a", "bc"]
    assert "no numbers" in served.get(f"/{key}/picture", 422)["detail"]


def test_who_may_not_read_rows_gets_cells_and_no_values(served: Served) -> None:
    key = served.id_of("image.npy", source=True)
    assert served.trace(by="looks", direction="backward", cells="smooth.npy[3,4]")["arrays"]
    for path, more in (("picture", {}), ("values", {"ranges": "3"})):
        assert served.get(f"/{key}/{path}", by="looks", **more, status=403)


def test_a_changed_file_shows_nothing(served: Served) -> None:
    key, file = served.id_of("smooth.npy", source=False), served.folder / "smooth.npy"
    before, status = file.read_bytes(), file.stat()
    try:
        changed = bytearray(before)
        changed[-1] ^= 1
        file.write_bytes(changed)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        # Size and time are the same: the bytes are not.
        assert "has changed" in served.get(f"/{key}/picture", 422)["detail"]
        assert "has changed" in served.get(f"/{key}/values", 422, ranges="0")["detail"]
        file.write_bytes(before + b"x")
        assert "has changed" in served.get(f"/{key}/picture", 422)["detail"]
        file.unlink()
        assert "is gone" in served.get(f"/{key}/picture", 422)["detail"]
        (listed,) = [one for one in served.get()["items"] if one["id"] == key]
        assert listed["file"]["standing"] == "gone"
    finally:
        file.write_bytes(before)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert served.get(f"/{key}/picture")["plane"] == "0:30,0:39"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"cells": "smooth.npy[99,0]"}, "not in an array"),
        ({"cells": "nothing[0]"}, "has no output 'nothing'"),
        ({"cells": "smooth.npy[x]"}, "is no number"),
        ({"array": "output-999"}, "is the id of no output"),
        ({"array": "source-0"}, "is the id of no output"),
        ({"array": "source-0", "cells": "smooth.npy"}, "give cells"),
        ({}, "give cells"),
        ({"cells": "smooth.npy", "side": 10, "planes": {"output-0": ":,1:0:-1"}}, "steps of 1"),
        ({"cells": "smooth.npy", "side": 5000}, "less than or equal"),
    ],
)
def test_what_can_not_be_answered_is_refused(
    served: Served, body: dict[str, Any], said: str
) -> None:
    assert said in served.trace(422, direction="backward", **body)["detail"]


def test_values_beyond_an_array_and_of_arrays_without_files_are_refused(served: Served) -> None:
    key = served.id_of("image.npy", source=True)
    for ranges, said in (("1200", "no position"), ("3-1", "run 0"), ("x", "run 0")):
        assert said in served.get(f"/{key}/values", 422, ranges=ranges)["detail"]
    other = served.id_of("sorted", source=False)
    assert "in no file" in served.get(f"/{other}/picture", 422)["detail"]
    assert "not above high" in served.get(f"/{key}/picture", 422, low=2, high=1)["detail"]


def test_an_application_without_arrays_has_none(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.tokens['reads']}"}
    answer = served.client.get("/v1/applications/rows-1/arrays", headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (404, "rows-1 recorded no arrays")
