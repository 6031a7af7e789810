"""The scripts of the web page's package."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "services" / "query-api" / "web"


def npm(*words: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a script of the page's package; what it prints is the reason when it fails."""
    done = subprocess.run(
        [str(ROOT / "scripts" / "node.sh"), "exec", "npm", "run", "--silent", *words],
        cwd=WEB,
        env=os.environ | {"NO_COLOR": "1"} | dict(environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]
