"""Secrets on the command line of a job are not kept with its lineage."""

from __future__ import annotations

import json
import random
import string
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lineage_core.contract.message import Begin
from lineage_core.environment.redaction import redact_arguments
from lineage_emitter.errors import SettingsError
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.settings import read_settings

pytestmark = pytest.mark.security
HUSH = "hu5h-p@ss;w0rd&x,y"


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ([f"--password={HUSH}"], ["--password=***"]),
        (["--token", HUSH, "in.csv"], ["--token", "***", "in.csv"]),
        (["-Ddb.passwd=" + HUSH], ["-Ddb.passwd=***"]),
        (["-mapper", f"python3 'a b.py' --password {HUSH}"], ["-mapper", "python3 a b.py --password ***"]),
        (["-mapper", f"curl -u ann:{HUSH} http://a"], ["-mapper", "curl -u ann:*** http://a"]),
        ([f"sh -c 'mysql --user=ann -p{HUSH}'"], ["sh -c mysql --user=ann -p***"]),
        ([f"m.py --token '{HUSH}"], ["m.py --token ***"]),
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
        (['{"name": "password", "value": "hush", "a": 1}'], ['{"name": "password", "value": ***, "a": 1}']),
        (['[{"value": "hush", "type": "x", "key": "db.password"}, {"key": "a", "value": "b"}]'],
         ['[{"value": ***, "type": "x", "key": "db.password"}, {"key": "a", "value": "b"}]']),
        (["ParameterKey=DbPassword,ParameterValue=hush,a=b"], ["ParameterKey=DbPassword,ParameterValue=***,a=b"]),
        (['{"secret": {"a": {"b": 1}, "c": "hush"}, "d": 2}'], ['{"secret": ***, "d": 2}']),
        (['{"secrets": ["hu]sh", ["x"]], "d": 2}'], ['{"secrets": ***, "d": 2}']),
        (['{"a": "{\\"b\\": \\"{\\\\\\"password\\\\\\": \\\\\\"hush\\\\\\", \\\\\\"c\\\\\\": 1}\\"}"}'],
         ['{"a": "{\\"b\\": \\"{\\\\\\"password\\\\\\": ***, \\\\\\"c\\\\\\": 1}\\"}"}']),
        (["https://a.b/?c=%7B%22password%22%3A%22hush%22%2C%22d%22%3A1%7D"],
         ["https://a.b/?c=%7B%22password%22%3A***%2C%22d%22%3A1%7D"]),
        (["https://a.b/?user[password]=hush&c=d"], ["https://a.b/?user[password]=***&c=d"]),
        (["https://a.b/?user%5Bpassword%5D=hush&c=d"], ["https://a.b/?user%5Bpassword%5D=***&c=d"]),
        (["https://a.b/?c=d%253Fa%26token%253Dhush"], ["https://a.b/?c=d%253Fa%26token%253D***"]),
        (["https://a.b/?next=postgres%3A%2F%2Fann%3Ahush%40db%2Fx"], ["https://a.b/?next=postgres%3A%2F%2Fann%3A***%40db%2Fx"]),
        (["-u", "ann", "-print", "-print0", "-profile"], ["-u", "ann", "-print", "-print0", "-profile"]),
        (["-u", "ann", "-password", "hush"], ["-u", "ann", "-password", "***"]),
        # What is no secret stays as it is.
        *(
            (usual, usual)
            for usual in (
                ["-p", "8080", "-p8080", "-print", "-pdata/in", "-p8080:80", "-profile", "-Pprod"],
                ["-u", "ann", "-p", "8080:80", "-u", "1000:1000"],
                ["--max-token-count=5", "--token-limit", "100", "--spark.ssl.needClientAuth=true"],
                ["--conf", "spark.hadoop.fs.s3a.aws.credentials.provider=org.a.B"],
                ["mailto:x@y.z", "img:1.2@sha256:0a1b", "run:10:30@Oslo", "git@github.com:a/b.git", "a@b.c:d"],
                ["da39a3ee5e6b4b0d3255bfef95601890afd80709", "data/Lake2024/Tables/customers/part00012"],
                ["s3://Lake/2024/Tables/customers/part0000001", "Basic statistics", "bearer of"],
                ["CustomerOrders2024AggregationRunnerV2Jb1", "--class", "OrdersByRegion2023And2024ToParquetJobV01"],
                ['{"name": "city", "value": "Oslo"}', "https://a.b/?c=%7B%22city%22%3A%22Oslo%22%7D"],
                ["https://a.b/?next=https%3A%2F%2Fa.b%3A80%2Fc%40d", "a%3Db%26c%3Dd"],
                ["4#0.17", "out/part-0.parquet#3", 'out#city=Oslo,at="a"', "2024-01-01T10:00:00Z"],
            )
        ),
        (["--password-file=/run/x", "--tokenizer", "bert"], ["--password-file=/run/x", "--tokenizer", "bert"]),
        (["job.py", "s3://lake/a=1/key=2", "--sort-key", "id"], ["job.py", "s3://lake/a=1/key=2", "--sort-key", "id"]),
        (["http://a.b:80/c", "--verbose", "x@y.z"], ["http://a.b:80/c", "--verbose", "x@y.z"]),
    ],
)  # fmt: skip
def test_values_that_are_secret_are_hidden(arguments: list[str], kept: list[str]) -> None:
    assert redact_arguments(arguments) == tuple(kept)


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


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = st.sampled_from(["password", "dbPassword", "api_key", "AWS_SECRET_ACCESS_KEY", "token"])
MARK = "hu5h"


def shapes(name: str, secret: str) -> list[object]:
    return [
        {name: secret},
        {"a": 1, name: secret, "b": [2]},
        {name: [secret, secret]},
        {name: {"a": {"b": secret}, "c": secret}},
        {"name": name, "value": secret},
        {"value": secret, "name": name},
        {"name": name, "type": "string", "value": secret},
    ]


@example("password", '"', "", 0, 0, 2, False)
@example("password", "\x1f" * 20, "\x1f" * 20, 5, 4, 2, False)
@given(NAMES, TEXTS, TEXTS, st.integers(0, 6), st.integers(0, 4), st.integers(0, 2), st.booleans())
def test_a_secret_in_json_in_json_in_a_url_is_hidden(
    name: str, before: str, behind: str, shape: int, levels: int, quoted: int, option: bool
) -> None:
    value = shapes(name, before + MARK + behind)[shape]
    for _ in range(levels):
        value = {"conf": json.dumps(value)}
    argument = json.dumps(value)
    for _ in range(quoted):
        argument = quote(argument, safe="")
    if quoted:
        argument = f"https://a.b/?c={argument}&d=e"
    assert MARK not in "".join(redact_arguments([f"--conf={argument}" if option else argument]))


PLAIN = st.text("abcdefgh0123456789XYZ/.,:;=-_ {}[]\"'%", max_size=60)


@given(st.lists(PLAIN, max_size=4))
def test_arguments_without_a_word_for_secrets_stay(arguments: list[str]) -> None:
    usual = [one for one in arguments if not one.startswith("-p")]
    assert redact_arguments(usual) == tuple(usual)


def test_keys_of_random_signs_are_hidden() -> None:
    draw = random.Random(1)
    signs = string.ascii_letters + string.digits + "+/"
    keys = ["".join(draw.choices(signs, k=40)) for _ in range(20_000)]
    kept = sum(one == key for one, key in zip(redact_arguments(keys), keys, strict=True))
    # Those that change too seldom, as paths do, or are made of words.
    assert kept < 400


WITHIN_EACH_OTHER = "value=\\\\\\'" * 8 + "key=password}" * 500
"""Values without an end, and names that each of them may belong to."""


def test_values_that_lie_within_each_other_beyond_measure_are_hidden() -> None:
    piece = "value=[[[ key=password} "
    assert redact_arguments([piece * 3]) == (piece * 3,)
    assert redact_arguments([piece * 5_000]) == ("***",)


@pytest.mark.long
def test_arguments_of_any_length_take_no_time() -> None:
    began = time.process_time()
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
        "%25",
        "%22",
        '\\\\"',
        "name: password",
        "name: password, value",
        '"value":',
        "password=%22",
        "password=[[\"'",
        "%3A%2F%2F",
    ):
        redact_arguments([piece * (400_000 // len(piece))])
    redact_arguments([WITHIN_EACH_OTHER + "'" * 400_000])
    redact_arguments([WITHIN_EACH_OTHER * 50 + "'" * 50_000])
    assert time.process_time() - began < 20
