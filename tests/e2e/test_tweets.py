"""The published example: of films that tweets are about, the one called "Bad" is found by its suspects alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.job_runs import CLI, run_captured, run_program

pytestmark = [pytest.mark.e2e, pytest.mark.integration]
TWEETS = Path(__file__).resolve().parents[2] / "examples" / "tweets"


@pytest.mark.long
def test_the_film_called_bad_stands_out(tmp_path: Path) -> None:
    prepare = run_program(tmp_path, [sys.executable, str(TWEETS / "prepare.py"), "tweets.json"])
    assert prepare.returncode == 0, prepare.stderr
    done = run_captured(tmp_path, str(TWEETS / "job.py"), "tweets.json", "out")
    assert done.returncode == 0, done.stderr
    found = json.loads(run_program(tmp_path, [*CLI, "suspects", "--json"]).stdout)
    assert (found["exact"], found["complete"], found["tasks"]) == (True, True, [])
    (key,) = found["keys"]
    assert [row["text"].partition(", ")[0] for row in key["rows"]] == ["(('Bad'"]
    assert "('Bad', 'bad')" in key["rows"][0]["text"]
    tweets = [
        json.loads(line)["text"]
        for line in (tmp_path / "tweets.json").read_text(encoding="utf-8").splitlines()
    ]
    assert key["deviation"]["value"] == sum("Bad" in text for text in tweets)
