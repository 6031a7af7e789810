"""Which lines a record of an observed mapper was made from: programs of random reads and writes, by what they had read as they wrote."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.oracle.budget import examples
from tests.support.mapreduce_tasks import run_task

pytestmark = pytest.mark.property

PROGRAM = """
import json, sys

for name, text in json.loads(open("actions.json").read()):
    if name == "write":
        sys.stdout.write(text)
    elif name == "bytes":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
    elif name == "flush":
        sys.stdout.flush()
    elif name == "next":
        next(sys.stdin, "")
    elif name == "readline":
        sys.stdin.readline()
    elif name == "piece":
        sys.stdin.readline(2)
"""
Action = tuple[str, str]
LINES = 9
NEWLINE = 10
# Of whole records, and of pieces that make some.
plain = st.sampled_from(["k\tv\n", "k\tv\nlong\t1\n", "k", "\tv\n", "k\t", "v\n"])
texts = st.one_of(
    plain,
    st.text("k\tv\n", max_size=8),
    st.sampled_from(["k\n", "a\tb\tc\n", "é\t\n", "\n"]),
    # More than any buffer on the way takes.
    st.builds(lambda text: text * 70_000, st.sampled_from(["key\t1\n", "k"])),
)
reads = st.sampled_from([("next", ""), ("readline", "")])
# These end that many lines are written at once.
others = st.one_of(
    st.tuples(st.just("bytes"), texts), st.sampled_from([("piece", ""), ("flush", "")])
)


def actions_of(
    written: st.SearchStrategy[str], *more: st.SearchStrategy[Action]
) -> st.SearchStrategy[list[Action]]:
    one = st.one_of(st.tuples(st.just("write"), written), reads, *more)
    return st.lists(one, min_size=4, max_size=30)


actions = st.one_of(
    actions_of(st.just("k\tv\n")), actions_of(plain), actions_of(texts), actions_of(texts, others)
)


def expected(given: list[Action], lines: int) -> list[tuple[bytes, bytes]]:
    """Of each record the lines that it was made from, and its key and value."""
    read, is_within, is_ended = 0, False, False
    records = list[tuple[bytes, bytes]]()
    record, counts = b"", set[int]()
    for name, text in given:
        if name in ("write", "bytes"):
            for byte in text.encode():
                counts.add(-1 if is_ended else read)
                if byte == NEWLINE:
                    records.append((made_from(counts, read), record))
                    record, counts = b"", set()
                else:
                    record += bytes([byte])
        elif is_within:
            # A piece leaves the rest of its line.
            is_within = False if name != "flush" else is_within
        elif name != "flush":
            is_ended = read == lines
            read, is_within = min(read + 1, lines), name == "piece" and not is_ended
    if record:
        records.append((made_from(counts, read), record))
    return [(made, b"|".join(record.partition(b"\t")[::2])) for made, record in records]


def made_from(counts: set[int], read: int) -> bytes:
    """What the log says of a record. ``counts``: of lines read as its bytes were written, -1 at the end; ``read``: as its last one was."""
    if read == 0 or counts == {0}:
        return b"-0"
    if len(counts) == 1 and (line := max(counts)) > 0:
        return b"%d" % (line - 1)
    return b"~0-%d" % (read - 1)


@settings(max_examples=examples(30), deadline=None)
@given(given=actions)
# A record in two pieces, with lines before and behind that are read at once.
@example([("next", ""), ("write", "k"), ("next", ""), ("bytes", "")])
@example(
    [("next", ""), ("next", ""), ("write", "k"), ("next", ""), ("write", "\tv\n"), ("next", "")]
)
def test_a_record_is_made_from_what_was_read_as_it_was_written(given: list[Action]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "actions.json").write_text(json.dumps(given))
        ran = run_task(folder, PROGRAM, b"in\n" * LINES)
    assert (ran.code, ran.error) == (0, "")
    assert ran.made_from == expected(given, LINES)
    assert ran.end["rows"] == len(ran.made_from)
