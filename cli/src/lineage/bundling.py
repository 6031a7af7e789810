"""``lineage bundle``: what Spark's Python workers need for capture, as one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lineage.options import JsonOption, print_json, reported
from lineage.terminal import echo

app = typer.Typer()

UNPACKED = "lineage-workers"
"""The folder that Spark unpacks the archive to, in the working directory of each executor."""


@app.command("bundle")
@reported
def bundle(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The archive, a .tar.gz (default: lineage-workers-PYTHON-PLATFORM.tar.gz here).",
            show_default=False,
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="With NumPy and PyArrow, and with confluent-kafka where it is installed. By default they are "
            "expected on the workers.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Pack what Spark's Python workers need for capture, for clusters that have nothing of it installed.

    The archive holds compiled packages: build it with the Python version and on the platform of the workers.
    """
    from lineage.worker_archive import default_name, write_archive

    archive = output or Path(default_name())
    size = write_archive(archive, full=full)
    options = [
        *("--archives", f"{archive}#{UNPACKED}"),
        *("--conf", f"spark.executorEnv.PYTHONPATH={UNPACKED}"),
    ]
    if as_json:
        print_json({"archive": str(archive), "bytes": size, "options": options})
        return
    echo(f"wrote {archive} ({size / 1e6:.1f} MB); options for spark-submit:")
    echo(f"  {' '.join(options)}")
