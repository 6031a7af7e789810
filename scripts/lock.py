"""Write or check requirements.lock: universal, with hashes, free of addresses.

requirements-spark<version>.lock holds the pins that stand in the place of others where Spark is of that version.

Needs nothing but the standard library and uv (the one under .tools), so it runs before any package is
installed. The members and their names are read from the workspace; nothing is listed twice.
"""

from __future__ import annotations

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SPARK = "4.1"
"""The version that requirements.lock pins."""
OTHER_SPARKS = ("3.5", "4.0", "4.2", "4.3")
"""Versions that tests run in, too; each has a lock beside it."""
UV = ROOT / ".tools" / "bin" / "uv"
OLDEST_PYTHON = "3.11"

# Without comments `export` and `pip compile` write the same form, so the check compares bytes. (Pins that
# `keep` adds may also list the hashes of wheels for Pythons older than ours; the next `upgrade` drops them.)
BARE = ["--no-header", "--no-annotate"]


def workspace() -> dict[str, list[str]]:
    """The workspace's members (folders), their distribution names, and the dependency groups."""
    root = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    members: list[str] = root["tool"]["uv"]["workspace"]["members"]
    projects = [
        tomllib.loads((ROOT / m / "pyproject.toml").read_text(encoding="utf-8")) for m in members
    ]
    return {
        "members": members,
        "names": [project["project"]["name"] for project in projects],
        "groups": list(root["dependency-groups"]),
    }


def uv(*arguments: str) -> None:
    """Run uv in the root; its own message is the error message."""
    finished = subprocess.run([str(UV), *arguments], cwd=ROOT, check=False)
    if finished.returncode:
        sys.exit(finished.returncode)


def upgrade() -> None:
    """Resolve anew: the newest versions that fit."""
    uv("lock", "--quiet", "--upgrade", "--upgrade-package", f"pyspark=={SPARK}.*")
    uv(
        "export", "--quiet", "--all-packages", "--all-groups", "--no-emit-workspace",
        "--format", "requirements-txt", *BARE, "--output-file", str(LOCK),
    )  # fmt: skip
    locked = LOCK.read_text(encoding="utf-8")
    for version in OTHER_SPARKS:
        lock_of(version).write_text(wanted_in(version, locked), encoding="utf-8")


def lock_of(version: str) -> Path:
    """The pins of another Spark."""
    return ROOT / f"requirements-spark{version}.lock"


def resolve(lock: Path, members: Sequence[str], groups: Sequence[str], *more: str) -> None:
    """Bring a lock in line with what members and groups require, keeping every pin that still fits.

    ``more``: further words for ``uv pip compile``.
    """
    uv(
        "pip", "compile", "--quiet", "--universal", "--python-version", OLDEST_PYTHON,
        "--generate-hashes", *BARE,
        *(f"--group=pyproject.toml:{group}" for group in groups),
        *(f"--no-emit-package={name}" for name in workspace()["names"]),
        *(f"{member}/pyproject.toml" for member in members), *more,
        "--output-file", str(lock),
    )  # fmt: skip


def keep() -> None:
    """Bring the locks in line with the whole workspace."""
    LOCK.write_text(resolved(SPARK, LOCK.read_text(encoding="utf-8")), encoding="utf-8")
    for version in OTHER_SPARKS:
        lock_of(version).write_text(wanted_in(version, with_spark(version)), encoding="utf-8")


def with_spark(version: str) -> str:
    """The lock where Spark is of another version."""
    own = lock_of(version)
    pins = _by_package(LOCK) | (_by_package(own) if own.exists() else {})
    return "".join(pins[name] for name in sorted(pins))


def wanted_in(version: str, locked: str) -> str:
    """The pins that differ from the lock's where Spark is of another version."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LOCK.name
        copy.write_text(resolved(version, locked), encoding="utf-8")
        pins, usual = _by_package(copy), _by_package(LOCK)
    return "".join(pin for name, pin in pins.items() if pin != usual.get(name))


def resolved(version: str, locked: str) -> str:
    """All pins where Spark is of a version; those of ``locked`` are kept that still fit."""
    with tempfile.TemporaryDirectory() as folder:
        copy, bound = Path(folder) / LOCK.name, Path(folder) / "spark.txt"
        copy.write_text(locked, encoding="utf-8")
        bound.write_text(f"pyspark=={version}.*", encoding="utf-8")
        members = workspace()
        resolve(copy, members["members"], members["groups"], "--constraints", str(bound))
        return copy.read_text(encoding="utf-8")


def check() -> None:
    """Exit with an error when a lock no longer fits the members, or holds an address."""
    locked = LOCK.read_text(encoding="utf-8")
    _compare(LOCK, resolved(SPARK, locked))
    for version in OTHER_SPARKS:
        _compare(lock_of(version), wanted_in(version, with_spark(version)))


def _compare(lock: Path, expected: str) -> None:
    """Exit with an error when a lock is not what is wanted, or holds an address."""
    locked = lock.read_text(encoding="utf-8")
    if "://" in locked:
        sys.exit(f"{lock.name} holds an address; make it again: make lock")
    if expected != locked:
        changes = difflib.unified_diff(
            locked.splitlines(), expected.splitlines(), lock.name, "wanted", n=0, lineterm=""
        )
        print("\n".join(changes))
        sys.exit(f"{lock.name} does not fit what the members require; renew it: make lock")


def closure(member: str) -> list[str]:
    """A member and the members that it needs, in the workspace's order."""
    members = workspace()
    if member not in members["members"]:
        sys.exit(f"no member is called {member!r}; there are {', '.join(members['members'])}")
    folder_of = dict(zip(members["names"], members["members"], strict=True))
    needed: set[str] = set()
    waiting = [member]
    while waiting:
        folder = waiting.pop()
        needed.add(folder)
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        names = (
            re.split(r"[^A-Za-z0-9._-]", requirement)[0]
            for requirement in project["project"]["dependencies"]
        )
        waiting += {folder_of[name] for name in names if name in folder_of} - needed
    return [folder for folder in members["members"] if folder in needed]


def subset(member: str, groups: Sequence[str]) -> None:
    """Print the part of the lock that one member and some groups need; an image installs no more.

    Exits with an error when the lock lacks something: an image holds what was tested, or is not built.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / LOCK.name
        copy.write_text(LOCK.read_text(encoding="utf-8"), encoding="utf-8")
        resolve(copy, closure(member), groups)
        part = copy.read_text(encoding="utf-8")
    strange = sorted(_pins(part) - _pins(LOCK.read_text(encoding="utf-8")))
    if strange:
        sys.exit(f"requirements.lock lacks {', '.join(strange)}; renew it: make lock")
    print(part, end="")


def _by_package(lock: Path) -> dict[str, str]:
    """The lock's text in parts: for each package its pins, of several Pythons there may be several."""
    parts: dict[str, str] = {}
    for part in re.split(r"(?m)^(?=\S)", lock.read_text(encoding="utf-8")):
        name = part.partition("==")[0]
        parts[name] = parts.get(name, "") + part
    parts.pop("", None)
    return parts


def _pins(lock: str) -> set[str]:
    """Name and version of each package, and each hash."""
    return set(re.findall(r"^[^\s#-]\S*==\S+|--hash=\S+", lock, re.MULTILINE))


def main() -> None:
    """Do what the words say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "action", choices=["check", "keep", "upgrade", "members", "subset", "spark"]
    )
    parser.add_argument(
        "member",
        nargs="?",
        help="folder of one member: subset prints its part of the lock, members what it needs; "
        "spark prints the lock where Spark is of this version, as 4.3",
    )
    parser.add_argument("groups", nargs="*", help="of pyproject.toml, besides the member")
    options = parser.parse_args()
    action: str = options.action
    if action == "subset" and not options.member:
        parser.error("subset needs a member, for example services/linker")
    if action == "check":
        check()
    elif action == "keep":
        keep()
    elif action == "upgrade":
        upgrade()
    elif action == "spark":
        if options.member not in OTHER_SPARKS:
            parser.error(f"spark needs a version of {', '.join(OTHER_SPARKS)}")
        print(with_spark(options.member), end="")
    elif action == "subset":
        subset(options.member, options.groups)
    else:
        print(*(closure(options.member) if options.member else workspace()["members"]))


if __name__ == "__main__":
    main()
