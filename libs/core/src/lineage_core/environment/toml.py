"""Reads TOML by `tomllib`, or by the library that became it where Python (3.10) has none."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
