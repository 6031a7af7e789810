"""The part of capture that runs in tasks of Hadoop Streaming: which lines it says that a line was made from."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lineage_emitter.sdk import mapreduce_task
from tests.support.mapreduce_tasks import MARK, run_task

pytestmark = pytest.mark.unit

READING = {
    "loop": "for line in sys.stdin: sys.stdout.write(line)",
    "bytes": "for line in sys.stdin.buffer: sys.stdout.buffer.write(line)",
    "readline": "while line := sys.stdin.readline(): print(line, end='')",
    "fileinput": "sys.argv = sys.argv[:1]\nfor line in fileinput.input(): print(line, end='')",
    "input": """
        while True:
            try:
                print(input())
            except EOFError:
                break
        """,
    "pieces": "for line in sys.stdin:\n    for letter in line: print(letter, end='')",
    "csv": "import csv\nfor row in csv.reader(sys.stdin, delimiter='|'): print(*row, sep='|')",
    "reconfigured": """
        sys.stdin.reconfigure(encoding="latin-1")
        sys.stdout.reconfigure(encoding="latin-1", write_through=False, line_buffering=False)
        for line in sys.stdin: print(line, end="")
        """,
    "writer": "out = codecs.getwriter('utf-8')(sys.stdout.buffer)\nfor line in sys.stdin: out.write(line)",
    "iterator": "lines = iter(sys.stdin)\nfor line in lines: print(line.rstrip(), flush=True)",
}


@pytest.mark.parametrize("name", READING)
def test_a_line_is_made_from_the_one_read_last(tmp_path: Path, name: str) -> None:
    program = "import codecs, fileinput, sys\n" + textwrap.dedent(READING[name])
    # Longer than any buffer on the way.
    given = [b"a\t1", b"\xc3\xa9" * 20_000, b"", b"b"]
    ran = run_task(tmp_path, program, b"".join(line + b"\n" for line in given))
    assert (ran.code, ran.error) == (0, "")
    texts = [b"a|1", given[1] + b"|", b"|", b"b|"]
    assert ran.made_from == [(b"%d" % n, text) for n, text in enumerate(texts)]
    assert (ran.end["rows"], ran.end["is_superset"]) == (4, False)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("print('a'); [print(line[0]) for line in sys.stdin]", [b"-0", b"0", b"1"]),
        ("for line in sys.stdin: pass\nprint('sum')", [b"~0-1"]),
        (
            "lines = sys.stdin.readlines()\nfor line in lines: print(line, end='')",
            [b"~0-1"] * 2,
        ),
        ("for line in sys.stdin: print(line[0], end='')\nprint()", [b"~0-1"]),
        (
            "import atexit\natexit.register(print, 'end')\nfor line in sys.stdin: pass",
            [b"~0-1"],
        ),
        ("for line in sys.stdin: print(line[0], end='\\r')", [b"0", b"1"]),
        ("for line in sys.stdin: print(line[0], end='\\r\\n')", [b"0", b"1"]),
        ("for line in sys.stdin: print('\\n', end='\\r')", [b"0", b"0", b"1"]),
        ("for line in sys.stdin: print(line[0], end='')", [b"~0-1"]),
    ],
)
def test_what_may_be_made_from_more_lines_says_so(
    tmp_path: Path, program: str, expected: list[bytes]
) -> None:
    ran = run_task(tmp_path, f"import sys\n{program}", b"a\nb\n")
    assert (ran.code, ran.error) == (0, "")
    assert [lines for lines, _ in ran.made_from] == expected
    assert ran.end["is_superset"] is any(lines.startswith(b"~") for lines in expected)


@pytest.mark.parametrize(
    "program",
    [
        "out = io.TextIOWrapper(sys.stdout.buffer)\nfor line in sys.stdin: out.write(line)\nout.flush()",
        "sys.stdout = io.TextIOWrapper(sys.stdout.detach())\nfor line in sys.stdin: print(line, end='')",
        "out = io.BufferedWriter(sys.stdout.buffer)\nfor line in sys.stdin.buffer: out.write(line)\nout.flush()",
        "for line in io.TextIOWrapper(sys.stdin.buffer): print(line, end='')",
        "for line in io.BufferedReader(sys.stdin.buffer): print(line.decode(), end='')",
        "for line in codecs.getreader('utf-8')(sys.stdin.buffer): print(line, end='')",
        "while data := sys.stdin.buffer.read(3): print(data.decode(), end='')",
        "while data := sys.stdin.read(3): print(data, end='')",
        "while lines := sys.stdin.readlines(3): print(*lines, sep='', end='')",
    ],
)
def test_what_reads_ahead_or_writes_later_is_a_superset(tmp_path: Path, program: str) -> None:
    given = b"".join(b"%d\n" % n for n in range(9))
    ran = run_task(tmp_path, f"import codecs, io, sys\n{program}", given)
    assert (ran.code, ran.error) == (0, "")
    assert len(ran.made_from) == 9
    for number, (lines, text) in enumerate(ran.made_from):
        assert text == b"%d|" % number
        assert lines.startswith(b"~0-")
        assert int(lines.removeprefix(b"~0-")) >= number


@pytest.mark.parametrize(
    "program",
    [
        "import os; os.read(0, 1)",
        "import os; os.write(1, b'x')",
        "open(0).read()",
        "import subprocess; subprocess.run(['cat'], check=True)",
        "import os; pid = os.fork(); next(sys.stdin) if not pid else sys.exit(os.waitpid(pid, 0)[1] >> 8)",
        "import os; pid = os.fork(); print('x', flush=True) if not pid else sys.exit(os.waitpid(pid, 0)[1] >> 8)",
    ],
)
def test_who_goes_past_the_standard_streams_fails(tmp_path: Path, program: str) -> None:
    ran = run_task(tmp_path, f"import sys; {program}", b"a\n")
    assert ran.code == 1
    assert "Error" in ran.error


def test_what_a_program_puts_in_the_place_of_write_sees_what_it_wrote(tmp_path: Path) -> None:
    program = """
        import io, sys
        write, seen = sys.stdout.write, []
        sys.stdout.write = lambda text: seen.append(text) or write(text)
        for line in sys.stdin:
            sys.stdout.writelines([line[0], line[1:]])
        assert "".join(seen) == "a\\nb\\n", seen
        try:
            io.TextIOWrapper.write(sys.stdout, "past it")
        except io.UnsupportedOperation:
            sys.exit(5)
        """
    ran = run_task(tmp_path, program, b"a\nb\n")
    assert (ran.code, ran.made_from) == (5, [(b"0", b"a|"), (b"1", b"b|")])


@pytest.mark.parametrize("observed", [True, False])
def test_a_record_that_holds_the_mark_stops_the_task(tmp_path: Path, observed: bool) -> None:
    program = f"import sys\nfor line in sys.stdin: print('{MARK.decode()}')"
    ran = run_task(tmp_path, program, b"a\n", observed=observed)
    assert (ran.code, ran.made_from) == (1, [])
    assert "a record holds the mark of capture" in ran.error


@pytest.mark.parametrize("closed", ["sys.stdout", "sys.stdout.buffer"])
def test_a_stream_that_was_closed_takes_no_more(tmp_path: Path, closed: str) -> None:
    program = f"""
        import sys
        for number, line in enumerate(sys.stdin):
            print(line, end="")
            if number == 1:
                sys.stdout.flush()
                {closed}.close()
                assert sys.stdout.closed
                try:
                    print("more")
                except ValueError:
                    sys.exit(5)
        """
    ran = run_task(tmp_path, program, b"a\nb\nc\n")
    assert (ran.code, ran.made_from) == (5, [(b"0", b"a|"), (b"1", b"b|")])


def test_what_was_written_before_a_fork_is_written_once(tmp_path: Path) -> None:
    program = "import os, sys\nfor line in sys.stdin:\n    print(line, end='')\n    os.fork() or os._exit(0)"
    ran = run_task(tmp_path, program, b"a\nb\n")
    assert (ran.code, ran.error) == (0, "")
    assert ran.made_from == [(b"0", b"a|"), (b"1", b"b|")]


def test_a_program_that_is_observed_has_its_own_name_and_folder(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("word = 'here'\n")
    program = "import sys, beside\nfor _ in sys.stdin: print(__name__, beside.word, *sys.argv)\nsys.exit(3)"
    ran = run_task(tmp_path, program, b"a\n")
    assert (ran.code, ran.made_from) == (3, [(b"0", b"__main__ here program.py argument|")])


def test_a_program_that_is_not_observed_may_use_all_it_was_given(tmp_path: Path) -> None:
    program = (
        "import sys\nprint('head')\nsys.stdout.flush()\nfor line in sys.stdin: print(line, end='')"
    )
    ran = run_task(tmp_path, program, b"a\t1\nb\n", observed=False)
    assert [text for _, text in ran.made_from] == [b"head|", b"a|1", b"b|"]
    assert [lines for lines, _ in ran.made_from][1:] == [b"~0-1"] * 2


def test_a_reducer_gets_records_as_hadoop_would_give_them(tmp_path: Path) -> None:
    program = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
    records = [b"%s3.0\tv\tw", b"%s4.1\t", b"%s4.1\t"]
    given = b"k" + b"\nl".join(records + records[:1]) % ((MARK,) * 4) + b"\n"
    ran = run_task(tmp_path, program, given, observed=False, is_map=False)
    assert ran.written == b"k\tv\tw\nl\t\nl\t\nl\tv\tw\n"
    assert sorted(ran.log) == [b"i\t1\tk", b"i\t3\tl", b"o\t1\tk", b"o\t3\tl"]
    assert (ran.end["rows"], ran.end["split"], ran.end["is_of_output"]) == (4, None, True)
    assert ran.end["given"] == {"3.0": 2, "4.1": 2}
    assert ran.end["is_sorted"] is True


@pytest.mark.parametrize(
    ("keys", "is_sorted"),
    [
        ([b"a", b"a", b"b"], True),
        ([b"1", b"1.0", b"1"], False),
        ([b"", b"", b"a"], True),
        ([b"\xff", b"\xc3\xa9"], False),
    ],
)
def test_a_reducer_notices_whether_the_records_of_a_key_stand_together(
    tmp_path: Path, keys: list[bytes], is_sorted: bool
) -> None:
    given = b"".join(key + MARK + b"3.0\tv\n" for key in keys)
    ran = run_task(tmp_path, "import sys; sys.stdin.read()", given, observed=False, is_map=False)
    assert ran.end["is_sorted"] is is_sorted


@pytest.mark.parametrize("value", [b"v", b"v" + MARK + b"3.0\t" + MARK])
def test_records_for_a_reducer_that_no_mapper_wrote_stop_the_task(
    tmp_path: Path, value: bytes
) -> None:
    given = b"k" + MARK + b"3.0\tv\nk\t" + value + b"\n"
    ran = run_task(tmp_path, "import sys; sys.stdin.read()", given, observed=False, is_map=False)
    assert ran.code == 1
    assert "a record holds the mark of capture" in ran.error


def test_a_reducer_that_ends_early_is_not_given_all(tmp_path: Path) -> None:
    program = "import sys\nprint(sys.stdin.readline(), end='')\nsys.stdin.close()"
    given = (b"k" + MARK + b"3.0\tv\n") * 200_000
    ran = run_task(tmp_path, program, given, observed=False, is_map=False)
    assert (ran.code, ran.written, ran.error) == (0, b"k\tv\n", "")
    assert 0 < ran.end["given"]["3.0"] < 200_000
    counts = [int(line.split(b"\t")[1]) for line in ran.log if line.startswith(b"i")]
    assert sum(counts) == ran.end["given"]["3.0"]


def test_settings_of_the_job_divide_records(tmp_path: Path) -> None:
    ran = run_task(
        tmp_path,
        "import os\nimport sys\nfor line in sys.stdin: print(line, end='')\n"
        "print(os.environ.get('stream_map_output_field_separator'))\n"
        "print(os.environ.get('stream_reduce_input_field_separator'))",
        b"a.b.c.d\na.b\na.b.\n",
        lineage_map_separator=".",
        lineage_map_fields="2",
        stream_map_output_field_separator=MARK.decode(),
        stream_reduce_input_field_separator=MARK.decode(),
    )
    assert [text for _, text in ran.made_from] == [b"a.b|c.d", b"a.b|", b"a.b|", b".|", b"None|"]


def test_settings_of_the_site_that_change_records_stop_the_task() -> None:
    ran = subprocess.run(
        [sys.executable, mapreduce_task.__file__, "--as-is", "cat"],
        env={"textinputformat_record_delimiter": ";"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "textinputformat.record.delimiter=; can't be followed" in ran.stderr


def test_a_file_that_changes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    program = "import sys\nfor line in sys.stdin: open('in.txt', 'a').write('more')"
    assert run_task(tmp_path, program, b"a\n").end["is_changed"] is True
    assert run_task(tmp_path, "", b"a\n").end["is_changed"] is False


def test_other_file_systems_are_refused(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, mapreduce_task.__file__, "--as-is", "cat"],
        env={
            "mapreduce_task_ismap": "false",
            "mapreduce_job_reduces": "1",
            "lineage_mark": "x",
            "mapreduce_task_partition": "0",
            "mapreduce_task_attempt_id": "attempt_local1_0001_r_000000_0",
            "mapreduce_task_output_dir": "hdfs://host/out",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "hdfs://host/out is not a file of the local file system" in ran.stderr


def test_tasks_need_the_standard_library_alone() -> None:
    tree = ast.parse(Path(mapreduce_task.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in imports
        for alias in node.names
    }
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
