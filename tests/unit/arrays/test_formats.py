"""Arrays of files of the field: coordinates as their libraries give them, whatever the order of their bytes, and bound to the file."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import netCDF4
import numpy as np
import pytest
import zarr
from astropy.io import fits
from PIL import Image

from lineage_arrays import ArrayLineageError, Recording, UntracedError
from lineage_arrays.formats.names import array_name, is_tree, split_name
from lineage_arrays.saved import parse_address, store_recording, trace_back, trace_forward
from lineage_store.port import GraphStore
from lineage_store.url import open_store

pytestmark = pytest.mark.unit

COUNTS = np.arange(24, dtype=np.int16).reshape(4, 6)
"""Every cell has a value of its own, so a value says which cell it is."""


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GraphStore]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", "sqlite:///lineage.db")
    with open_store("sqlite:///lineage.db", create=True) as opened:
        yield opened


def hdf5(**how: Any) -> Callable[[Any], str]:
    def write(values: Any) -> str:
        with h5py.File("x.h5", "w") as file:
            file.create_dataset("group/flux", data=np.asarray(values), **how)
            file["other"] = np.zeros(2)
        return "x.h5/group/flux"

    return write


def netcdf(data_model: Any = "NETCDF4", dtype: str = "f8", **attributes: float) -> Callable[[Any], str]:  # fmt: skip
    def write(values: Any) -> str:
        with netCDF4.Dataset("x.nc", "w", format=data_model) as file:
            file.createDimension("time", None)
            file.createDimension("x", 6)
            flux = file.createVariable("flux", dtype, ("time", "x"), fill_value=-999)
            for name, number in attributes.items():
                flux.setncattr(name, number)
            flux[: len(values), :] = np.asarray(values)
        return "x.nc/flux"

    return write


def fits_file(kind: str) -> Callable[[Any], str]:
    def write(values: Any) -> str:
        plain = np.asarray(values)
        if kind == "scaled":
            unit = fits.ImageHDU(plain.astype(np.float32))
            unit.scale("int16", bscale=0.5, bzero=8)
        elif kind == "compressed":
            unit = fits.CompImageHDU(plain.astype(np.int16), compression_type="RICE_1")
        else:
            unit = fits.ImageHDU(plain.astype(kind))
        fits.HDUList([fits.PrimaryHDU(), unit]).writeto("x.fits", overwrite=True)
        return "x.fits[1]"

    return write


def zarr_array(**how: Any) -> Callable[[Any], str]:
    def write(values: Any) -> str:
        shutil.rmtree("cube.zarr", ignore_errors=True)
        group = zarr.open_group("cube.zarr", mode="w", zarr_format=how.get("zarr_format", 3))
        options = {key: value for key, value in how.items() if key != "zarr_format"}
        group.create_array("flux", data=np.ascontiguousarray(values), chunks=(3, 2), **options)
        return "cube.zarr/flux"

    return write


def png(values: Any) -> str:
    Image.fromarray(np.asarray(values).astype(np.uint8)).save("x.png")
    return "x.png"


def tiff(values: Any) -> str:
    frames = [Image.fromarray(np.asarray(part).astype(np.float32)) for part in (values, values * 2)]
    frames[0].save("x.tif", save_all=True, append_images=frames[1:])
    return "x.tif/0"


WRITERS: dict[str, Callable[[Any], str]] = {
    "hdf5": hdf5(),
    "hdf5 compressed": hdf5(chunks=(3, 2), compression="gzip", shuffle=True),
    "hdf5 big endian": hdf5(dtype=">i4"),
    "netcdf": netcdf(),
    "netcdf classic": netcdf("NETCDF3_CLASSIC"),
    "netcdf packed": netcdf(dtype="i2", scale_factor=0.5, add_offset=3.0),
    "fits": fits_file(">f4"),
    "fits unsigned": fits_file("uint16"),
    "fits scaled": fits_file("scaled"),
    "fits compressed": fits_file("compressed"),
    "zarr": zarr_array(),
    "zarr 2": zarr_array(zarr_format=2),
    "zarr reordered": zarr_array(zarr_format=2, order="F"),
    "zarr sharded": zarr_array(shards=(6, 6)),
    "png": png,
    "tiff": tiff,
}


def _top_of(name: str) -> str:
    """The file, or the outermost folder, of an array."""
    return split_name(name)[0].partition("/")[0]


@pytest.mark.parametrize("kind", WRITERS)
def test_files_have_the_coordinates_that_their_library_gives(kind: str, store: GraphStore) -> None:
    """Read and written, cell by cell, and on to the program that reads what was written."""
    name = WRITERS[kind](COUNTS)
    top = name[: name.index(".")]
    os.rename(_top_of(name), _top_of(kept := name.replace(top, "kept", 1)))
    writing = Recording()
    values = writing.load(kept)
    assert np.array_equal(values.current, COUNTS)
    moved = np.roll(values, 1, axis=0)
    out = WRITERS[kind](moved)
    writing.saved(out, moved)
    writer = store_recording(writing, "writing")
    later = Recording()
    np.save("half.npy", later.load(out)[:, ::2])
    store_recording(later, "later")
    for row, column in product(range(4), range(3)):
        [found] = trace_back(store, parse_address(f"half.npy[{row},{column}]"), all_jobs=True).found
        # The value that went there says which cell it was.
        [cell] = found.cells.coordinates().tolist()
        assert COUNTS[tuple(cell)] == np.roll(COUNTS, 1, axis=0)[:, ::2][row, column]
        assert found.name == kept
        trace = trace_back(store, parse_address(f"{out}[{row},{column}]"))
        assert (trace.app, trace.exact, trace.complete, trace.warnings) == (writer, True, True, ())
        assert [one.cells.coordinates().tolist() for one in trace.found] == [[[(row - 1) % 4, column]]]  # fmt: skip
    forth = trace_forward(store, parse_address(f"{kept}[0,2]"), all_jobs=True)
    assert [(one.name, one.cells.coordinates().tolist()) for one in forth.found] == [("half.npy", [[1, 1]])]  # fmt: skip
    assert (forth.exact, forth.complete) == (True, True)


@pytest.mark.parametrize("kind", WRITERS)
def test_what_has_changed_since_is_said(kind: str, store: GraphStore) -> None:
    name = WRITERS[kind](COUNTS)
    recording = Recording()
    recording.output("half", recording.load(name)[:, :3])
    store_recording(recording, "reading")
    assert trace_back(store, parse_address("half[0,0]")).found[0].file_status == "same"
    other = COUNTS.copy()
    other[3, 5] = 0
    WRITERS[kind](other)
    assert trace_back(store, parse_address("half[0,0]")).found[0].file_status == "changed"
    assert "has changed since" in trace_forward(store, parse_address(f"{name}[0,0]")).warnings[0]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_of_other_values_is_not_bound(kind: str) -> None:
    recording = Recording()
    counts = recording.source("counts", COUNTS)
    other = COUNTS.copy()
    other[2, 1] += 9
    name = WRITERS[kind](other)
    with pytest.raises(ArrayLineageError, match="does not hold"):
        recording.saved(name, counts)
    assert not recording.flow.outputs


def test_a_chunk_that_changes_changes_the_array(store: GraphStore) -> None:
    """Also where size and times stay: chunks have no common ones."""
    zarr_array(compressors=None)(COUNTS)
    recording = Recording()
    recording.output("half", recording.load("cube.zarr/flux")[:, :3])
    store_recording(recording, "reading")
    chunk = Path("cube.zarr/flux/c/0/0")
    status, content = chunk.stat(), bytearray(chunk.read_bytes())
    content[0] ^= 1
    chunk.write_bytes(content)
    os.utime(chunk, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert trace_back(store, parse_address("half[0,0]")).found[0].file_status == "changed"


def test_missing_chunks_have_the_fill_value() -> None:
    array = zarr.create_array("sparse.zarr", shape=(4, 4), chunks=(2, 2), dtype="f4", fill_value=7)
    array[:2, :2] = 1
    read = np.asarray(Recording().load("sparse.zarr"))
    assert (read[0, 0], read[3, 3]) == (1, 7)


def test_fill_values_of_numbers_with_a_point_are_none() -> None:
    netcdf()(COUNTS)
    with netCDF4.Dataset("x.nc", "a") as file:
        file["flux"][0, 5] = np.ma.masked
    read = np.asarray(Recording().load("x.nc/flux"))
    assert np.isnan(read[0, 5])
    assert np.isnan(read).sum() == 1


def test_a_file_that_grows_is_another_version(store: GraphStore) -> None:
    """Of an array that lies there since before, who made it is not known by those who added others."""
    np.save("counts.npy", COUNTS)
    first = Recording()
    counts = first.load("counts.npy")
    hdf5()(counts)
    first.saved("x.h5/group/flux", counts)
    writer = store_recording(first, "first")
    second = Recording()
    more = second.source("more", np.ones(3))
    with h5py.File("x.h5", "a") as file:
        file["more"] = np.asarray(more)
    second.saved("x.h5/more", more)
    store_recording(second, "second")
    trace = trace_back(store, parse_address("x.h5/group/flux[0,1]"))
    assert (trace.app, [one.name for one in trace.found]) == (writer, ["counts.npy"])
    assert "has changed since" in trace.warnings[0]
    third = Recording()
    np.save("out.npy", third.load("x.h5/group/flux")[0])
    store_recording(third, "third")
    back = trace_back(store, parse_address("out.npy[1]"), all_jobs=True)
    assert not back.complete
    assert "what group/flux in it was made from is not recorded" in back.incomplete_reasons[0]
    forth = trace_forward(store, parse_address("counts.npy[0,1]"), all_jobs=True)
    assert not forth.complete
    assert "a later version" in forth.incomplete_reasons[0]


def test_an_array_that_was_saved_does_not_come_back_as_one_from_outside() -> None:
    recording = Recording()
    counts = recording.source("counts", COUNTS)
    hdf5()(counts)
    recording.saved("x.h5/group/flux", counts)
    assert recording.back(recording.load("x.h5/group/flux"), np.s_[0, 1]).cells.keys() == {"counts"}
    with h5py.File("x.h5", "a") as file:
        file["more"] = np.ones(2)
    with pytest.raises(ArrayLineageError, match="written to since"):
        recording.load("x.h5/group/flux")
    recording.saved("x.h5/group/flux", counts)
    assert recording.back(recording.load("x.h5/group/flux"), np.s_[0, 1]).cells.keys() == {"counts"}


def test_one_array_has_one_name() -> None:
    with h5py.File("x.h5", "w") as file:
        file["a/flux"] = COUNTS
        file["b"] = file["a/flux"]
        file["c"] = h5py.SoftLink("/a/flux")
    recording = Recording()
    for name in ("x.h5/a/flux", "x.h5/b", "x.h5/c", "x.h5//a/flux/", "x.h5"):
        assert recording.back(recording.load(name)).cells.keys() == {"x.h5/a/flux"}


def test_cells_that_lie_in_other_files_are_refused() -> None:
    hdf5()(COUNTS)
    layout = h5py.VirtualLayout((4, 6), "i2")
    layout[:] = h5py.VirtualSource("x.h5", "group/flux", (4, 6))
    with h5py.File("links.h5", "w") as file:
        file["outside"] = h5py.ExternalLink("x.h5", "group/flux")
        file["folder"] = h5py.ExternalLink("x.h5", "group")
        file["soft"] = h5py.SoftLink("/folder/flux")
        file.create_virtual_dataset("virtual", layout)
        file.create_dataset("raw", (4,), "i2", external=[("raw.bin", 0, 8)])
    shutil.copy("links.h5", "links.nc")
    for name in ("outside", "folder/flux", "soft", "virtual", "raw"):
        for file_name in ("links.h5", "links.nc"):
            with pytest.raises((UntracedError, ArrayLineageError)):
                Recording().load(f"{file_name}/{name}")


@pytest.mark.parametrize("shape", [(), (2,)])
def test_texts_of_any_length_are_refused(shape: tuple[int, ...]) -> None:
    texts = np.full(shape, "flux", object)
    with h5py.File("texts.h5", "w") as file:
        file.create_dataset("texts", data=texts, dtype=h5py.string_dtype())
        file["none"] = h5py.Empty("f8")
    with netCDF4.Dataset("texts.nc", "w") as file:
        for axis, length in enumerate(shape):
            file.createDimension(f"axis{axis}", length)
        file.createVariable("texts", str, tuple(file.dimensions))[...] = texts
    for name in ("texts.h5/texts", "texts.nc/texts"):
        with pytest.raises(UntracedError, match=r"'texts' holds texts .* recording.source"):
            Recording().load(name)
    with pytest.raises(ArrayLineageError, match="'none' has no cells"):
        Recording().load("texts.h5/none")


def test_files_of_numpy_may_lie_in_folders_of_chunks() -> None:
    zarr_array()(COUNTS)
    shutil.copytree("cube.zarr/flux", "cube.zarr/chunks.npy")
    np.save("cube.zarr/plain.npy", COUNTS)
    np.savez("cube.zarr/two.npz", a=COUNTS, b=COUNTS + 1)
    recording = Recording()
    both = recording.load("cube.zarr/two.npz")
    assert both.keys() == {"a", "b"}
    for name in ("chunks.npy", "plain.npy"):
        assert (np.asarray(recording.load(f"cube.zarr/{name}")) == COUNTS).all()
        assert is_tree(f"cube.zarr/{name}") == (name == "chunks.npy")


def test_codecs_that_may_run_code_are_refused() -> None:
    zarr_array(zarr_format=2)(COUNTS)
    metadata = Path("cube.zarr/flux/.zarray")
    text = metadata.read_text().replace('"filters": null', '"filters": [{"id": "pickle"}]')
    assert "pickle" in text
    metadata.write_text(text)
    with pytest.raises(UntracedError, match="pickle"):
        Recording().load("cube.zarr/flux")


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data:UserWarning")
def test_files_that_are_none_are_refused() -> None:
    """And those of several arrays without a name, of names that there are not, of groups, and half ones."""
    hdf5()(COUNTS)
    netcdf()(COUNTS)
    fits_file(">f4")(COUNTS)
    tiff(COUNTS)
    zarr_array()(COUNTS)
    for name in ("x.h5", "x.h5/group", "x.h5/none", "x.nc/none", "x.fits[0]", "x.fits[7]", "x.tif", "x.tif/9", "cube.zarr"):  # fmt: skip
        with pytest.raises(ArrayLineageError):
            Recording().load(name)
    with pytest.raises(FileNotFoundError):
        Recording().load("cube.zarr/none")
    for name in ("x.h5", "x.nc", "x.fits", "x.tif"):
        content = Path(name).read_bytes()
        for part in (content[: len(content) // 3], b"", b"no file of it"):
            Path(f"broken{Path(name).suffix}").write_bytes(part)
            with pytest.raises(ArrayLineageError):
                Recording().load(f"broken{Path(name).suffix}")


def test_a_file_that_changes_while_it_is_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    png(COUNTS)
    content = io.BytesIO(Path("x.png").read_bytes())
    opened = Image.open

    def changed(*args: Any) -> Any:
        status = os.stat("x.png")
        with open("x.png", "r+b") as file:
            file.write(content.getvalue()[:-1] + b"\0")
        os.utime("x.png", ns=(status.st_atime_ns, status.st_mtime_ns))
        return opened(*args)

    monkeypatch.setattr(Image, "open", changed)
    with pytest.raises(ArrayLineageError, match="changed while it was read"):
        Recording().load("x.png")


@pytest.mark.parametrize(
    ("name", "path", "member"),
    [
        ("image.npy", "image.npy", ""),
        ("a/spectra.npz/flux", "a/spectra.npz", "flux"),
        ("data.h5/group/flux", "data.h5", "group/flux"),
        ("image.fits[1]", "image.fits", "1"),
        ("image.fits.gz[01]", "image.fits.gz", "1"),
        ("cube.zarr/flux", "cube.zarr/flux", ""),
        ("flux", "flux", ""),
    ],
)
def test_names_of_arrays_in_files(name: str, path: str, member: str) -> None:
    assert split_name(name) == (path, member)
    assert split_name(array_name(path, member)) == (path, member)


def test_folders_may_be_named_as_files() -> None:
    os.makedirs("run.h5")
    assert split_name("run.h5/x.h5/flux") == ("run.h5/x.h5", "flux")


def test_brackets_of_fits_have_the_unit() -> None:
    whole = parse_address("x.fits[1]")
    assert (whole.name, whole.where) == ("x.fits[1]", ...)
    cells = parse_address("x.fits[1][3,4]")
    assert (cells.name, cells.where) == ("x.fits[1]", (3, 4))
