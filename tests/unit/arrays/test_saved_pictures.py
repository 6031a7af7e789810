"""``lineage arrays back --png``: what the file shows, over which values, and what is refused; and stored traces in notebooks."""

from __future__ import annotations

import base64
import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from lineage import array_pictures
from lineage.array_answers import ShownCells, ShownTrace
from lineage.array_shading import served_shading
from lineage.main import app as command_line
from lineage.served import ServerError
from lineage_arrays import Cells, Recording
from lineage_arrays.claims import TraceClaims
from lineage_arrays.pictures import CELLS_COLOUR, draw_cells, shading_of
from lineage_arrays.planes import png_of, shaded
from lineage_arrays.saved import current_values, parse_address, store_recording, trace_back
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_store.url import open_store

pytestmark = pytest.mark.unit

CUBE = np.random.default_rng(3).random((3, 6, 8))
URL = "sqlite:///lineage.db"


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that read a cube of numbers and a text, and wrote sums of neighbours, a number and the text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", URL)
    np.save("cube.npy", CUBE)
    np.save("texts.npy", np.array([["a", "b", "c"]]))
    recording = Recording()
    cube, texts = recording.load("cube.npy"), recording.load("texts.npy")
    np.save("sums.npy", cube[:, :, 1:] + cube[:, :, :-1])
    np.save("turned.npy", texts[:, ::-1])
    recording.output("total", cube[2, 1:3].sum())
    store_recording(recording, "sums")


def ask(*words: str) -> Result:
    return CliRunner().invoke(command_line, ["arrays", *words])


def drawn(*words: str) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.uint8]]]:
    """What a command says of its picture, and the pixels of each array in it, one of each block."""
    result = ask(*words, "--png", "trace.png", "--json")
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)["picture"]
    together = np.asarray(Image.open("trace.png"))
    parts = {}
    for one in said["arrays"]:
        if "plane" in one:
            rows, columns = one["pixels_of_pixel"]
            part = together[: one["height"], one["left"] : one["left"] + one["width"]]
            parts["asked" if one["asked"] else one["array"]] = part[::rows, ::columns]
    return said, parts


def marked(pixels: npt.NDArray[np.uint8]) -> list[list[int]]:
    signed = pixels.astype(int)
    found: list[list[int]] = np.argwhere(signed[:, :, 0] - signed[:, :, 1] > 90).tolist()
    return found


def greys(table: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    low, high = np.percentile(table, [1, 99], method="nearest")
    shades: npt.NDArray[np.float64] = np.clip((table - low) / (high - low), 0, 1) * 255
    return shades


def test_cells_are_drawn_over_the_values_of_files() -> None:
    said, parts = drawn("back", "sums.npy[1,2:4,3]")
    assert said["file"] == "trace.png"
    assert [one["plane"] for one in said["arrays"]] == ["1,0:6,0:7", "1,0:6,0:8"]
    assert marked(parts["asked"]) == [[2, 3], [3, 3]]
    sky = parts["cube.npy"]
    assert marked(sky) == [[2, 3], [2, 4], [3, 3], [3, 4]]
    plain = np.array(
        [[[row, column] not in marked(sky) for column in range(8)] for row in range(6)]
    )
    assert np.abs(sky[plain][:, 0] - greys(CUBE[1])[plain]).max() <= 1
    assert (sky[:, :, 3] == 255).all()
    # Another picture of it is replaced.
    _, parts = drawn("forward", "cube.npy[0,5,1]", "--to", "sums.npy")
    assert (marked(parts["asked"]), marked(parts["sums.npy"])) == ([[5, 1]], [[5, 0], [5, 1]])


def test_the_plane_with_the_most_cells_is_drawn() -> None:
    words = ask("back", "sums.npy[0:3,0,0]", "--png", "a.png").stdout
    assert "1 of the cells are in the plane 0,0:6,0:7" in words
    assert "2 of the cells are in the plane 0,0:6,0:8" in words
    said, _ = drawn("back", "total")
    assert said["arrays"][0]["missing"] == "an array without axes has no picture"
    assert (said["arrays"][1]["plane"], said["arrays"][1]["cells_in_plane"]) == ("2,0:6,0:8", 16)


def test_values_are_those_of_the_recorded_bytes_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    said, parts = drawn("back", "turned.npy[0,0]")
    assert ["no numbers" in one["missing"] for one in said["arrays"]] == [True, True]
    assert marked(parts["texts.npy"]) == [[0, 2]]
    state = os.stat("cube.npy")
    np.save("cube.npy", CUBE + 1)
    # As large and as old as it was.
    os.utime("cube.npy", (state.st_atime, state.st_mtime))
    os.unlink("sums.npy")
    said, parts = drawn("back", "sums.npy[1,2,3]")
    assert "No such file" in said["arrays"][0]["missing"]
    assert "has changed since it was recorded" in said["arrays"][1]["missing"]
    assert [one["black"] for one in said["arrays"]] == [None, None]
    assert set(map(tuple, parts["cube.npy"].reshape(-1, 4).tolist())) == {
        (*CELLS_COLOUR, 255),
        (238, 238, 238, 255),
    }
    np.save("cube.npy", CUBE)
    monkeypatch.setattr(current_values, "CELLS_MAX", 9)
    said, _ = drawn("back", "sums.npy[1,2,3]")
    assert "more than the 9 cells" in said["arrays"][1]["missing"]


def test_only_pictures_are_overwritten() -> None:
    Path("notes.txt").write_text("notes", encoding="utf-8")
    os.mkfifo("pipe")
    for target, why in (
        ("notes.txt", "is no PNG, and is not overwritten"),
        ("pipe", "is no PNG"),
        (".", "is no PNG"),
        ("nowhere/a.png", "nowhere is no folder"),
    ):
        result = ask("back", "sums.npy[1,2,3]", "--png", target)
        assert result.exit_code != 0
        assert why in result.output
    assert Path("notes.txt").read_text(encoding="utf-8") == "notes"
    assert sorted(os.listdir()) == sorted(
        ["cube.npy", "texts.npy", "sums.npy", "turned.npy", "lineage.db", "notes.txt", "pipe"]
    )


def test_without_a_picture_no_file_is_written() -> None:
    result = ask("forward", "cube.npy[0,0,0]", "--to", "total", "--png", "a.png")
    assert result.exit_code == 0
    # The one that was asked about has one.
    assert os.path.exists("a.png")
    recording = Recording()
    recording.output("twice", recording.source("once", np.array(1.0)) * 2)
    store_recording(recording, "numbers")
    result = ask("back", "twice", "--png", "b.png")
    assert "no picture was written" in result.stdout
    assert result.stdout.count("an array without axes has no picture") == 2
    assert not os.path.exists("b.png")


def test_many_arrays_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_pictures, "PICTURES_MAX", 2)
    recording = Recording()
    parts = [recording.source(f"part{at}", np.zeros(3)) for at in range(4)]
    recording.output("sum", parts[0] + parts[1] + parts[2] + parts[3])
    store_recording(recording, "many")
    said, shown = drawn("back", "sum")
    assert (said["left_out"], list(shown)) == (3, ["asked", "part0"])


def served(shape: tuple[Any, ...], count: int, first: Region, *, whole: bool = False) -> ShownTrace:
    found = ShownCells("app", "cube", shape, count, whole, first)
    return ShownTrace(
        "app", Direction.BACKWARD, "sums", 2, [found], TraceClaims(), asked_shape=(4, 5)
    )


class Drawing:
    """A server that draws a table, or answers something else."""

    def __init__(self, table: npt.NDArray[Any] | None = None, **other: Any) -> None:
        self.table = table
        self.other = other

    def array_picture(self, app: str, array: str, plane: str, side: int) -> dict[str, Any]:
        if self.table is None:
            raise ServerError("they are not for you")
        picture, scale = shaded(self.table, side, robust=True)
        png = base64.b64encode(picture.png).decode()
        plain = {"plane": plane, "low": scale.low, "high": scale.high, "steps": [*picture.steps]}
        return {**plain, "png": png, **self.other}


@pytest.mark.parametrize("shape", [(4, 6), (3000, 7), (1, 5), (1500, 40)])
def test_values_are_drawn_as_the_server_has_them(shape: tuple[int, int]) -> None:
    table = np.random.default_rng(1).normal(0, 9, shape)
    table[0, 0] = np.nan
    cells = Cells.at(shape, [1, 3])
    ours = draw_cells(cells, shading_of(lambda plane: plane.values(table)))
    theirs = draw_cells(cells, served_shading(Drawing(table), "app", "source-0"))
    assert np.array_equal(ours.pixels, theirs.pixels)
    assert (ours.scale, ours.steps, theirs.missing) == (theirs.scale, theirs.steps, "")


@pytest.mark.parametrize(
    "other",
    [
        {"steps": [2, 1]}, {"plane": "0,:"}, {"png": "?"}, {"low": "1"}, {"high": float("nan")}, {"png": None},
        {"png": base64.b64encode(png_of(np.zeros((4, 6, 4), np.uint8))).decode()},
        {"png": base64.b64encode(png_of(np.zeros((400, 6, 2), np.uint8))).decode()},
        {"png": base64.b64encode(png_of(np.zeros((4, 6, 2), np.uint8))[:60]).decode()},
        {"png": base64.b64encode(b"GIF89a").decode()},
    ],
)  # fmt: skip
def test_other_pictures_of_a_server_are_not_drawn(other: dict[str, Any]) -> None:
    shading = served_shading(Drawing(np.ones((4, 6)), **other), "app", "source-0")
    drawn = draw_cells(Cells.at((4, 6), [1]), shading)
    assert drawn.scale is None
    assert drawn.missing.startswith("the server")


def test_answers_of_servers_are_drawn_without_values(tmp_path: Path) -> None:
    trace = served((4, 6), 3, Region.from_text("1-3"))
    sources = array_pictures.sources_of_server(trace, "sums[1,2:4]", Drawing())
    saved = array_pictures.save_picture(tmp_path / "a.png", sources)
    places = []
    for one in saved.arrays:
        assert one.drawn is not None
        assert one.drawn.missing == "they are not for you"
        rows, columns = one.drawn.enlarged
        places.append(marked(one.drawn.pixels[::rows, ::columns]))
    assert places == [[[1, 2], [1, 3]], [[0, 1], [0, 2], [0, 3]]]


@pytest.mark.parametrize(
    ("shape", "count", "whole", "reason"),
    [
        ((4, 6), 9, False, "only some"),
        ((1 << 40, 1 << 20), 1 << 60, True, "too many"),
        ((1 << 30,), 1 << 29, False, "too many"),
        ((-4, 6), 3, False, "no shape"),
        (("4", 6), 3, False, "no shape"),
        ((1,) * 99, 1, False, "no shape"),
    ],
)
def test_what_servers_say_is_not_believed(
    tmp_path: Path, shape: tuple[Any, ...], count: int, whole: bool, reason: str
) -> None:
    trace = served(shape, count, Region.from_text("1-3"), whole=whole)
    _, source = array_pictures.sources_of_server(trace, "sums[1,2:4]", Drawing())
    assert source.cells is None
    assert reason in source.missing
    asked = replace(trace, asked_shape=(1 << 20, 1 << 20))
    assert array_pictures.sources_of_server(asked, "sums[:,0]", Drawing())[0].cells is None


def test_stored_traces_show_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(URL) as store:
        trace = trace_back(store, parse_address("sums.npy[1,2,3]"))
    bundle = trace._repr_mimebundle_()
    assert bundle["text/plain"] == "cube.npy[1,2,3:5]: 2 of 144\nexact\ncomplete"
    [png] = re.findall(r"base64,([^\"]*)", bundle["text/html"])
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(png))))[::32, ::32]
    assert marked(pixels) == [[2, 3], [2, 4]]
    # Of large files, which take long to read, nothing is read for a notebook.
    monkeypatch.setattr(current_values, "WHOLE_BYTES_MAX", 100)
    assert "more than the 0 MiB" in trace._repr_html_()
    np.save("sums.npy", CUBE)
    with open_store(URL) as store:
        changed = trace_back(store, parse_address("sums.npy[1,2,3]"))
    assert "has changed since" in changed._repr_mimebundle_()["text/plain"]
