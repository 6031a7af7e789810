"""Jobs of Hadoop Streaming on Hadoop's local runner: what their outputs are traced to is what brute force says."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage_core.tracing.trace_result import Direction
from lineage_emitter.sdk.mapreduce_adapter import MAP_REASON, REDUCE_REASON
from lineage_query.answers import Answer
from tests.hadoop.streaming import streaming_command
from tests.support.job_runs import (
    CLI,
    Row,
    applications,
    ask,
    contents,
    part_files,
    run_program,
    traced,
    verify,
    write_job,
)

pytestmark = pytest.mark.e2e

MAPPER = """
    import sys

    for line in sys.stdin:
        for word in line.split():
            if word == "cr":
                sys.stdout.write("cr\\t1\\r")  # ends a record, as Hadoop reads it
            elif word == "two":
                sys.stdout.write("two\\t1\\r\\ntwo\\t1\\n")
            elif word == "keyless":
                print("\\t1")
            elif word == "bare":
                print("bare")
            else:
                print(word, 1, sep="\\t")
"""
REDUCER = """
    import sys

    last, total = None, 0
    for line in sys.stdin:
        key, value = line.rstrip("\\n").split("\\t")
        if key != last and last is not None:
            print(f"{last}\\t{total}")
            total = 0
        last, total = key, total + int(value or 1)
    if last is not None:
        print(f"{last}\\t{total}")
"""
KEEPING = """
    import os
    import sys

    lines = 0
    for line in sys.stdin:
        lines += 1
        if line.startswith("a"):
            print(line, end="")
    print("read", os.path.basename(os.environ["mapreduce_map_input_file"]), lines)
"""
FAILING = """
    import sys

    for line in sys.stdin:
        if line.startswith("c"):
            raise ValueError(line)
        print(line, end="")
"""
FILES = {
    "a.txt": b"b a\na a\n\nc \xc3\xa9 a cr\nkeyless bare two cr a\n" + b"a x\n" * 40 + b"end",
    "b.txt": b"a a\r\ny b\r\n\r\nkeyless\rbare\n",
    "empty.txt": b"",
}
PYTHON = sys.executable


def lines() -> Iterator[tuple[str, list[str]]]:
    """Places of all lines, and the words in them. A CR ends a line for Hadoop, but is no line's end in a place."""
    for name, data in FILES.items():
        for number, line in enumerate(data.decode().removesuffix("\n").split("\n"), 1):
            for part in line.removesuffix("\r").split("\r") if data else ():
                yield f"{name}:{number}", part.split()


def hadoop(
    folder: Path, out: str, *options: str, captured: tuple[str, ...] | None = None
) -> subprocess.CompletedProcess[str]:
    """A job over the files, plain or captured."""
    prefix = [] if captured is None else [*CLI, "mapreduce", *captured]
    job = streaming_command(folder, *options, "-input", "in", "-output", out)
    return run_program(folder, [*prefix, *job])


def both(folder: Path, out: str, *options: str, captured: tuple[str, ...] = ()) -> None:
    """The same job plainly and captured: what they write is the same."""
    plain = hadoop(folder, f"{out}-plain", *options)
    assert plain.returncode == 0, plain.stderr
    done = hadoop(folder, out, *options, captured=captured)
    assert done.returncode == 0, done.stderr
    assert contents(folder / out) == contents(folder / f"{out}-plain")


def rows(out: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each line of an output."""
    for part in part_files(out):
        for number, text in enumerate(part.read_text().split("\n")[:-1], 1):
            yield f"{part}:{number}", text


def found(answer: Answer) -> set[str]:
    """The lines that an answer names."""
    return {Path(item.location or "").name for group in answer.groups for item in group.items}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapreduce")
    for name, data in FILES.items():
        (folder / "in" / name).parent.mkdir(exist_ok=True)
        (folder / "in" / name).write_bytes(data)
    write_job(folder, MAPPER, "mapper.py")
    write_job(folder, REDUCER, "reducer.py")
    write_job(folder, KEEPING, "keeping.py")
    write_job(folder, FAILING, "failing.py")
    return folder


@pytest.fixture(scope="module")
def places() -> dict[str, set[str]]:
    """The places of lines by the keys that they have."""
    places = defaultdict[str, set[str]](set)
    for place, words in lines():
        for word in words:
            places["" if word == "keyless" else word].add(place)
    return places


PROGRAMS = ("-mapper", f"{PYTHON} mapper.py", "-reducer", f"{PYTHON} reducer.py")
SHAPE = ("-D", "mapreduce.job.maps=5", "-D", "mapreduce.job.reduces=3")


@pytest.fixture(scope="module")
def totals(folder: Path) -> Path:
    both(folder, "out", *SHAPE, *PROGRAMS, captured=("--each-line", "--named-keys"))
    return folder / "out"


def test_totals_are_traced_to_the_lines_of_their_key(
    folder: Path, totals: Path, places: dict[str, set[str]]
) -> None:
    verdict = verify(folder, applications(folder)[0]["app"])
    assert (verdict["reasons"], verdict["superset"]) == ([], {})
    counted = Counter[str]()
    for _, words in lines():
        for word in words:
            counted["" if word == "keyless" else word] += 2 if word == "two" else 1
    expected = Counter[Row](
        (f"{key}\t{total}", tuple(sorted(places[key]))) for key, total in counted.items()
    )
    assert traced(folder, totals) == expected
    assert len(part_files(totals)) == 3
    answer = ask(folder, Direction.BACKWARD, f"{part_files(totals)[0]}:1")
    assert answer.exact
    assert answer.complete


@pytest.mark.long
def test_without_declarations_answers_are_supersets(
    folder: Path, totals: Path, places: dict[str, set[str]]
) -> None:
    done = hadoop(folder, "any", *SHAPE, *PROGRAMS, captured=())
    assert done.returncode == 0, done.stderr
    assert contents(folder / "any") == contents(totals)
    verdict = verify(folder)
    assert verdict["superset"] == {"write": [f"{MAP_REASON}; {REDUCE_REASON}"]}
    for place, text in rows(folder / "any"):
        answer = ask(folder, Direction.BACKWARD, place)
        assert answer.complete
        assert not answer.exact
        assert found(answer) >= places[text.split("\t")[0]]


@pytest.mark.long
def test_lines_that_a_mapper_keeps_are_all_in_what_it_writes_at_the_end(folder: Path) -> None:
    both(
        folder,
        "kept",
        "-mapper",
        f"{PYTHON} keeping.py",
        "-reducer",
        "NONE",
        captured=("--each-line",),
    )
    of_file = defaultdict[str, set[str]](set)
    for place, _ in lines():
        of_file[place.partition(":")[0]].add(place)
    texts = dict[str, str]()
    for place, words in lines():
        texts[place] = " ".join(words)
    for place, text in rows(folder / "kept"):
        answer = ask(folder, Direction.BACKWARD, place)
        if text.startswith("read "):
            assert found(answer) == of_file[text.split()[1]]
        else:
            # Its task holds a line that may be made from more: the reason is of the task.
            (line,) = found(answer)
            assert texts[line] == text.rstrip("\t")


@pytest.mark.long
def test_keys_of_several_fields_partition_and_sort_as_they_do_without_capture(
    folder: Path, places: dict[str, set[str]]
) -> None:
    lib = "org.apache.hadoop.mapred.lib"
    settings = {
        "stream.map.output.field.separator": " ",
        "stream.num.map.output.key.fields": "2",
        "stream.reduce.input.field.separator": "=",
        "mapreduce.map.output.key.field.separator": " ",
        "mapreduce.partition.keypartitioner.options": "-k1,1",
        "mapreduce.job.output.key.comparator.class": f"{lib}.KeyFieldBasedComparator",
        "mapreduce.partition.keycomparator.options": "-k2,2r",
        "mapreduce.job.reduces": "2",
    }
    options = [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
    options += ["-partitioner", f"{lib}.KeyFieldBasedPartitioner"]
    both(folder, "fields", *options, "-mapper", "cat", "-reducer", "cat")
    for place, text in rows(folder / "fields"):
        words = text.replace("=", " ").split()
        assert (
            found(ask(folder, Direction.BACKWARD, place))
            >= {place for place, others in lines() if others == words}
            != set()
        )


@pytest.mark.long
def test_a_job_that_fails_is_said_to_have_failed(folder: Path) -> None:
    done = hadoop(
        folder, "failed", "-mapper", f"{PYTHON} failing.py", "-reducer", "cat", captured=()
    )
    assert done.returncode == 1
    verdict = verify(folder)
    assert verdict["status"] == "failed"
    assert verdict["flows"] == 0


def test_what_cannot_be_followed_is_refused_by_name(folder: Path) -> None:
    done = hadoop(folder, "refused", *PROGRAMS, "-combiner", "cat", captured=())
    assert done.returncode == 1
    assert "lineage: -combiner has no record-level lineage" in done.stderr
    assert not (folder / "refused").exists()
