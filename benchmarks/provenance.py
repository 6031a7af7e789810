"""Where a number comes from: machine, versions, commit, command."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path


def provenance() -> dict[str, object]:
    """What somebody needs to get the number again."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": shlex.join([Path(sys.executable).name, *_module(), *sys.argv[1:]]),
        "commit": _commit(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "java": _java(),
        **{name: version(name) for name in ("pyspark", "numpy", "pyarrow")},
    }


def _module() -> list[str]:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return [sys.argv[0]] if spec is None else ["-m", spec.name.removesuffix(".__main__")]


def _commit() -> str:
    """The commit, with ``+`` when the tree holds changes that are not in it.

    Images hold no history: LINEAGE_COMMIT says what they were built from.
    """
    built_from = os.environ.get("LINEAGE_COMMIT", "")
    if built_from:
        return built_from
    commit = _answer(["git", "rev-parse", "--short=12", "HEAD"])
    changed = _answer(["git", "status", "--porcelain", "--untracked-files=no"])
    return f"{commit}+" if commit and changed else commit


def _java() -> str:
    program = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    lines = _answer([str(program), "--version"]).splitlines()
    return lines[0] if lines else ""


def _answer(command: list[str]) -> str:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
    except OSError:
        return ""
    return result.stdout.strip()
