"""Make the pictures of the web page that README and guides show, over the real service.

    make screenshots

Runs the example of the flights with its lineage (unless WORK_DIR has it already), serves it as
`lineage ui` does, and has a browser go through the main views.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from lineage_arrays import Recording
from lineage_arrays.saved import store_recording

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "services" / "query-api" / "web"
EXAMPLES = ROOT / "examples"
TOTALS = "totals.csv"
SPARKS = "local-"
"""What ids of Spark's applications begin with: the flights are one."""
SKY = "sky.npy"
COLOURS = 256
BYTES_MAX = 250_000


def prepare(work: Path) -> None:
    """Have two applications in the store below a folder: the flights, and totals in plain Python."""
    if (work / TOTALS).exists():
        return
    work.mkdir(parents=True, exist_ok=True)
    # The demo first: it begins with an empty store.
    for program, where in (("flights/demo.py", "."), ("plain_python/totals.py", TOTALS)):
        subprocess.run([sys.executable, str(EXAMPLES / program), where], cwd=work, check=True)


def record_stars(work: Path) -> None:
    """Have a recording of arrays in the store below a folder: a sky of stars, in larger pixels and mirrored."""
    if (work / SKY).exists():
        return
    work.mkdir(parents=True, exist_ok=True)
    (work / ".lineage").mkdir(mode=0o700)
    random = np.random.default_rng(7)
    rows, columns = np.mgrid[:240, :360]
    sky = random.normal(10, 2, rows.shape)
    for row, column, light in random.uniform((0, 0, 20), (240, 360, 120), (60, 3)):
        sky += light * np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / 18)
    recording, before = Recording(), Path.cwd()
    # Arrays are called by the paths that the program has of their files.
    os.chdir(work)
    try:
        np.save(SKY, sky)
        binned = recording.load(SKY).reshape(120, 2, 180, 2).mean(axis=(1, 3))
        np.save("mirrored.npy", np.flip(binned, axis=1))
        store_recording(recording, "stars", "sqlite:///.lineage/lineage.db")
    finally:
        os.chdir(before)


@contextmanager
def served(work: Path) -> Iterator[str]:
    """The address of a service over the store below a folder."""
    # Beside the data: paths are shown relative to that folder, not by where it lies.
    command = [str(Path(sys.executable).with_name("lineage")), "ui", "--no-browser", "--port", "0"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LINEAGE_")}
    environment = clean | {"PYTHONUNBUFFERED": "1", "LINEAGE_API_OPEN": "true"}
    with subprocess.Popen(
        command, cwd=work, env=environment, stdout=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", service.stdout.readline())
            if address is None:
                sys.exit("the service did not start; see above")
            yield address[0]
        finally:
            service.terminate()


def take(address: str, folder: Path, names: str) -> None:
    """Have the browser write pictures into a folder: those whose names fit a pattern."""
    npm = [str(ROOT / "scripts" / "node.sh"), "exec", "npm", "run", "--silent"]
    command = [*npm, "pictures", "--", "-t", names]
    environment = os.environ | {
        "LINEAGE_URL": address,
        "LINEAGE_E2E_APP": SPARKS,
        "PICTURES": str(folder),
    }
    subprocess.run(command, cwd=WEB, env=environment, check=True)


def pack(picture: Path, target: Path) -> int:
    """Write a picture with few colours, which is a third of its size; its bytes."""
    with Image.open(picture) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(target, optimize=True)
    size = target.stat().st_size
    if size > BYTES_MAX:
        sys.exit(f"{target} has {size:,} bytes; at most {BYTES_MAX:,} belong into the repository")
    return size


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, nargs="?", default=ROOT / "build" / "screenshots")
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    stars = options.work / "stars"
    prepare(options.work)
    record_stars(stars)
    with tempfile.TemporaryDirectory() as folder:
        for work, names in ((options.work, "^(?!cells)"), (stars, "^cells")):
            with served(work) as address:
                take(address, Path(folder), names)
        for picture in sorted(Path(folder).iterdir()):
            print(f"{pack(picture, options.to / picture.name):>9,} bytes  {picture.name}")


if __name__ == "__main__":
    main()
