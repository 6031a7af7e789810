import json
import math
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lineage_core.contract import message as messages
from lineage_core.contract.message import (
    CONTAINERS_MAX,
    Arrays,
    Begin,
    Commit,
    DeadLetter,
    End,
    Erased,
    Expected,
    Fail,
    Heartbeat,
    Job,
    Link,
    Message,
    Read,
    Recipe,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
    Stream,
    TopicOfStream,
    Totals,
    Unknown,
    dump_message,
    parse_message,
)
from lineage_core.errors import ContractError, MessageError, VersionError
from lineage_kafka.topics import RECORD_BYTES_MAX

pytestmark = pytest.mark.unit

EXAMPLES: list[Message] = [
    Begin(
        app="app-1",
        name="flights",
        started_at=1.5,
        spark_version="4.0.0",
        user="ada",
        cwd="/work",
        argv=("job.py", "é"),
    ),
    Register(
        app="app-1",
        node="4",
        kind="shuffle",
        op="reduceByKey",
        name="reduceByKey",
        description="",
        call_site="job.py:12",
        alias=None,
        exact=False,
        reason="a filter of the user's",
        partitions=8,
        path=None,
        call_path="09af.1",
        containers=("nightly", "nightly:load"),
        container_types=("pipeline", "stage"),
    ),
    Link(app="app-1", src="1", dest="4"),
    Splits(
        app="app-1",
        node="1",
        splits=(
            Split(
                partition=0,
                path="file:/a.csv",
                start=0,
                length=9,
                file_size=9,
                mtime=2.0,
                compressed=True,
            ),
        ),
    ),
    RecordSplits(
        app="app-1",
        node="2",
        whole=True,
        splits=(
            RecordSplit(
                partition=1,
                path="file:/b.bin",
                row=3,
                start=0,
                length=9,
                first=0,
                file_size=9,
                mtime=2.0,
            ),
        ),
    ),
    Commit(
        app="app-1",
        node="4",
        partition=0,
        attempt=17,
        file="4-0-17.lmf",
        blocks=1,
        flows=2,
        associations=2**70,
        bytes=100,
        rows=2,
        digest="x",
        undelivered=0,
        failed="",
        reads=(Read(space="1#0", rows=9, exhausted=True),),
        superset_reasons=("keys",),
        newlines=((3, 1),),
        collisions=0,
    ),
    Fail(app="app-1", node="4", partition=0, attempt=16, reason="lost"),
    Commit(app="app-1", node="7", partition=0, attempt=17, rows=9, keep=5),
    Job(
        app="app-1",
        job=0,
        action="collect",
        sink="7",
        call_site="job.py:14",
        expected=(Expected(node="4", partitions=(0, 1)),),
    ),
    SinkFiles(
        app="app-1",
        node="7",
        path="out",
        files=(SinkFile(partition=0, path="out/part-00000", size=9, mtime=3.0, rows=None),),
    ),
    RecordFiles(
        app="app-1",
        node="8",
        path="out",
        files=(SinkFile(partition=0, path="out/part-00000", size=9, mtime=3.0, rows=4),),
    ),
    Unknown(app="app-1", node=None, what="zip", reason="not captured", call_site="job.py:9"),
    Recipe(app="app-1", node="9", recipe='{"version":1,"plan":["é"]}'),
    Stream(
        app="app-1",
        query="q",
        run="r",
        state="begun",
        number=3,
        reads=("file:/in", ""),
        beside=("",),
        topics=(TopicOfStream(topic="t", id="i", firsts={3: 9}, assigned=True), TopicOfStream()),
        keeps="windows",
        late_by_before=True,
        watermark=-1,
        windows='{"version":3}',
    ),
    Arrays(app="app-1", part=1, parts=2, recording="AbC+/0=="),
    DeadLetter(app="app-1", place="lineage-flow/3/17", reason="not JSON", resolved=True),
    Erased(app="app-1", plan="sha256:1"),
    Heartbeat(app="app-1", at=4.0),
    End(
        app="app-1", ended_at=5.0, status="ok", totals=Totals(blocks=1, flows=2, tasks=1, recipes=1)
    ),
]


@pytest.mark.parametrize(
    "wrong",
    [{"recording": "no base64!"}, {"recording": "A" * (messages.ARRAYS_TEXT_MAX + 1)}, {"part": -1}, {"parts": 0},
     {"part": messages.ARRAYS_PARTS_MAX}, {"parts": messages.ARRAYS_PARTS_MAX + 1}, {"recording": "AA==\n"}],
)  # fmt: skip
def test_parts_of_recordings_are_bounded(wrong: dict[str, object]) -> None:
    fields = {"v": 1, "type": "arrays", "app": "app-1", "part": 0, "parts": 1, "recording": "AA=="}
    assert isinstance(parse_message(json.dumps(fields)), Arrays)
    with pytest.raises(MessageError):
        parse_message(json.dumps(fields | wrong))
    longest = Arrays(app="app-1", part=0, parts=1, recording="A" * messages.ARRAYS_TEXT_MAX)
    assert len(dump_message(longest)) < RECORD_BYTES_MAX


def test_there_is_an_example_of_each() -> None:
    assert {type(example) for example in EXAMPLES} == set(get_args(Message))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.type))
def test_messages_come_back(example: Message) -> None:
    line = dump_message(example)
    assert "\n" not in line
    assert parse_message(line) == parse_message(line.encode()) == example
    fields = json.loads(line)
    assert (fields["v"], fields["type"], fields["app"]) == (1, example.type, "app-1")
    assert parse_message(json.dumps(fields | {"new": [1]})) == example


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.type))
def test_other_versions_and_types_are_told_apart(example: Message) -> None:
    fields = json.loads(dump_message(example))
    with pytest.raises(VersionError, match="known: 1"):
        parse_message(json.dumps(fields | {"v": 2}))
    with pytest.raises(MessageError) as caught:
        parse_message(json.dumps(fields | {"type": "other"}))
    assert caught.value.where == "type"
    with pytest.raises(MessageError) as caught:
        parse_message(json.dumps(fields | {"app": ""}))
    assert caught.value.where == "app"


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"partition": "0"}, "partition"),
        ({"partition": -1}, "partition"),
        ({"partition": 0.5}, "partition"),
        ({"attempt": 2**63}, "attempt"),
        ({"flows": True}, "flows"),
        ({"failed": None}, "failed"),
        ({"failed": "x" * (2**16 + 1)}, "failed"),
        ({"reads": [{"space": "1#0", "rows": -1, "exhausted": True}]}, "reads.0.rows"),
        ({"newlines": [[1]]}, "newlines.0.1"),
        ({"newlines": [[1, 2, 3]]}, "newlines.0"),
        ({"v": "1"}, "v"),
        ({"v": True}, "v"),
        ({"v": None}, "v"),
    ],
)
def test_errors_name_the_field(changed: dict[str, Any], where: str) -> None:
    commit = next(example for example in EXAMPLES if isinstance(example, Commit))
    with pytest.raises(MessageError) as caught:
        parse_message(json.dumps(json.loads(dump_message(commit)) | changed))
    assert caught.value.where == where


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "{}",
        "{",
        "\ud800",
        b"\xff",
        "[" * 10**5,
        '{"v":1,"v":1}',
        '{"v":NaN}',
        "9" * 9999,
    ],
)
def test_what_is_no_message_is_refused(line: str | bytes) -> None:
    with pytest.raises(MessageError):
        parse_message(line)


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("", "EOF"),
        ("{", "EOF"),
        ("[1]", "not a JSON object"),
        ('{"plan":[]}', "has no version"),
        ('{"version":0}', "has no version"),
        ('{"version":true}', "has no version"),
        ('{"version":"1"}', "has no version"),
        ('{"version":1,"x":"' + "y" * messages.RECIPE_BYTES_MAX + '"}', "longer than"),
    ],
    ids=lambda value: value[:20],
)
def test_what_is_no_recipe_is_refused(recipe: str, reason: str) -> None:
    fields = {"v": 1, "type": "recipe", "app": "app-1", "node": "9", "recipe": recipe}
    with pytest.raises(MessageError, match=reason) as caught:
        parse_message(json.dumps(fields))
    assert caught.value.where == "recipe"
    with pytest.raises(ValidationError):
        Recipe(app="app-1", node="9", recipe=recipe)


def test_the_largest_recipe_fits_a_record() -> None:
    # Quotes double in JSON within JSON; nothing that JSON can hold grows by more.
    quotes = '\\"' * ((messages.RECIPE_BYTES_MAX - 20) // 2)
    recipe = Recipe(app="app-1", node="9", recipe='{"version":1,"a":"' + quotes + '"}')
    line = dump_message(recipe)
    assert len(line) < RECORD_BYTES_MAX - (64 << 10)
    assert parse_message(line) == recipe


def test_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGE_BYTES_MAX", 40)
    with pytest.raises(MessageError, match="longer"):
        parse_message(dump_message(Heartbeat(app="a", at=1.0)) + " " * 40)
    with pytest.raises(MessageError, match="longer"):
        dump_message(EXAMPLES[0])


def test_text_that_json_cannot_carry_is_replaced() -> None:
    begin = Begin(app="a", name="caf\udce9", started_at=1, argv=("\udcff",))
    assert begin.name == "caf?"
    assert parse_message(dump_message(begin)) == begin


def test_messages_are_frozen_and_checked_when_made() -> None:
    with pytest.raises(ValidationError):
        Heartbeat(app="a", at=1.0).at = 2.0  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Heartbeat(app="a", at=math.nan)


@given(st.randoms(use_true_random=False), st.sampled_from(EXAMPLES))
def test_damaged_messages_are_refused_or_read(chance: Any, example: Message) -> None:
    raw = bytearray(dump_message(example).encode())
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(raw))
        raw[at : at + chance.randrange(3)] = chance.choice(
            [b"", b'"', b"{", b"0", b"\xff", b"null", b"-"]
        )
    try:
        found = parse_message(bytes(raw))
    except ContractError:
        return
    assert parse_message(dump_message(found)) == found


def test_containers_are_left_out_by_older_senders_and_bounded() -> None:
    document: dict[str, Any] = {
        "v": 1, "type": "register", "app": "app-1", "node": "4", "kind": "sink", "op": "x"
    }  # fmt: skip
    older = parse_message(json.dumps(document))
    assert isinstance(older, Register)
    assert (older.containers, older.container_types) == ((), ())
    for field in ("containers", "container_types"):
        with pytest.raises(MessageError, match=field):
            parse_message(json.dumps(document | {field: ["c"] * (CONTAINERS_MAX + 1)}))
        for other in ([""], ["x" * 513], "c", [1]):
            with pytest.raises(MessageError):
                parse_message(json.dumps(document | {field: other}))
