from __future__ import annotations

import pytest

from lineage_emitter.errors import SettingsError
from lineage_emitter.pyspark_parts import check_version

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("version", ["3.5.0", "3.5.9", "4.1.4", "4.1.4.dev0"])
def test_tested_versions_are_taken(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["3.4.4", "3.50.1", "4.0.2", "4.2.0", "5.0.0"])
def test_others_are_refused_in_words(version: str) -> None:
    with pytest.raises(SettingsError, match=f"{version} is not supported: .* 3.5 and 4.1"):
        check_version(version)
