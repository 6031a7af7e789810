"""Archives of Python's modules, as the daemons of workers have them."""

from __future__ import annotations

import sys
from zipimport import zipimporter


def forget_archives() -> None:
    """Drop the importers of PySpark's own archives that loading it has left behind.

    A worker calls ``importlib.invalidate_caches`` at each task, where each of them reads its whole archive
    again: 0.1 s a task. An import makes an importer anew, from what is known of the archive.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
