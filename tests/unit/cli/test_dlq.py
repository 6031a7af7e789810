"""How dead letters are shown: whatever they hold, a terminal and a tool can take it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from lineage.dlq import _content, _hex, _time
from lineage.main import app
from lineage_core.codec.record_batch import pack_record_batch
from lineage_core.contract.dead_letter import DeadRecord, TopicPartitionOffset
from lineage_core.terminal_text import plain
from lineage_kafka.dead_letters import DeadLetterRecord, choose_dead_letters

pytestmark = pytest.mark.unit


def letter(partition: int, offset: int) -> DeadLetterRecord:
    dead = DeadRecord(TopicPartitionOffset("lineage-edge", 2, 10 + offset), "no", "writer", 1.0)
    return DeadLetterRecord(partition, offset, dead, b"a", b"v")


def test_letters_are_named_by_offset_or_place() -> None:
    letters = [letter(0, 1), letter(0, 2), letter(1, 1)]
    assert [one.name for one in letters] == ["1", "2", "1:1"]
    assert choose_dead_letters(letters, ["1", "1:1"]) == [letters[0], letters[2]]
    assert choose_dead_letters(letters, ["0:2"]) == [letters[1]]
    assert choose_dead_letters(letters, ["lineage-edge/2/12", "nothing"]) == [letters[1]]


def test_a_frame_shows_its_header() -> None:
    found = _content(pack_record_batch(b'{"type": "block"}', b"\x00" * 10_000))
    assert found["header"] == {"type": "block"}
    assert found["hex"].startswith("00000000  4c 4d 46 31 ")
    assert len(found["hex"].splitlines()) == 32


@pytest.mark.parametrize(
    "value", [b"", b"LMF1", b"\xff" * 5_000, pack_record_batch(b"[" * 9_999, b"")]
)
def test_other_values_are_shown_as_bytes(value: bytes) -> None:
    found = _content(value)
    assert list(found) == ["hex"]
    json.dumps(found)


def test_text_is_bounded_and_can_t_steer_a_terminal() -> None:
    found = _content(b'{"a": "\x1b[31m' + b"x" * 1_000_000)
    assert len(found["text"]) < 5_000
    assert "\x1b" not in found["text"]
    assert plain("a\x1b\nü") == "a\\x1b\\nü"
    assert _hex(b"\x1b[m") == "00000000  1b 5b 6d                                         .[m"


def test_times_that_are_none() -> None:
    assert [_time(at) for at in (float("nan"), 1e300)] == ["?", "?"]


def test_without_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LINEAGE_KAFKA", raising=False)
    found = CliRunner().invoke(app, ["dlq", "list", "--json"])
    assert found.exit_code == 2
    assert "LINEAGE_KAFKA is not set" in json.loads(found.stdout)["error"]["message"]


def test_replaying_needs_to_be_told_what() -> None:
    found = CliRunner().invoke(app, ["dlq", "replay"])
    assert found.exit_code == 2
    assert "--all" in found.stderr
