"""python -m tests.hunt.driven FOLDER: the driver that `tests.hunt.driver_kind` starts, and that may be killed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.hunt.driver_kind import drive

if __name__ == "__main__":
    drive(Path(sys.argv[1]))
