"""Look up what the locks pin among known vulnerabilities.

    audit.py [--required] [WORDS for pip-audit, as --ignore-vuln ID]

Python packages of each lock, by version and for this platform: OSV's database, or one that answers like it
(PIP_AUDIT_OSV_URL). What the web page is built from: the audit of npm's registry. Fails where something is found. Where
no database answers it says "not scanned", and fails with --required alone: what was not scanned is never called clean.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = (
    "requirements.lock",
    "requirements-spark35.lock",
    "scripts/uv.lock.txt",
    "scripts/node.lock.txt",
)
WEB = ROOT / "services/query-api/web"
ANSWER_S = 15
"""Until a database answers one question."""
SCAN_S = 600
"""Until a whole lock is scanned."""


class NotScannedError(Exception):
    """No database has answered for everything that a lock pins."""


def in_python(lock: Path, words: Sequence[str] = ()) -> list[str]:
    """Known vulnerabilities of what a lock pins, a line each.

    Raises:
        NotScannedError: of some package nobody could tell.
    """
    # Strict: a package that the database does not know would be left out of the answer with a word on the side.
    told = _told(
        sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes", "--strict",
        "--vulnerability-service", "osv", "--timeout", str(ANSWER_S), "--format", "json", "--progress-spinner", "off",
        *words,
    )  # fmt: skip
    found = told.get("dependencies")
    if not isinstance(found, list) or not found or any("vulns" not in one for one in found):
        raise NotScannedError("pip-audit names no packages")
    return [
        f"{one['name']} {one['version']}: {vulnerability['id']}"
        + (f", mended in {', '.join(vulnerability['fix_versions'])}" if vulnerability["fix_versions"] else "")
        for one in found
        for vulnerability in one["vulns"]
    ]  # fmt: skip


def in_page(folder: Path = WEB) -> list[str]:
    """Known vulnerabilities of what the page is built from, a line for each package.

    Raises:
        NotScannedError: the registry does not tell.
    """
    node = str(ROOT / "scripts/node.sh")
    told = _told(node, "exec", "npm", "audit", "--package-lock-only", "--json", folder=folder)
    found = told.get("vulnerabilities")
    if not isinstance(found, dict):
        raise NotScannedError(str(told.get("message", "npm names no packages")))
    return [f"{name}: {one.get('severity', 'unknown')}" for name, one in sorted(found.items())]


def _told(*command: str, folder: Path = ROOT) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SCAN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotScannedError(str(error)) from error
    try:
        told = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or ["it says nothing"]
        raise NotScannedError(said[-1][:300]) from None
    if not isinstance(told, dict):
        raise NotScannedError("another answer than was asked for")
    return told


def main() -> int:
    """Scan all; 1 where something was found, or is required and could not be scanned."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--required", action="store_true", help="fail where no database answers")
    given, words = parser.parse_known_args()
    status = 0
    for name in (*LOCKS, "services/query-api/web/package-lock.json"):
        try:
            found = in_page() if name.endswith(".json") else in_python(ROOT / name, words)
        except NotScannedError as error:
            print(f"{name}: not scanned: no database of vulnerabilities answers ({error})")
            status |= given.required
            continue
        print(f"{name}: {len(found)} known vulnerabilities", *found, sep="\n  ")
        status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
