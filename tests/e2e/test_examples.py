"""The examples do what they promise."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.flights_demo import Demo
from tests.support.job_runs import CLI, run_program

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_demo_finds_the_flights_behind_a_surprising_row(demo: Demo) -> None:
    assert "$ lineage run" in demo.printed
    assert ": complete" in demo.printed
    assert "from 9 rows of data/flights.csv" in demo.printed
    assert "$ lineage forward data/weather.csv:" in demo.printed


def test_plain_python_tells_which_orders_a_total_is_made_of(tmp_path: Path) -> None:
    script = EXAMPLES / "plain_python" / "totals.py"
    done = run_program(tmp_path, [sys.executable, str(script)])
    assert (done.returncode, done.stdout) == (0, "ann,50\nbob,7\ncem,10\n")
    back = run_program(tmp_path, [*CLI, "back", "totals.csv, line 1", "--json"])
    (source,) = json.loads(back.stdout)["sources"]
    assert [item["text"] for item in source["items"]] == [
        "orders.csv, line 2",
        "orders.csv, line 4",
        "orders.csv, line 7",
    ]
    assert run_program(tmp_path, [*CLI, "verify"]).returncode == 0
