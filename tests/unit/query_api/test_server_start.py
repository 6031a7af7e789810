"""What a server loads when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit


def test_a_server_loads_no_driver_that_its_store_does_not_need() -> None:
    code = """
import sys
import lineage_query_api.app
print([name for name in ("neo4j", "pandas", "pyspark") if name in sys.modules])
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
