"""What workers inherit from the daemon that they are forked from."""

from __future__ import annotations

import importlib
import sys
import zipfile
from pathlib import Path
from zipimport import zipimporter

import pytest

from lineage_core.environment.archives import forget_archives

pytestmark = pytest.mark.unit


def test_modules_of_archives_are_found_after_their_importers_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = str(tmp_path / "archive.zip")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archived_one.py", "value = 1")
        file.writestr("archived_two.py", "value = 2")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("archived_one").value == 1
    assert isinstance(sys.path_importer_cache[archive], zipimporter)

    forget_archives()

    held = sys.path_importer_cache.values()
    assert not any(isinstance(importer, zipimporter) for importer in held)
    assert importlib.import_module("archived_two").value == 2
