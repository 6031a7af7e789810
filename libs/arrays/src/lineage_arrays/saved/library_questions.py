"""As :mod:`lineage_arrays.saved.file_questions`, with the libraries of formats loaded: the process may open no file later."""

from __future__ import annotations

from lineage_arrays.formats.loading import load_libraries
from lineage_arrays.saved.file_questions import OPERATIONS

__all__ = ["OPERATIONS"]

load_libraries()
