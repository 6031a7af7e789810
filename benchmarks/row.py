"""Puts out what a benchmark measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def put_out(row: Mapping[str, Any], file: Path | None) -> None:
    """Print a row as one line of JSON, and append it to a file where one is named."""
    line = json.dumps(row)
    print(line)
    if file is not None:
        with file.open("a", encoding="utf-8") as results:
            results.write(line + "\n")
