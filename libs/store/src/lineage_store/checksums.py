"""Checksums of whole files, as lineage has them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def sha256_of(parts: Iterable[bytes | memoryview]) -> str:
    """The checksum of a file's bytes, which come in parts: ``sha256:`` and the digest in hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return f"sha256:{digest.hexdigest()}"
