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
    *sorted(lock.name for lock in ROOT.glob("requirements-spark*.lock")),
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
    report = _told(
        sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes", "--strict",
        "--vulnerability-service", "osv", "--timeout", str(ANSWER_S), "--format", "json", "--progress-spinner", "off",
        *words,
    )  # fmt: skip
    dependencies = report.get("dependencies")
    if (
        not isinstance(dependencies, list)
        or not dependencies
        or any("vulns" not in dependency for dependency in dependencies)
    ):
        raise NotScannedError("pip-audit names no packages")
    return [
        f"{dependency['name']} {dependency['version']}: {vulnerability['id']}"
        + (f", mended in {', '.join(vulnerability['fix_versions'])}" if vulnerability["fix_versions"] else "")
        for dependency in dependencies
        for vulnerability in dependency["vulns"]
    ]  # fmt: skip


def in_page(folder: Path = WEB) -> list[str]:
    """Known vulnerabilities of what the page is built from, a line for each package.

    Raises:
        NotScannedError: the registry does not tell.
    """
    node = str(ROOT / "scripts/node.sh")
    report = _told(node, "exec", "npm", "audit", "--package-lock-only", "--json", folder=folder)
    vulnerabilities = report.get("vulnerabilities")
    if not isinstance(vulnerabilities, dict):
        raise NotScannedError(str(report.get("message", "npm names no packages")))
    return [
        f"{name}: {entry.get('severity', 'unknown')}"
        for name, entry in sorted(vulnerabilities.items())
    ]


def _told(*command: str, folder: Path = ROOT) -> dict[str, Any]:
    try:
        result = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SCAN_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotScannedError(str(error)) from error
    try:
        report = json.loads(result.stdout)
    except ValueError:
        errors = result.stderr.strip().splitlines() or ["it says nothing"]
        raise NotScannedError(errors[-1][:300]) from None
    if not isinstance(report, dict):
        raise NotScannedError("another answer than was asked for")
    return report


def main() -> int:
    """Scan all; 1 where something was found, or is required and could not be scanned."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--required", action="store_true", help="fail where no database answers")
    options, words = parser.parse_known_args()
    status = 0
    for name in (*LOCKS, "services/query-api/web/package-lock.json"):
        try:
            findings = in_page() if name.endswith(".json") else in_python(ROOT / name, words)
        except NotScannedError as error:
            print(f"{name}: not scanned: no database of vulnerabilities answers ({error})")
            status |= options.required
            continue
        print(f"{name}: {len(findings)} known vulnerabilities", *findings, sep="\n  ")
        status |= bool(findings)
    return status


if __name__ == "__main__":
    sys.exit(main())
