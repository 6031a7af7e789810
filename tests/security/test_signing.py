"""What a release signs: by digest, with the key that is given, and nothing where something is missing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGEST = "sha256:" + "0a" * 32
COSIGN = f"""
echo "$@" >> "$CALLS"
case $1 in
version) echo "GitVersion:    ${{COSIGN_VERSION:-v3.1.3}}" ;;
triangulate) [ -z "${{NO_DIGEST:-}}" ] || exit 1; echo "${{4%:*}}@{DIGEST}" ;;
sign-blob) : > "$8" ;;
esac
"""
HELM = """
mkdir -p "$4" && : > "$4/lineage-master-0.1.0.tgz"
"""

pytestmark = pytest.mark.security


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The script, with programs that write down what they are asked for."""
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts/sign.sh"
    script.write_bytes((ROOT / "scripts/sign.sh").read_bytes())
    script.chmod(0o700)
    for name, text in (("cosign", COSIGN), ("helm", HELM), ("make", "")):
        program = tmp_path / name
        program.write_text("#!/bin/sh" + text + "\n", encoding="utf-8")
        program.chmod(0o700)
    return tmp_path


def sign(tree: Path, **given: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    calls = tree / "calls"
    calls.touch()
    path = f"{tree}:{os.environ['PATH']}"
    done = subprocess.run(
        [tree / "scripts/sign.sh"], env={"PATH": path, "CALLS": str(calls), **given},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done, calls.read_text(encoding="utf-8").splitlines()


REGISTRY = {"COSIGN_KEY": "k.key", "IMAGE_PREFIX": "registry.example.org/team/"}


def test_images_are_signed_by_digest_and_the_chart_as_a_file(tree: Path) -> None:
    done, calls = sign(tree, **REGISTRY, VERSION="7")
    assert done.returncode == 0, done.stderr
    by_digest = [
        f"registry.example.org/team/{one}@{DIGEST}"
        for one in ("linker", "writer", "query-api", "spark")
    ]
    assert done.stdout.splitlines() == [*by_digest, "build/charts/lineage-master-0.1.0.tgz"]
    signed = [call.split() for call in calls if call.startswith(("sign ", "attest ", "sign-blob "))]
    assert [words[-1] for words in signed if words[0] == "sign"] == by_digest
    assert [words[-1] for words in signed if words[0] == "attest"] == by_digest
    assert all(words[1:4] == ["--yes", "--key", "k.key"] for words in signed)
    # No signature is told to a public log.
    assert all(words[4] == "--signing-config" for words in signed)
    assert (tree / "build/charts/lineage-master-0.1.0.tgz.sigstore.json").exists()


def test_without_a_key_it_says_so_and_signs_nothing(tree: Path) -> None:
    done, calls = sign(tree, IMAGE_PREFIX="registry.example.org/team/")
    assert (done.returncode, calls) == (0, [])
    assert done.stdout == "sign: not signed: no key (COSIGN_KEY)\n"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"IMAGE_PREFIX": ""}, "name the registry"),
        ({"IMAGE_PREFIX": "lineage-master/"}, "name the registry"),
        ({"COSIGN_VERSION": "v2.4.1"}, "cosign 3 is not on the PATH"),
        ({"NO_DIGEST": "1"}, ""),
    ],
)
def test_nothing_is_signed_where_something_is_missing(
    tree: Path, given: dict[str, str], why: str
) -> None:
    done, calls = sign(tree, **{**REGISTRY, **given})
    assert done.returncode != 0
    assert why in done.stderr
    assert not [call for call in calls if call.startswith(("sign ", "attest ", "sign-blob "))]
