"""Files whose bytes are items: a node for each, positions are offsets."""

from __future__ import annotations

import os

from lineage_core.contract.positions import file_node
from lineage_emitter.errors import CaptureFailedError

FILES_MAX = 100_000
"""Files of one application: each is a node of its graph."""


class FileSpaces:
    """The files of one application. Not thread-safe."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._names: set[str] = set()

    def node_of(self, path: str) -> tuple[str, bool]:
        """The node of a file, and whether it is a new one.

        Raises:
            CaptureFailedError: there are too many.
        """
        known = self._nodes.get(path)
        if known is not None:
            return known, False
        if len(self._nodes) >= FILES_MAX:
            raise CaptureFailedError(f"more than {FILES_MAX} files: parts of others are not linked")
        place = path if "://" in path else os.path.realpath(path)
        node = file_node(place)
        is_new = node not in self._names
        self._nodes[path] = node
        self._names.add(node)
        return node, is_new

    def is_file(self, node: str) -> bool:
        """Whether a node is one of these files."""
        return node in self._names


def is_compressed(path: str) -> bool:
    """Whether Hadoop would read the file through a codec, by its extension."""
    return path.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"))
