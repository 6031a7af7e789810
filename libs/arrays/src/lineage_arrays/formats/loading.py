"""Loads what reads formats ahead of use, for a process that may open no file later.

To import a library is not enough: some load parts of themselves, and codecs, with the first file. So each reads one.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.formats.decoding import decoded
from lineage_arrays.formats.trees import decoded_files

_SAMPLE = np.zeros((2, 2), np.uint8)


def load_numpy() -> None:
    """Load what reads files of NumPy."""
    for name, save in (("a.npy", np.save), ("a.npz", np.savez), ("a.npz", np.savez_compressed)):
        _rehearse(name, lambda file, save=save: save(file, _SAMPLE))  # type: ignore[misc]


def load_libraries() -> None:
    """Load the libraries that are installed; of others the error that names the extra comes with the first file."""
    for name, write in (
        ("a.h5", _write_hdf5),
        ("a.nc", _write_hdf5),
        ("a.fits", _write_fits),
        ("a.parquet", _write_parquet),
        ("a.png", _write_image("PNG")),
        ("a.tif", _write_image("TIFF")),
        ("a.jpg", _write_image("JPEG")),
    ):
        with suppress(ImportError):
            _rehearse(name, write)


def _rehearse(name: str, write: Callable[[io.BytesIO], Any]) -> None:
    file = io.BytesIO()
    write(file)
    with suppress(ArrayLineageError):
        decoded(name, io.BytesIO(file.getvalue()), "")


def load_zarr() -> None:
    """Load zarr, where it is installed, and its codecs: each is loaded with its first chunk, and so are the threads that decode."""
    with suppress(ImportError):
        _rehearse_zarr(import_module("zarr"))


def _rehearse_zarr(zarr: Any) -> None:
    # One thread of its own and one that decodes: each takes memory of those that a question may have.
    zarr.config.set({"threading.max_workers": 1, "async.concurrency": 1})
    for how in _zarr_kinds():
        store = zarr.storage.MemoryStore()
        with suppress(ImportError):
            zarr.create_array(store, shape=(4, 4), chunks=(2, 2), dtype="u2", **how)[...] = 1
        content = {name: part.to_bytes() for name, part in store._store_dict.items()}
        with suppress(ArrayLineageError):
            decoded_files("a.zarr", content)


def _zarr_kinds() -> Iterator[dict[str, Any]]:
    numcodecs = import_module("numcodecs")
    codecs = import_module("zarr.codecs")
    for compressor in (
        codecs.BloscCodec(),
        codecs.GzipCodec(),
        codecs.ZstdCodec(checksum=True),
        None,
    ):
        yield {"compressors": compressor, "filters": [codecs.TransposeCodec(order=(1, 0))]}
    yield {"shards": (4, 4)}
    for name in ("Blosc", "BZ2", "GZip", "LZ4", "LZMA", "Zlib", "Zstd"):
        yield {"compressors": getattr(numcodecs, name)(), "zarr_format": 2}
    for filters in (
        numcodecs.Delta("u2"),
        numcodecs.Shuffle(2),
        numcodecs.FixedScaleOffset(0, 1, "u2"),
        numcodecs.PackBits(),
    ):
        yield {"filters": [filters], "zarr_format": 2}


def _write_hdf5(file: io.BytesIO) -> None:
    """A file of HDF5, which those of NetCDF 4 are, too."""
    with import_module("h5py").File(file, "w") as content:
        for name, options in (("a", {"compression": "gzip", "shuffle": True}), ("b", {})):
            content.create_dataset(name, data=_SAMPLE, **options)


def _write_parquet(file: io.BytesIO) -> None:
    arrow = import_module("pyarrow")
    columns = {"n": [1.5], "t": ["a"], "b": [True], "d": np.zeros(1, "M8[ms]")}
    import_module("pyarrow.parquet").write_table(arrow.table(columns), file)


def _write_fits(file: io.BytesIO) -> None:
    fits = import_module("astropy.io.fits")
    units = [fits.PrimaryHDU(), fits.ImageHDU(_SAMPLE), fits.CompImageHDU(_SAMPLE)]
    fits.HDUList(units).writeto(file)


def _write_image(kind: str) -> Callable[[io.BytesIO], None]:
    def write(file: io.BytesIO) -> None:
        import_module("PIL.Image").fromarray(_SAMPLE).save(file, kind)

    return write
