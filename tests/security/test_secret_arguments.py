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
        (["mysql", "-u", "ann", "-phush", "db"], ["mysql", "-u", "ann", "-p***", "db"]),
        (["-uann", "-p", "hush", "x"], ["-uann", "-p", "***", "x"]),
        (["job.py", "-pHu5h!"], ["job.py", "-p***"]),
        (["-u", "ann:hush", "--user=bob"], ["-u", "ann:***", "--user=bob"]),
        (["db=ann:hu5h@host:5432/x"], ["db=ann:***@host:5432/x"]),
        (["ann:hush@host"], ["ann:***@host"]),
        (["jdbc:oracle:thin:ann/hush@host:1521:x"], ["jdbc:oracle:thin:ann/***@host:1521:x"]),
        (["Server=a;Uid=b;Pwd={hu;sh};c=d"], ["Server=a;Uid=b;Pwd=***;c=d"]),
        (['{"password": "hu\\"sh", "a": 1}'], ['{"password": ***, "a": 1}']),
        (['{"passwords": ["hu", "sh"], "a": 1}'], ['{"passwords": ***, "a": 1}']),
        (['"{\\"password\\": \\"hush\\", \\"a\\": 1}"'], ['"{\\"password\\": ***, \\"a\\": 1}"']),
        (['{"password": "hu sh, no end'], ['{"password": ***']),
        (["https://a.b/c?d=password%3Dhush"], ["https://a.b/c?d=password%3D***"]),
        (["https://a.b/c?sv=1&sig=hu%2Fsh&e=f"], ["https://a.b/c?sv=1&sig=***&e=f"]),
        (["--header", "Bearer hu5hhu5hhu5h"], ["--header", "Bearer ***"]),
        (["x wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"], ["x ***"]),
        (["--conf", "spark.hadoop.fs.azure.sas.c.acct=hush"], ["--conf", "spark.hadoop.fs.azure.sas.c.acct=***"]),
        (["dapi" + "0123456789abcdef" * 2], ["***"]),
        (["A=" + "Ab1/" * 21 + "ab=="], ["A=***"]),
        # What is no secret stays as it is.
        *(
            (given, given)
            for given in (
                ["-p", "8080", "-p8080", "-print", "-pdata/in", "-p8080:80", "-profile", "-Pprod"],
                ["-u", "ann", "-p", "8080:80", "-u", "1000:1000"],
                ["--max-token-count=5", "--token-limit", "100", "--spark.ssl.needClientAuth=true"],
                ["--conf", "spark.hadoop.fs.s3a.aws.credentials.provider=org.a.B"],
                ["mailto:x@y.z", "img:1.2@sha256:0a1b", "run:10:30@Oslo", "git@github.com:a/b.git", "a@b.c:d"],
                ["da39a3ee5e6b4b0d3255bfef95601890afd80709", "data/Lake2024/Tables/customers/part00012"],
                ["s3://Lake/2024/Tables/customers/part0000001", "Basic statistics", "bearer of"],
                ["4#0.17", "out/part-0.parquet#3", 'out#city=Oslo,at="a"', "2024-01-01T10:00:00Z"],
            )
        ),
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
    for piece in (
        "a",
        "a.",
        "=",
        "://",
        "eyJ",
        "a:",
        "--a=",
        '"',
        "\\",
        '\\"',
        "[",
        "{",
        "password=[",
        'password="\\',
        "-p",
        "a:b@",
        "Bearer ",
        "aA1",
    ):
        redacted([piece * (400_000 // len(piece))])
    assert time.monotonic() - began < 20
