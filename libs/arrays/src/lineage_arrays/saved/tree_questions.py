"""As :mod:`lineage_arrays.saved.file_questions`, of arrays in folders, with their library loaded: the process may open no file later."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lineage_arrays.formats.loading import load_zarr

_FROM = "lineage_arrays.saved.file_questions"
OPERATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"picture": (_FROM, "draw_tree_picture"), "values": (_FROM, "list_tree_values")}
)

load_zarr()
