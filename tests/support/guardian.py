"""Ends servers that a run of the tests leaves behind, however it ends.

    python tests/support/guardian.py FOLDER

waits until its standard input closes (its parent is done, or was killed), kills every process that has a
pid file under FOLDER, and removes FOLDER.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from lineage.stack import processes


def main(folder: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for file in folder.rglob("*.pid"):
        process = processes.load(file)
        if process is not None:
            process.kill()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
