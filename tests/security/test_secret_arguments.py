"""Secrets on the command line of a job are not kept with its lineage."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from lineage_core.message import Begin
from lineage_core.redaction import redacted
from lineage_emitter.api import LineageApi
from lineage_emitter.errors import SettingsError
from lineage_emitter.settings import read_settings

pytestmark = pytest.mark.security
HUSH = "hu5h-p@ss;w0rd&x,y"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([f"--password={HUSH}"], ["--password=***"]),
        (["--token", HUSH, "in.csv"], ["--token", "***", "in.csv"]),
        (["-Ddb.passwd=" + HUSH], ["-Ddb.passwd=***"]),
        (["--conf", f"spark.my.apiKey={HUSH}"], ["--conf", "spark.my.apiKey=***"]),
        ([f"--conf=spark.hadoop.fs.s3a.secret.key={HUSH}"], ["--conf=spark.hadoop.fs.s3a.secret.key=***"]),
        ([f"AWS_SECRET_ACCESS_KEY={HUSH}", "x"], ["AWS_SECRET_ACCESS_KEY=***", "x"]),
        (["postgres://ann:hush@db/x?ssl=1"], ["postgres://ann:***@db/x?ssl=1"]),
        (["jdbc:x://db/y;user=ann;password=hush;a=b"], ["jdbc:x://db/y;user=ann;password=***;a=b"]),
        (["https://a.b/c?token=hush&d=e"], ["https://a.b/c?token=***&d=e"]),
        (['{"password": "hu sh", "a": 1}'], ['{"password": ***, "a": 1}']),
        (["-H", "Authorization: Bearer hush"], ["-H", "Authorization: ***"]),
        (["use AKIAIOSFODNN7EXAMPLE now"], ["use *** now"]),
        (["--blob", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln"], ["--blob", "***"]),
        # What is no secret stays as it is.
        (["--password-file=/run/x", "--tokenizer", "bert"], ["--password-file=/run/x", "--tokenizer", "bert"]),
        (["job.py", "s3://lake/a=1/key=2", "--sort-key", "id"], ["job.py", "s3://lake/a=1/key=2", "--sort-key", "id"]),
        (["http://a.b:80/c", "--verbose", "x@y.z"], ["http://a.b:80/c", "--verbose", "x@y.z"]),
    ],
)  # fmt: skip
def test_values_that_are_secret_are_hidden(given: list[str], kept: list[str]) -> None:
    assert redacted(given) == tuple(kept)


def test_a_setting_adds_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["job.py", "--pin", "1234", f"--password={HUSH}"])
    settings = read_settings(store=f"sqlite:///{tmp_path}/lineage.db", secret_words="pin, Code")
    with LineageApi("job", settings=settings) as lineage:
        begun = lineage.beginning
    assert isinstance(begun, Begin)
    assert begun.argv == ("job.py", "--pin", "***", "--password=***")
    for file in tmp_path.rglob("driver.jsonl"):
        assert HUSH not in file.read_text()
    with pytest.raises(SettingsError):
        read_settings(secret_words="no-word!")


def test_arguments_of_any_length_take_no_time() -> None:
    began = time.monotonic()
    for piece in ("a", "a.", "=", "://", "eyJ", "a:", "--a=", '"'):
        redacted([piece * (400_000 // len(piece))])
    assert time.monotonic() - began < 20
