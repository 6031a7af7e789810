"""The examples do what they promise."""

import json
import sys
from pathlib import Path

import pytest

from tests.job_runs import CLI, run_program

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_demo_finds_the_flights_behind_a_surprising_row(tmp_path: Path) -> None:
    done = run_program(tmp_path, [sys.executable, str(EXAMPLES / "flights" / "demo.py"), "work"])
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    assert "$ lineage run" in done.stdout
    assert ": complete" in done.stdout
    assert "from 9 rows of data/flights.csv" in done.stdout
    assert "$ lineage forward data/weather.csv:" in done.stdout


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
